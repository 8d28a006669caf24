"""The configuration file: what is accepted, and that every mistake is listed with its place."""

import json
import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from error_lines import mistakes
from msgspec import structs
from unprivileged_user import as_unprivileged_user, world_readable_folder

from agent.config.base_model import InvalidValuesError, Section
from agent.config.durations import duration_in_seconds
from agent.config.history_settings import HistorySettings, RetentionSettings
from agent.config.loader import load_config
from agent.config.settings import (
    CollectorSettings,
    Config,
    FitSettings,
    LogSettings,
    Target,
    TlsSettings,
)
from agent.config.yaml_loader import ConfigError
from collectors import COLLECTORS
from collectors.endpoint import Endpoint

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "config.example.yaml"


def written(tmp_path: Path, text: str) -> Path:
    """A configuration file with that text."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return path


def problems(path: Path) -> list[str]:
    """What is wrong with the file, without its name."""
    return mistakes(load_config, path)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with its files where a test may write them."""
    monkeypatch.setenv("HEADROOM_PASSWORD", "secret")
    text = EXAMPLE.read_text().replace("/etc/mysql-headroom", str(tmp_path))
    for name in ("password", "reports.cnf", "ca.pem", "public_key.pem"):
        (tmp_path / name).write_text("[client]\nuser = someone\nhost = db2\n")
    return written(tmp_path, text)


def test_the_example_is_accepted_as_it_stands(example: Path) -> None:
    """An operator may copy the example and change only what differs."""
    config = load_config(example)
    assert [target.name for target in config.targets][:2] == ["primary", "replica"]
    assert config.targets[2].endpoint == Endpoint(host="db2")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("15s", 15), ("1h30m", 5400), ("4w", 28 * 86_400), ("1w1d", 8 * 86_400)],
)
def test_a_duration_has_the_units_of_prometheus(text: str, seconds: float) -> None:
    """Weeks, too."""
    assert duration_in_seconds(text) == seconds


def test_the_example_shows_every_key_with_its_default(example: Path) -> None:
    """The example is complete, and its values for the whole file are those without it."""
    shown = yaml.safe_load(example.read_text())
    assert set(shown) == set(Config.__struct_fields__)
    assert set(shown["fit"]) == set(FitSettings.__struct_fields__)
    assert list(shown["collectors"]) == [spec.name for spec in COLLECTORS]
    target_keys = {key for target in shown["targets"] for key in target}
    assert target_keys == set(Target.__struct_fields__)
    given = load_config(example)
    bare = Config.validated({"targets": shown["targets"]})
    assert (given.listen, given.log, given.fit) == (bare.listen, bare.log, bare.fit)
    assert set(shown["history"]) == set(HistorySettings.__struct_fields__)
    assert set(shown["history"]["retention"]) == set(RetentionSettings.__struct_fields__)
    assert structs.replace(given.history, path=None) == bare.history
    for spec in COLLECTORS:
        settings = given.collectors[spec.name]
        assert (settings.enabled, settings.interval) == (True, spec.interval)


def test_every_mistake_is_listed_at_once_with_its_line_and_key(tmp_path: Path) -> None:
    """All mistakes can be corrected in one go."""
    path = written(
        tmp_path,
        """\
listen: nowhere
fitt: 3
fit:
  interval: -5
  window: soon
log: {level: loud}
targets:
  - name: a
    user: u
    port: "3306"
    passwrd: hunter2
  - name: a
    user: u
    password_file: /no/such/file
    collectors: {statuss: {}, status: {enabled: false}}
  - name: c
    socket: /x
    host: h
    password: hunter2
""",
    )
    assert problems(path) == [
        "1: listen: must be an address and a port, such as 127.0.0.1:10104, [::1]:10104 or :10104",
        "2: fitt: unknown key; did you mean fit?",
        "4: fit.interval: must be from 1s to 10m",
        "5: fit.window: not a duration; write 500ms, 15s, 10m, 6h, 1d, 1w or a number of seconds",
        "6: log.level: must be 'debug', 'info', 'warning' or 'error'",
        "10: targets[0].port: must be a whole number",
        "11: targets[0].passwrd: unknown key; did you mean password_env or password_file?",
        "12: targets[1].name: the name 'a' is taken by targets[0]; choose another",
        "14: targets[1].password_file: no such file; check the path",
        "15: targets[1].collectors.status.enabled: status cannot be switched off: everything "
        "else depends on it",
        "15: targets[1].collectors.statuss: unknown collector;"
        " the collectors are status, statements,"
        " threads, digests, host",
        "16: targets[2].user: missing (or give a defaults_file that names one)",
        "17: targets[2].socket: give either a socket, or host and port",
        "19: targets[2].password: a password does not belong in this file; use one of"
        " password_file, password_env, defaults_file",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("targets: [\n- a: {", "2: not readable as YAML"),
        ("listen: :1\nlisten: :2\n", "2: not readable as YAML: the key 'listen' is written twice"),
        (
            'listen: :1\ntargets: [{name: a, user: u, labels: {team: "x\\ud83d"}}]\n',
            "2: not readable as YAML: half of a character",
        ),
        (
            "targets:\n- {name: a, user: u, port: 03306}\n",
            "2: not readable as YAML: a number with a leading zero, which YAML reads as octal;",
        ),
        (
            "history: {max_size: -017}\ntargets: [{name: a, user: u}]\n",
            "1: not readable as YAML: a number with a leading zero",
        ),
        (
            "history: {path: ~/history.db}\ntargets: [{name: a, user: u}]\n",
            "1: history.path: begins with ~, which is not expanded; write the whole path",
        ),
        (
            "targets: [{name: a, user: u, password_file: ~agent/password}]\n",
            "1: targets[0].password_file: begins with ~, which is not expanded",
        ),
        ("", " is empty; `mysql-headroom files config.example.yaml` shows what it looks like"),
        (
            "# nothing yet\n",
            " is empty; `mysql-headroom files config.example.yaml` shows what it looks like",
        ),
        ("- a", " not a configuration; see `mysql-headroom files config.example.yaml`"),
        ("listen: :1\n", "1: targets: missing"),
        ("listen: :65536\n", "1: listen: a port is at most 65535"),
        ("listen: 10104\n", "1: listen: must be an address and a port, such as 127.0.0.1:10104"),
        ("targets: []\n", "1: targets: must name at least one server"),
        ("targets: {a: 1}\n", "1: targets: must be a list"),
        ("targets: [3]\n", "1: targets[0]: must be a mapping of keys to values"),
        ("targets: [{name: 'a b', user: u}]\n", "1: targets[0].name: must have up to 63 letters"),
        ('targets: [{name: "a\\n", user: u}]\n', "1: targets[0].name: must have up to 63 letters"),
        ("targets: [", "1: not readable as YAML: a quote or a bracket is not closed"),
        ("a: &a [*a]\n", "1: a: unknown key"),
        (
            "targets: [{name: a, user: u, sla: 5ms}]\n",
            "1: targets[0].sla: unknown key; did you mean sla_seconds?",
        ),
        ("sla: 5ms\n", "1: sla: unknown key here; sla_seconds belongs in targets[]"),
        (
            "window: 1h\n",
            "1: window: unknown key here; window belongs in fit or in classes",
        ),
        (
            "targets: [{name: a, user: u, classes: {top: 5}}]\n",
            "1: targets[0].classes: unknown key here; classes belongs at the top of the file",
        ),
        (
            "targets: [{name: a, user: u, tls: true}]\n",
            "1: targets[0].tls: must be a mapping of keys to values; the keys here are required,",
        ),
        ("targets: &a [*a]\n", "1: targets[0]: must be a mapping of keys to values"),
        ("? [a]\n: b\n", "1: not readable as YAML"),
        ("log: {}\n---\nlog: {}\n", "2: not readable as YAML: a second document begins here (---)"),
        (
            "log:\n  level: @a\n",
            "2: not readable as YAML: a value that begins with @, % or ` needs",
        ),
        (
            "log:\n  level: %a\n",
            "2: not readable as YAML: a value that begins with @, % or ` needs",
        ),
        ("log:\n  level: *a\n", "2: not readable as YAML: a value that begins with * needs quotes"),
        ("log:\n  level: !a\n", "2: not readable as YAML: a value that begins with ! needs quotes"),
        ("\tx", "1: not readable as YAML: a tab; YAML is indented with spaces"),
        ("targets:\n - name: a\n  user: u\n", "3: not readable as YAML: indented differently from"),
        (
            "targets:\n- name: a\n    user: u\n",
            "3: not readable as YAML: a colon is missing or one",
        ),
        ("targets: [{name: 'a}]\n", "2: not readable as YAML: a quote or a bracket is not closed"),
        ("log\ntargets: []\n", "2: not readable as YAML: a colon is missing or one too many"),
    ],
)
def test_a_file_of_the_wrong_structure_is_one_line(
    tmp_path: Path, text: str, expected: str
) -> None:
    """No structure of a file causes a trace."""
    path = written(tmp_path, text)
    assert any(found.startswith(expected) for found in problems(path)), problems(path)


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    """A missing file, a folder and a binary file each have a message."""
    assert "No such file or directory; check the path" in problems(tmp_path / "nothing")[0]
    assert "cannot be read: Is a directory; check the path" in problems(tmp_path)[0]
    (tmp_path / "b").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read: not UTF-8 text; save it as UTF-8" in problems(tmp_path / "b")[0]


def test_no_message_shows_a_value_of_the_file(tmp_path: Path) -> None:
    """A secret in the wrong place does not end up in a log."""
    secret = "hunter2"
    path = written(
        tmp_path,
        f"targets:\n- {{name: a, user: [{secret}], password: {secret}, port: {secret}}}\n"
        f"listen: {secret}\n",
    )
    assert problems(path)
    assert secret not in "".join(problems(path))


def test_a_targets_settings_override_the_files_key_by_key(tmp_path: Path) -> None:
    """Keys that a target lacks are inherited, not reset to a default."""
    config = load_config(
        written(
            tmp_path,
            "fit: {interval: 30s, window: 2h}\n"
            "collectors: {host: {enabled: false, interval: 2s}}\n"
            "targets:\n"
            "- {name: a, user: u, fit: {window: 1d}, collectors: {host: {enabled: true}}}\n"
            "- {name: b, user: u}\n",
        )
    )
    a, b = config.targets
    assert (config.fit_settings(a).interval, config.fit_settings(a).window) == (30.0, 86400.0)
    assert config.fit_settings(b).window == 7200.0
    assert config.collector_settings(a, "host").enabled
    assert config.collector_settings(a, "host").interval == 2.0
    assert not config.collector_settings(b, "host").enabled


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:10104", ("127.0.0.1", 10104)), (":80", ("", 80)), ("[::1]:9", ("::1", 9))],
)
def test_the_listen_address_is_parsed(
    tmp_path: Path, listen: str, address: tuple[str, int]
) -> None:
    """Host and port, every interface, and IPv6."""
    config = load_config(
        written(tmp_path, f"listen: '{listen}'\ntargets: [{{name: a, user: u}}]\n")
    )
    assert config.address == address


def test_an_emoji_may_be_escaped_as_in_json(tmp_path: Path) -> None:
    """As a surrogate pair: single halves would break every scrape."""
    target = {"name": "a", "user": "u", "labels": {"team": "\N{WHALE} db"}}
    text = json.dumps({"targets": [target]})
    assert "\\ud83d" in text
    [found] = load_config(written(tmp_path, text)).targets
    assert found.labels == {"team": "\N{WHALE} db"}


def test_the_default_listen_address_is_loopback(tmp_path: Path) -> None:
    """Without an address nobody else is served."""
    file = written(tmp_path, "targets: [{name: db, user: a, port: 3306}]")
    assert load_config(file).address == ("127.0.0.1", 10104)


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    """An override is checked like the file itself."""
    path = written(tmp_path, "log: {format: json}\ntargets: [{name: a, user: u}]\n")
    config = load_config(path, {"listen": ":1", "log": {"level": "debug"}})
    assert (config.listen, config.log.level, config.log.format) == (":1", "debug", "json")
    with pytest.raises(ConfigError, match="listen"):
        load_config(path, {"listen": "nowhere"})


def test_a_file_that_is_loaded_again_is_read_anew(tmp_path: Path) -> None:
    """The cache takes nothing from the command line, and ends with a change."""
    path = written(tmp_path, "targets: [{name: a, user: u}]\n")
    assert load_config(path, {"log": {"level": "debug"}, "listen": ":1"}).log.level == "debug"
    assert (load_config(path).log.level, load_config(path).address[1]) == ("info", 10104)
    path.write_text("targets: [{name: b, user: u}]\n")
    assert load_config(path).targets[0].name == "b"
    path.write_text("targets: []\n")
    for _ in range(2):
        assert mistakes(load_config, path) == ["1: targets: must name at least one server"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("[client]\nport=many\nuser=u\n", "port: must be a whole number from 1 to 65535"),
        ("[client]\nhost=h\n", "has no user in its group [client]"),
        ("[client]\nuser=u\nssl-ca=/no/such\n", "ssl-ca: no such file; check the path"),
        ("[client]\nuser=u\nssl-mode=VERIFY_CA\n", "ssl-mode: needs an ssl-ca to verify"),
        (
            "[client]\nuser=u\nssl-mode=REQIRED\n",
            "ssl-mode: must be DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY",
        ),
    ],
)
def test_an_unusable_my_cnf_is_reported_at_the_start(
    tmp_path: Path, options: str, expected: str
) -> None:
    """What would fail later is found when the file is read."""
    (tmp_path / "my.cnf").write_text(options)
    path = written(tmp_path, f"targets: [{{name: a, defaults_file: {tmp_path / 'my.cnf'}}}]\n")
    (problem,) = problems(path)
    assert problem.startswith(f"1: targets[0].defaults_file: {tmp_path / 'my.cnf'}: ")
    assert expected in problem


@pytest.mark.parametrize("option", ["ssl-ca", "server-public-key-path"])
def test_an_unreadable_key_of_a_my_cnf_is_reported(tmp_path: Path, option: str) -> None:
    """With the my.cnf, its option, the file that this names, and the reason."""
    key, options = tmp_path / "key", tmp_path / "my.cnf"
    with key.open("wb") as file:
        file.truncate(2**23)
    options.write_text(f"[client]\nuser=u\n{option}={key}\n")
    (problem,) = problems(written(tmp_path, f"targets: [{{name: a, defaults_file: {options}}}]\n"))
    expected = f"{options}: {option}: {key}: cannot be read: larger than 4096 KiB"
    assert problem.startswith(f"1: targets[0].defaults_file: {expected}")


def test_tls_follows_the_my_cnf_unless_overridden(tmp_path: Path) -> None:
    """A named authority makes TLS required; identity is checked if requested."""
    (tmp_path / "ca").write_text("")
    (tmp_path / "my.cnf").write_text(
        f"[client]\nuser=u\nssl-ca={tmp_path / 'ca'}\nssl-mode=VERIFY_IDENTITY\n"
    )
    text = (
        f"targets:\n- {{name: a, defaults_file: {tmp_path / 'my.cnf'}}}\n- {{name: b, user: u}}\n"
    )
    a, b = load_config(written(tmp_path, text)).targets
    assert (a.endpoint.tls_ca, a.endpoint.tls_required) == (str(tmp_path / "ca"), True)
    assert a.endpoint.tls_verify_identity
    assert (b.endpoint.tls_ca, b.endpoint.tls_required) == (None, False)


@pytest.mark.parametrize(
    ("mode", "required"), [("PREFERRED", False), ("DISABLED", False), ("required", True)]
)
def test_the_tls_requirement_of_a_my_cnf_is_kept(tmp_path: Path, mode: str, required: bool) -> None:
    """A server without TLS is refused where the my.cnf requires it."""
    (tmp_path / "my.cnf").write_text(f"[client]\nuser=u\nssl-mode={mode}\n")
    text = f"targets: [{{name: a, defaults_file: {tmp_path / 'my.cnf'}}}]\n"
    (found,) = load_config(written(tmp_path, text)).targets
    assert found.endpoint.tls_required is required


def test_every_key_is_documented() -> None:
    """docs/configuration.md has each key of each section."""
    text = (ROOT / "docs" / "configuration.md").read_text()
    sections: dict[str, type[Section]] = {
        "log": LogSettings,
        "fit": FitSettings,
        "history.retention": RetentionSettings,
        "targets[].tls": TlsSettings,
    }
    keys = {
        f"{name}.{key}" for name, section in sections.items() for key in section.__struct_fields__
    }
    keys |= {"history.path", "history.max_size"}
    keys |= {f"collectors.NAME.{key}" for key in CollectorSettings.__struct_fields__} | {"listen"}
    assert {key for key in keys if f"`{key}`" not in text} == set()
    assert {key for key in Target.__struct_fields__ if f"{key}`" not in text} == set()
    for spec in COLLECTORS:
        assert f"| `{spec.name}` | {spec.interval:g} s |" in text


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (15.0, {"status": 7.5, "statements": 7.5, "threads": 15, "digests": 15, "host": 5}),
        (600.0, {"status": 7.5, "statements": 7.5, "threads": 15, "digests": 15, "host": 5}),
        (6.0, {"status": 3, "statements": 3, "threads": 6, "digests": 6, "host": 2}),
        (1.0, {"status": 1, "statements": 1, "threads": 5, "digests": 2, "host": 1}),
    ],
)
def test_short_intervals_have_enough_samples(
    interval: float, expected: Mapping[str, float]
) -> None:
    """Two of the server and three of the host in each, within the limits for a server."""
    often = {name: {"interval": "500ms"} for name in ("status", "statements")}
    short = {"collectors": often} if interval < 2 else {}
    target = {"name": "a", "user": "u"}
    config = Config.validated({"fit": {"interval": interval}, "targets": [target], **short})
    found = {spec.name: config.sampling_interval(config.targets[0], spec) for spec in COLLECTORS}
    assert found == {**expected, **(dict.fromkeys(often, 0.5) if short else {})}


def test_each_class_interval_has_a_reading_of_the_digests() -> None:
    """`classes.interval` may be shorter than that of the fit."""
    classes, targets = {"interval": "5s"}, [{"name": "a", "user": "u"}]
    config = Config.validated({"classes": classes, "targets": targets})
    digests = next(spec for spec in COLLECTORS if spec.name == "digests")
    assert config.sampling_interval(config.targets[0], digests) == 5.0


def test_targets_are_spread_in_phase_and_groups_share_one() -> None:
    """Of fifty servers no two are read within a hundredth of the interval."""
    targets = [{"name": f"db{k}", "user": "u"} for k in range(50)]
    grouped = [{"name": f"shard{k}", "user": "u", "group": "shop"} for k in range(3)]
    config = Config.validated({"targets": [*targets, *grouped]})
    phases = [config.phase(target) for target in config.targets]
    assert phases[0] == 0.0
    alone = sorted(phases[:50])
    assert min(b - a for a, b in pairwise(alone)) > 0.15
    assert max(alone) < 15.0
    assert len(set(phases[50:])) == 1


def test_an_interval_must_have_at_least_two_samples(tmp_path: Path) -> None:
    """A fit interval shorter than the sampling could never be complete."""
    text = (
        "fit: {interval: 5s}\ntargets: [{name: a, user: u, collectors: {status: {interval: 3s}}}]\n"
    )
    (problem,) = problems(written(tmp_path, text))
    expected = (
        "target 'a': fit.interval (5s) must be at least twice the sampling interval of status (3s)"
    )
    assert problem == f"2: targets[0].collectors.status.interval: {expected}"


def test_an_empty_tls_section_is_a_mistake(tmp_path: Path) -> None:
    """Whoever writes it wants TLS: all of its keys may be commented out."""
    path = tmp_path / "config.yaml"
    path.write_text("targets:\n- name: a\n  user: u\n  tls:\n    # required: true\n")
    problem = "targets[0].tls: is empty; write tls: {} to require TLS, or remove the key"
    assert mistakes(load_config, path) == [f"4: {problem}"]
    path.write_text("targets:\n- {name: a, user: u, tls: {}}\n")
    assert load_config(path).targets[0].endpoint.tls_required


def test_contradictions_between_sections_are_listed_at_once(tmp_path: Path) -> None:
    """Each at the line of the key to change, once for all targets that inherit it."""
    text = """\
fit: {interval: 5s, window: 2d}
collectors:
  statements: {interval: 3s}
history: {retention: {intervals: 1d}}
targets:
- {name: a, user: u, group: shop}
- name: b
  user: u
  group: shop
  fit: {interval: 1s}
- {name: c, user: u}
"""
    interval = "fit.interval (1s) must be at least twice the sampling interval of status (1s)"
    shared = "fit.interval (5s) must be at least twice the sampling interval of statements (3s)"
    assert problems(written(tmp_path, text)) == [
        f"3: collectors.statements.interval: target 'a': {shared}",
        "4: history.retention.intervals: must be at least fit.window (2d), not 1d",
        "10: targets[1].fit.interval: 1s, but the first target of the group 'shop' has 5s;"
        " give all of them the same",
        f"10: targets[1].fit.interval: target 'b': {interval}",
    ]


def test_paths_are_relative_to_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the agent is started; an absolute path stays as it is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (tmp_path / "password").write_text("secret\n")
    (tmp_path / "ca.pem").write_text("")
    text = (
        "history: {path: data~/history.db}\n"
        "targets:\n"
        "- {name: a, user: u, password_file: password, tls: {ca: ca.pem}}\n"
        f"- {{name: b, user: u, password_file: {tmp_path / 'password'}}}\n"
    )
    config = load_config(written(tmp_path, text))
    assert config.history.path == tmp_path / "data~" / "history.db"
    assert [target.credentials.login().password for target in config.targets] == ["secret"] * 2
    assert config.targets[0].endpoint.tls_ca == str(tmp_path / "ca.pem")
    (problem,) = problems(written(tmp_path, "targets: [{name: a, user: u, password_file: x}]\n"))
    start = "a relative path starts at the configuration's folder"
    assert problem == f"1: targets[0].password_file: no such file; {start}"
    (problem,) = problems(written(tmp_path, "targets: [{name: a, user: u, password_file: .}]\n"))
    assert problem == "1: targets[0].password_file: is a directory; name a file in it"
    os.mkfifo(tmp_path / "pipe")
    (problem,) = problems(written(tmp_path, "targets: [{name: a, user: u, password_file: pipe}]\n"))
    expected = "is a pipe or a device; name a regular file"
    assert problem == f"1: targets[0].password_file: {expected}"


def test_a_folder_that_the_user_may_not_enter_is_called_so() -> None:
    """A server's data directory, with its ca.pem: the file exists, and the path is right."""
    with world_readable_folder() as folder:
        data = folder / "data"
        data.mkdir()
        (data / "ca.pem").write_text("")
        (folder / "my.cnf").write_text(f"[client]\nuser=u\nssl-ca={data}/ca.pem\n")
        path = written(
            folder,
            f"targets:\n- {{name: a, user: u, tls: {{ca: {data}/ca.pem}}}}\n"
            f"- {{name: b, defaults_file: {folder}/my.cnf}}\n",
        )
        assert len(load_config(path).targets) == 2
        data.chmod(0o000)
        with as_unprivileged_user():
            found = problems(path)
        data.chmod(0o700)
    expected = "this user may not enter its folder; permit that, or copy the file to another"
    assert found == [
        f"2: targets[0].tls.ca: {expected}",
        f"3: targets[1].defaults_file: {folder}/my.cnf: ssl-ca: {expected}",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("127.0.0.1:3306", "must be a name or an address alone; give the port with the key port"),
        ("[::1]", "must be a name or an address alone; give the port with the key port"),
        ("db 1", "must be a host name or an IP address"),
        ("", "must be a host name or an IP address"),
        (
            "/run/mysqld/mysqld.sock",
            "must be a host name or an IP address; give a file with the key socket",
        ),
    ],
)
def test_a_host_is_a_name_or_an_address(tmp_path: Path, value: str, expected: str) -> None:
    """Others would be looked up as hosts that do not exist."""
    text = f"targets: [{{name: a, user: u, host: '{value}'}}]\n"
    assert problems(written(tmp_path, text)) == [f"1: targets[0].host: {expected}"]
    valid = written(tmp_path, "targets: [{name: a, user: u, host: '2001:db8::1'}]\n")
    assert load_config(valid).targets[0].endpoint.host == "2001:db8::1"


def test_a_number_of_seconds_may_be_quoted(tmp_path: Path) -> None:
    """As on the command line, where everything is text."""
    text = "targets: [{name: a, user: u, timeout: '05', sla_seconds: '0.05'}]\n"
    (target,) = load_config(written(tmp_path, text)).targets
    assert (target.timeout, target.sla_seconds) == (5.0, 0.05)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        (
            "{ceilings: {cpu: 90}}",
            "ceilings.cpu: must be a share above 0 and at most 1; write 0.9 for 90 %",
        ),
        (
            "{ceilings: {cpus: 0.9}}",
            "ceilings.cpus: no such resource; write cpu, server_cpu, connections, innodb_threads,"
            " redo_log, disk:NAME, disk:NAME:operations (:bytes, :flush), network:NAME:received or"
            " network:NAME:sent",
        ),
        (
            "{disks: {/dev/sda: {operations: 100}}}",
            "disks.(not shown): must be the kernel's name of a device, such as nvme0n1 or eth0,"
            " without /dev/",
        ),
    ],
)
def test_each_mistake_in_a_resource_is_reported(
    tmp_path: Path, resources: str, expected: str
) -> None:
    """With the valid values."""
    text = f"resources: {resources}\ntargets: [{{name: a, user: u}}]\n"
    assert problems(written(tmp_path, text)) == [f"1: resources.{expected}"]


def test_the_retention_must_cover_the_window(tmp_path: Path) -> None:
    """A window that the next start could not read back is a mistake; so are invalid sizes."""
    text = "history: {retention: {intervals: 6h}}\ntargets: [{name: a, user: u}]\n"
    assert problems(written(tmp_path, text)) == [
        "1: history.retention.intervals: must be at least fit.window (1d), not 6h"
    ]
    text = "history: {path: 3, max_size: 1MiB, keep: 1d}\ntargets: [{name: a, user: u}]\n"
    assert [problem.partition(": ")[2] for problem in problems(written(tmp_path, text))] == [
        "history.keep: unknown key; the keys here are path, max_size, retention",
        "history.max_size: must be 16MiB or more",
        "history.path: must be the path of a file",
    ]
    text = "history: {max_size: much}\ntargets: [{name: a, user: u}]\n"
    assert problems(written(tmp_path, text)) == [
        "1: history.max_size: not a size; write 64MiB, 2GiB or a number of bytes"
    ]
    text = "history: {retention: {samples: 0}}\ntargets: [{name: a, user: u}]\n"
    assert load_config(written(tmp_path, text)).history.retention.samples == 0


@pytest.mark.parametrize("name", ["NO_SUCH_VARIABLE", "''"])
def test_an_unset_environment_variable_is_no_empty_password(tmp_path: Path, name: str) -> None:
    """A misspelt name is reported at the start, not as a denied login."""
    path = written(tmp_path, f"targets: [{{name: a, user: u, password_env: {name}}}]\n")
    assert problems(path) == [
        "1: targets[0].password_env: no password: the environment variable that"
        " password_env names is not set; set it for the agent, or use password_file"
    ]


def test_an_empty_environment_variable_is_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an empty file is none: `docker compose` passes an unset variable on as an empty one."""
    monkeypatch.setenv("EMPTY_VARIABLE", "")
    path = written(tmp_path, "targets: [{name: a, user: u, password_env: EMPTY_VARIABLE}]\n")
    assert problems(path) == [
        "1: targets[0].password_env: no password: the environment variable that"
        " password_env names is empty; set it for the agent, or leave password_env out if the"
        " account has none"
    ]


def test_processors_are_counted_by_one_source(tmp_path: Path) -> None:
    """A target with a node_exporter has no vcpus; those of the file are not used."""
    target = "{name: a, user: u, node_exporter: {url: http://h:9100}"
    file = tmp_path / "config.yaml"
    file.write_text(f"targets:\n  - {target}, resources: {{vcpus: 4}}}}\n")
    with pytest.raises(ConfigError, match="node_exporter reports the number of processors"):
        load_config(file)
    file.write_text(f"resources: {{vcpus: 4}}\ntargets:\n  - {target}}}\n")
    config = load_config(file)
    assert config.resource_settings(config.targets[0]).vcpus is None


def test_target_labels_follow_prometheus_rules() -> None:
    """Reserved or invalid names are refused with their place."""
    base = {"name": "db", "user": "u"}
    config = Config.validated({"targets": [base | {"labels": {"team": "shop"}}]})
    assert dict(config.targets[0].labels) == {"team": "shop"}
    for name, problem in (
        ("host", "this label is reserved"),
        ("instance", "this label is reserved"),
        ("__x", "Prometheus's own"),
        ("a-b", "a label has up to 63 letters, digits and underscores"),
    ):
        with pytest.raises(InvalidValuesError, match=problem):
            Config.validated({"targets": [base | {"labels": {name: "x"}}]})
