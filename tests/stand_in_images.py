"""Images that replace those of the registries, which no test can pull.

Each is a Debian root with one program, and keeps the part of the official image's contract that
docker-compose.yml relies on (docs/testing.md).
"""

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker_machine import DockerMachine

from testbed.real.server_programs import CACHE, ROOT, Release, missing, program

BASE = "stand-in-debian"
RECIPES = ROOT / "tests/containers"
WHEELS = CACHE / "wheels"
PIP_CONF = "[global]\nno-index = true\nfind-links = /opt/wheels\n"


def import_base(machine: DockerMachine) -> str:
    """Import a Debian with Python, whose pip uses the wheels that this machine has fetched."""
    root, stamp = CACHE / "bookworm-python", CACHE / "bookworm-python.stamp"
    if not stamp.exists() or not WHEELS.exists():
        missing("Debian root and wheels for images")
    wheels = sorted(path.name for path in WHEELS.glob("*.whl"))
    made_of = f"{stamp.read_text()} {stamp.stat().st_mtime_ns} {wheels}"
    name = f"{BASE}:{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
    if machine.docker("images", "--quiet", name):
        return name
    with tempfile.TemporaryDirectory() as folder:
        added = Path(folder)
        (added / "etc").mkdir()
        (added / "etc/pip.conf").write_text(PIP_CONF)
        shutil.copytree(WHEELS, added / "opt/wheels")
        tar = subprocess.run(
            ["tar", "-c", "-C", root, ".", "-C", added, "./etc/pip.conf", "./opt/wheels"],
            capture_output=True,
            check=True,
        )
    machine.docker("import", "-", name, standard_input=tar.stdout)
    return name


def build_server(machine: DockerMachine, base: str, release: Release) -> str:
    """Build an image of that server, whose entrypoint behaves like the official images'."""
    with _context("server.Dockerfile") as context:
        shutil.copytree(CACHE / release, context / "server", symlinks=True)
        shutil.copy(RECIPES / "entrypoint.sh", context)
        (context / "flavour").write_text("mysql" if release == "mysql" else "mariadb")
        return _build(machine, context, base, f"stand-in-{release}")


def build_monitor(machine: DockerMachine, base: str, name: str) -> str:
    """Build an image of Prometheus or of Alertmanager."""
    tools = {"prometheus": "promtool", "alertmanager": "amtool"}
    with _context(f"{name}.Dockerfile") as context:
        folder = CACHE / name / "usr/bin"
        for wanted in (name, tools[name]):
            debian = f"prometheus-{wanted}" if wanted == "alertmanager" else wanted
            shutil.copy(program(debian, last=folder), context / wanted)
        for template in (CACHE / name).glob("usr/share/prometheus/*/*.tmpl"):
            shutil.copy(template, context)
        return _build(machine, context, base, f"stand-in-{name}")


def prune(machine: DockerMachine) -> None:
    """Delete layers that no build has used for a day; younger ones save the next run a minute."""
    machine.docker("image", "prune", "--force", "--filter", "until=24h")


@contextmanager
def _context(recipe: str) -> Iterator[Path]:
    """Create a build folder with its Dockerfile."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        shutil.copy(RECIPES / recipe, Path(folder) / "Dockerfile")
        yield Path(folder)


def _build(machine: DockerMachine, context: Path, base: str, name: str) -> str:
    machine.docker("build", "--quiet", "--build-arg", f"BASE={base}", "--tag", name, context)
    return name
