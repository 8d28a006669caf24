"""Files that people write, with anything in them: used, or every mistake told; never a trace."""

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from fuzzing import any_text, fuzz, told, with_slips
from hypothesis import example, given
from hypothesis import strategies as st
from web_clients import Authority, password_hash

from agent.config.base_model import Section
from agent.config.credentials import Credentials, client_options
from agent.config.durations import duration_in_seconds
from agent.config.loader import load_config
from agent.config.settings import CollectorSettings, Config, FitSettings, Target, TlsSettings
from agent.web.config import HttpServerConfig, TlsServerConfig, WebConfig
from agent.web.reloading_config import load_web_config
from collectors.base import CollectorError

ROOT = Path(__file__).resolve().parent.parent
SECRET = "Tr0ub4dor+3"
HASH = password_hash("hunter2")
MY_CNF = f"""\
# the account
[mysqld]
port = 1
[client]
user = headroom
password = "{SECRET}"
host = 127.0.0.1
port = 3306
ssl-ca = {{ca}}
ssl-mode = VERIFY_IDENTITY
"""
BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
MERGE_BOMB = "a0: &a0 {k0: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files that the examples name, and the environment."""
    made = tmp_path_factory.mktemp("fuzz")
    authority = Authority(made)
    authority.issue("server", "127.0.0.1")
    Authority(made, "clients")
    (made / "ca.pem").write_bytes(authority.file.read_bytes())
    (made / "password").write_text(SECRET)
    (made / "public_key.pem").write_text("a key")
    (made / "reports.cnf").write_text(MY_CNF.format(ca=made / "ca.pem"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADROOM_PASSWORD", SECRET)
        yield made


def words(*sections: type[Section]) -> st.SearchStrategy[str]:
    """The keys of those sections."""
    return st.sampled_from([key for section in sections for key in section.__struct_fields__])


def values(keys: st.SearchStrategy[str]) -> st.SearchStrategy[object]:
    """Anything that YAML can say, with those keys among others."""
    scalars = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | keys
    ) | st.sampled_from(["1s", "30m", "a", 10**400, "9" * 400, "", 1e300, HASH, "TLS13"])
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(keys | st.text(max_size=4) | st.integers(), inner, max_size=5)
        ),
        max_leaves=20,
    )


KEYS = words(Config, Target, FitSettings, TlsSettings, CollectorSettings)
WEB_KEYS = words(WebConfig, TlsServerConfig, HttpServerConfig)


@fuzz(300)
@given(data=st.dictionaries(words(Config), values(KEYS)))
def test_no_structure_of_a_configuration_causes_a_trace(
    folder: Path, data: dict[str, object]
) -> None:
    """Whatever values the known keys have."""
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    told(load_config, path)


@fuzz(300)
@given(data=st.data())
def test_no_target_causes_a_trace(folder: Path, data: st.DataObject) -> None:
    """Whatever keys it has beside its name."""
    said = data.draw(st.dictionaries(words(Target), values(KEYS), max_size=4))
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"targets": [{"name": "a", "user": "u", **said}]}))
    told(load_config, path)


@fuzz(400)
@given(data=st.data())
def test_no_edit_of_the_example_causes_a_trace(folder: Path, data: st.DataObject) -> None:
    """The shipped example with something cut, overwritten or inserted."""
    text = (ROOT / "config.example.yaml").read_text()
    path = folder / "config.yaml"
    valid = text.replace("/etc/mysql-headroom", str(folder))
    path.write_bytes(data.draw(with_slips(valid) | any_text()))
    told(load_config, path)


@pytest.mark.parametrize("tag", ["int", "float", "bool", "timestamp", "binary", "set", "omap"])
@pytest.mark.parametrize("value", ["", "x", "''", "[a]", "{a: b}"])
def test_no_yaml_tag_causes_a_trace(folder: Path, tag: str, value: str) -> None:
    """A value that does not fit its tag."""
    path = folder / "config.yaml"
    path.write_text(f"listen: !!{tag} {value}\n")
    assert told(load_config, path)


@pytest.mark.parametrize("text", [BOMB, MERGE_BOMB, "[" * 9999, "{a: " * 9999, "- " * 9999])
def test_a_small_file_that_expands_without_end_is_refused(folder: Path, text: str) -> None:
    """Aliases of aliases, merged or not, and endless nesting, take no time."""
    path = folder / "config.yaml"
    path.write_text(text)
    assert told(load_config, path)
    assert told(load_web_config, path)


LARGE: dict[str, Callable[[], str]] = {
    "comment": lambda: "#" + "x" * 20_000_000,
    "comments": lambda: "# x\n" * 260_000,
    "keys": lambda: "".join(f"k{number}: 1\n" for number in range(200_000)),
    "fewer keys": lambda: "".join(f"k{number}: 1\n" for number in range(70_000)),
    "a list": lambda: "targets: [" + "a," * 300_000 + "]",
    "mistakes": lambda: "targets:\n" + "- {name: a}\n" * 5_000,
}
"""Made when they are needed: each process of a run loads this module."""


@pytest.mark.parametrize("text", LARGE.values(), ids=list(LARGE))
def test_a_file_that_is_too_large_is_refused_at_once(folder: Path, text: Callable[[], str]) -> None:
    """With few lines and little work: a reload stops the loop that pings the watchdog."""
    path = folder / "config.yaml"
    path.write_text(text())
    for read in (load_config, load_web_config):
        started = time.thread_time()
        problems = told(read, path)
        assert time.thread_time() - started < 4.0
        assert 0 < len(problems) <= 51


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "fifo", "/proc/kmsg", "/"])
def test_a_configuration_that_is_no_regular_file_is_refused_at_once(
    folder: Path, device: str
) -> None:
    """Without blocking, at the start or at a reload."""
    path = folder / "device"
    path.unlink(missing_ok=True)
    if device == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(device)
    for read in (load_config, load_web_config):
        (problem,) = told(read, path)
        assert "cannot be read: " in problem


@pytest.mark.parametrize("key", ["cert_file", "key_file", "client_ca_file"])
@pytest.mark.parametrize("device", ["/dev/zero", "/proc/kmsg", "fifo"])
def test_no_file_named_by_a_configuration_blocks(folder: Path, key: str, device: str) -> None:
    """OpenSSL would read a pipe or a device without end."""
    path = folder / "web.yml"
    pipe = folder / "pipe"
    if not pipe.exists():
        os.mkfifo(pipe)
    name = str(pipe) if device == "fifo" else device
    files = {"cert_file": "server.crt", "key_file": "server.key", key: name}
    path.write_text(yaml.safe_dump({"tls_server_config": files}))
    assert [p for p in told(load_web_config, path) if f"{key}: cannot be read" in p]
    if key == "client_ca_file":
        tls = {"name": "a", "user": "u", "tls": {"ca": name}}
        path.write_text(yaml.safe_dump({"targets": [tls]}))
        assert len(told(load_config, path)) == 1


@fuzz(200)
@given(data=st.dictionaries(words(WebConfig), values(WEB_KEYS)))
def test_no_structure_of_a_web_configuration_causes_a_trace(
    folder: Path, data: dict[str, object]
) -> None:
    """Whatever values the known keys have."""
    path = folder / "web.yml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), encoding="utf-8")
    told(load_web_config, path)


@fuzz(400)
@given(data=st.data())
def test_no_edit_of_the_web_example_causes_a_trace(folder: Path, data: st.DataObject) -> None:
    """The shipped example with something cut, overwritten or inserted."""
    path = folder / "web.yml"
    valid = (ROOT / "docs/examples/web-config.yml").read_text()
    path.write_bytes(data.draw(with_slips(valid) | any_text()))
    told(load_web_config, path)


@fuzz(400)
@given(data=st.data())
def test_no_my_cnf_causes_a_trace_or_shows_its_password(folder: Path, data: st.DataObject) -> None:
    """Neither when the configuration is read nor at a login."""
    my_cnf = folder / "my.cnf"
    my_cnf.write_bytes(data.draw(with_slips(MY_CNF.format(ca=folder / "ca.pem")) | any_text()))
    path = folder / "config.yaml"
    path.write_text(f"targets: [{{name: a, defaults_file: {my_cnf}}}]\n")
    assert SECRET not in "".join(told(load_config, path))
    with contextlib.suppress(CollectorError):
        Credentials(defaults_file=my_cnf).login()
    with contextlib.suppress(OSError, ValueError):
        client_options(my_cnf)


SECRET_PLACES = (
    *(("listen",), ("log", "level"), ("fit", "window"), ("collectors", "host", "interval")),
    *(("targets", 0, key) for key in Target.__struct_fields__ if key != "name"),
    *(("targets", 3, "tls", key) for key in TlsSettings.__struct_fields__),
)


@pytest.mark.parametrize("place", SECRET_PLACES, ids=lambda place: ".".join(map(str, place)))
@pytest.mark.parametrize("shape", ["plain", "list", "below", "long", "quoted"])
def test_a_secret_in_the_wrong_place_is_not_shown(
    folder: Path, place: tuple[str | int, ...], shape: str
) -> None:
    """Wherever in the file a password is, no message repeats it."""
    data = deepcopy(example_in(folder))
    shapes = {
        "plain": SECRET,
        "list": [SECRET],
        "below": {"user": SECRET},
        "long": SECRET * 500,
        "quoted": f"'{SECRET}\"\n{SECRET}",
    }
    *above, last = place
    section = data
    for key in above:
        section = section[key]
    section[last] = shapes[shape]
    path = folder / "config.yaml"
    path.write_text(yaml.dump(data, Dumper=yaml.CSafeDumper))
    assert SECRET not in "".join(told(load_config, path))


@cache
def example_in(folder: Path) -> Any:
    """The configuration as it is delivered, with its files in that folder; parsed once."""
    text = (ROOT / "config.example.yaml").read_text()
    return yaml.safe_load(text.replace("/etc/mysql-headroom", str(folder)))


@pytest.mark.parametrize("option", ["port", "ssl-ca", "ssl-mode", "host", "socket", "user"])
def test_a_secret_in_the_wrong_option_is_not_shown(folder: Path, option: str) -> None:
    """A my.cnf with its password under another name is handled alike."""
    my_cnf = folder / "my.cnf"
    my_cnf.write_text(f"[client]\nuser=u\n{option}={SECRET}\n")
    path = folder / "config.yaml"
    path.write_text(f"targets: [{{name: a, defaults_file: {my_cnf}}}]\n")
    assert SECRET not in "".join(told(load_config, path))


@fuzz(500)
@given(
    value=st.text(max_size=30)
    | st.lists(st.sampled_from(["1", "0.5", "9" * 5000, "ms", "s", "h", "d", "."])).map("".join)
    | st.integers()
    | st.floats()
    | st.none()
    | st.booleans()
)
@example(value=10**400)
@example(value="1" * 200_000)
@example(value="9" * 400 + "s")
def test_a_duration_is_seconds_or_a_mistake(value: object) -> None:
    """Never infinite, and never another exception."""
    found = 0.0
    with contextlib.suppress(ValueError):
        found = duration_in_seconds(value)
    assert math.isfinite(found)
