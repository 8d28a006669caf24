"""`mysql-headroom files`: the files that a host needs, from a checkout as from the wheel."""

import re
import tomllib
from pathlib import Path

import pytest

from agent.cli import main
from agent.support.shipped_files import HOST_FILES, IN_WHEEL
from testbed.real.server_programs import ROOT

NAMES = sorted(file.name for file in HOST_FILES)


def test_the_wheel_has_each_file_of_the_command() -> None:
    """The files that pyproject.toml puts into the wheel are those that the program looks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    folder = IN_WHEEL.relative_to(ROOT)
    assert included == {file.source: str(folder / file.name) for file in HOST_FILES}
    assert len(set(NAMES)) == len(HOST_FILES)


def test_the_image_has_each_file() -> None:
    """The build context has it, or its folder, and the Dockerfile copies it."""
    context = (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(
        r"^COPY ([^-].*) \S+$", (ROOT / "deploy/docker/Dockerfile").read_text(), re.M
    )
    sources = {source.rstrip("/") for line in copied for source in line.split()}
    for file in HOST_FILES:
        top = file.source.partition("/")[0]
        assert {f"!{file.source}", f"!{top}"} & {*context}, file.source
        assert {file.source, top} & sources, file.source


def test_the_service_and_the_image_set_the_same_environment() -> None:
    """One linear algebra thread, no docstrings, and nothing that the C library keeps by thread."""
    service = re.findall(
        r"(?m)^Environment=(\S+)$", (ROOT / "deploy/systemd/mysql-headroom.service").read_text()
    )
    image = re.search(r"(?m)^ENV ((?:.*\\\n)*.*)$", (ROOT / "deploy/docker/Dockerfile").read_text())
    assert image is not None
    of_image = {word for word in image[1].split() if word != "\\" and not word.startswith("PATH=")}
    assert {*service} - {"PYTHONFAULTHANDLER=1"} == of_image
    assert {"GLIBC_TUNABLES=glibc.malloc.tcache_count=0", "PYTHONOPTIMIZE=2"} <= of_image


def test_the_list_has_the_purpose_of_each_file(capsys: pytest.CaptureFixture[str]) -> None:
    """One line a file, with and without `--list`."""
    assert main(["files"]) == 0
    shown = capsys.readouterr().out
    assert [line.split("  ")[0] for line in shown.splitlines()] == [f.name for f in HOST_FILES]
    assert all(file.purpose in shown for file in HOST_FILES)
    assert main(["files", "--list"]) == 0
    assert capsys.readouterr().out == shown


def test_one_file_is_printed_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    """So that it can be piped to the server."""
    assert main(["files", "grants.sql"]) == 0
    assert capsys.readouterr().out == (ROOT / "deploy/grants.sql").read_text()


def test_all_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Into a folder that may be new, each readable by all, and nothing else."""
    folder = tmp_path / "new/folder"
    assert main(["files", "--write", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    for file in HOST_FILES:
        path = folder / file.name
        assert path.read_text() == (ROOT / file.source).read_text()
        assert path.stat().st_mode & 0o777 == 0o644
    assert sorted(capsys.readouterr().out.splitlines()) == [str(folder / name) for name in NAMES]


def test_existing_files_are_replaced_only_by_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One existing file is one line, and none of the others is written."""
    mine = tmp_path / "grants.sql"
    mine.write_text("mine")
    assert main(["files", "--write", str(tmp_path)]) == 1
    assert capsys.readouterr() == (
        "",
        f"mysql-headroom: {mine}: exists already (--force replaces it)\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["grants.sql"]
    assert main(["files", "--write", str(tmp_path), "--force"]) == 0
    assert mine.read_text() == (ROOT / "deploy/grants.sql").read_text()


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """The file that it points to stays as it was, also by force."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.write_text("theirs")
    folder.mkdir()
    (folder / "grants.sql").symlink_to(elsewhere)
    assert main(["files", "--write", str(folder), "--force"]) == 0
    assert elsewhere.read_text() == "theirs"
    assert not (folder / "grants.sql").is_symlink()


def test_an_impossible_folder_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the path and the reason."""
    (tmp_path / "file").write_text("")
    assert main(["files", "--write", str(tmp_path / "file/folder")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"mysql-headroom: {tmp_path / 'file'}")
    assert said.err.endswith(": Not a directory\n")
    assert said.err.count("\n") == 1


def test_a_link_named_like_the_temporary_file_is_not_followed(tmp_path: Path) -> None:
    """Another user of the directory cannot choose which file is written to."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.write_text("theirs")
    folder.mkdir()
    links = {f".{name}.new" for name in NAMES}
    for link in links:
        (folder / link).symlink_to(elsewhere)
    assert main(["files", "--write", str(folder)]) == 0
    assert elsewhere.read_text() == "theirs"
    assert {path.name for path in folder.iterdir()} == links | set(NAMES)


def test_an_existing_directory_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names that directory, not a temporary file, of which none is left."""
    (tmp_path / NAMES[0]).mkdir()
    assert main(["files", "--write", str(tmp_path), "--force"]) == 1
    said = capsys.readouterr().err
    assert said == f"mysql-headroom: {tmp_path / NAMES[0]}: Is a directory\n"
    assert {path.name for path in tmp_path.iterdir()} <= set(NAMES)


def test_a_file_in_place_of_the_directory_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays as it is."""
    (file := tmp_path / "file").write_text("mine")
    assert main(["files", "--write", str(file)]) == 1
    problem = "it is not a directory; name another"
    assert capsys.readouterr() == ("", f"mysql-headroom: {file}: {problem}\n")
    assert file.read_text() == "mine"


@pytest.mark.parametrize("others", [(), ("--list",), ("grants.sql",)])
def test_force_alone_is_a_usage_error(
    others: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would replace nothing."""
    assert main(["files", *others, "--force"]) == 2
    problem = "--force needs --write DIR"
    assert capsys.readouterr() == ("", f"mysql-headroom: {problem}\n")
