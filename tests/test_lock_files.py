"""Lock files pin all requirements by hash, and the audit says what it could not check."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lock_files import pinned

from testbed.real.server_programs import ROOT

LOCKS = sorted(ROOT.glob("requirements*.lock"))
REPORT = ROOT / ".ci/audit_report.py"


def names(requirements: list[str]) -> set[str]:
    """The names alone, as lock files write them."""
    found = (re.match(r"[A-Za-z0-9._-]+", text) for text in requirements)
    return {match[0].lower().replace("_", "-") for match in found if match}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_each_line_is_pinned_by_hash_and_names_no_index(lock: Path) -> None:
    """No library by version alone, nor from a place that the file names."""
    text = lock.read_text()
    assert "://" not in text
    entries = re.split(r"(?m)^(?=\S)", text)
    assert [entry for entry in entries if entry and "--hash=sha256:" not in entry] == []


def test_the_locks_have_every_requirement_of_pyproject() -> None:
    """And both have the same versions."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runs = pinned(ROOT / "requirements.lock")
    dev = pinned(ROOT / "requirements-dev.lock")
    assert names(project["dependencies"]) <= set(runs)
    assert names(project["optional-dependencies"]["dev"]) <= set(dev)
    assert runs.items() <= dev.items()


def report(*libraries: dict[str, object]) -> tuple[int, str]:
    """The exit code for what pip-audit found, and what is said of it."""
    return report_on(json.dumps({"dependencies": libraries}), Path(os.devnull))


def report_on(output: str, errors: Path) -> tuple[int, str]:
    """The same for its whole output."""
    done = subprocess.run(
        [sys.executable, REPORT, errors], input=output, capture_output=True, text=True
    )
    return done.returncode, done.stderr


def test_a_known_vulnerability_fails_the_audit() -> None:
    """It is named, with the version that fixes it."""
    flaw = {"id": "PYSEC-1", "fix_versions": ["2.0"]}
    code, said = report(
        {"name": "good", "version": "1", "vulns": []},
        {"name": "bad", "version": "1.0", "vulns": [flaw]},
    )
    assert (code, said) == (1, "audit: bad 1.0 has PYSEC-1 (mended in 2.0)\n")


def test_an_unreachable_audit_service_is_reported() -> None:
    """Libraries that were skipped do not count as audited."""
    code, said = report({"name": "a", "version": "1", "skip_reason": "not found"})
    assert code == 0
    assert "was not run" in said
    code, said = report(
        {"name": "a", "version": "1", "skip_reason": "not found"},
        {"name": "b", "version": "1", "vulns": []},
    )
    assert (code, said) == (0, "audit: 1 of 2 libraries audited, no vulnerability known\n")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("", (2, "audit: pip-audit failed: no output\n")),
        ("usage: …\nno such option\n", (2, "audit: pip-audit failed: no such option\n")),
    ],
)
def test_a_failure_of_pip_audit_fails_the_audit(
    error: str, expected: tuple[int, str], tmp_path: Path
) -> None:
    """Unlike a service that cannot be reached."""
    (tmp_path / "errors").write_text(error)
    assert report_on("", tmp_path / "errors") == expected
    (tmp_path / "errors").write_text("ERROR: Could not connect to the service: timed out\n")
    code, said = report_on("", tmp_path / "errors")
    assert (code, "was not run" in said) == (0, True)
