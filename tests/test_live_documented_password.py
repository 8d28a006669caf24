"""The commands that create the account's password, where the server has a password policy."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import ServerFactory

from testbed.real.clients import run_as_root

ROOT = Path(__file__).resolve().parent.parent
PASSWORD = re.compile(r"^ *(.*) \| install -m 600 /dev/stdin /etc/mysql-headroom/password$", re.M)


@pytest.mark.parametrize("page", ["README.md", "docs/systemd.md"])
def test_the_password_satisfies_mysqls_policy(page: str, private_server: ServerFactory) -> None:
    """That of validate_password with its defaults, which RPM packages enable."""
    [command] = PASSWORD.findall((ROOT / page).read_text())
    password = subprocess.check_output(["/bin/sh", "-c", command], text=True).strip()
    server = private_server("mysql")
    run_as_root(
        server,
        "INSTALL COMPONENT 'file://component_validate_password'",
        f"CREATE USER 'headroom'@'%' IDENTIFIED BY '{password}'",
    )
