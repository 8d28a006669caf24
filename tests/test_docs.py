"""The docs tell the truth: examples print what they show, and links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from agent.cli import main

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])


def test_the_readmes_fit_prints_what_it_shows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newcomer who runs the example sees the very lines of the README."""
    monkeypatch.chdir(ROOT)
    shown = re.search(
        r"<!-- example: fit -->\n```\n\$ mysql-headroom ([^\n]*)\n(.*?)```",
        (ROOT / "README.md").read_text(),
        flags=re.DOTALL,
    )
    assert shown is not None
    assert main(shlex.split(shown[1])) == 0
    assert capsys.readouterr().out == shown[2]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    """A file that is named exists, and so does the heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in _anchors(file), target


def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", file.read_text(), flags=re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_numbers_have_a_digit_before_the_point(page: Path) -> None:
    """0.3, as readers expect it, and not the point alone."""
    assert re.findall(r"(?m)(?:^|[\s(|~±−–/])\.\d.*", page.read_text()) == []


def test_every_file_that_the_docs_name_exists() -> None:
    """Code spans that look like a path of the project are one."""
    for page in PAGES:
        for name in re.findall(
            r"`((?:agent|collectors|models|tests|testbed|deploy|scripts|bench)/[\w./-]+)`",
            page.read_text(),
        ):
            assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_the_readme_leads_to_every_page() -> None:
    """A reader who starts at the top misses nothing."""
    linked = set(re.findall(r"\]\((docs/[\w-]+\.md)", (ROOT / "README.md").read_text()))
    assert linked == {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
