"""`mysql-headroom profile --since`: from the history of an agent, or refused in one line."""

import json
import re
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from history_rows import SERVER, SETTINGS, STEP, ZERO, class_uses

from agent.cli import main
from agent.config.timestamps import time_text
from agent.history.store import Store
from agent.history.write_buffer import Batch

OF_THE_SHOP = {"schema": "shop", "digest": "a1b2"}
DEPLOY = Path(__file__).resolve().parent.parent / "deploy"


def write_classes(file: Path) -> None:
    """A history with ten intervals of classes, the last one just now."""
    now = round(1000 * time.time())
    late = [row for number in range(10) for row in class_uses(number)]
    store = Store(file, SETTINGS)
    moved = [row._replace(at=row.at - ZERO - 9 * STEP + now) for row in late]
    store.put(Batch("db", SERVER, classes=moved))
    store.close()


@pytest.fixture
def history(tmp_path: Path) -> Path:
    """A configuration with such a history."""
    file = tmp_path / "state" / "history.db"
    write_classes(file)
    config = tmp_path / "config.yaml"
    config.write_text(
        f"history: {{path: {file}}}\n"
        "targets: [{name: db, user: x, port: 1}, {name: b, user: x}]\n"
    )
    return config


def asked(capsys: pytest.CaptureFixture[str], config: Path, *options: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    target = [] if "--target" in options else ["--target", "db"]
    code = main(["profile", "--config.file", str(config), *target, *options])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_profile_since_a_time_is_read_from_the_history(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums of the stored use, with the method and the unattributed part."""
    code, out, err = asked(capsys, history, "--since", "1h", "--format", "json")
    assert (code, err) == (0, "")
    content = json.loads(out)
    first, second = content["classes"]
    assert {**first, **OF_THE_SHOP} == first
    assert (second["schema"], second["digest"]) == ("", "c3d4")
    assert first["calls"] == sum(30 + k for k in range(10))
    assert first["cpu"] == 10 * 1.25
    assert first["cpu_stderr"] == 10 * 0.125
    assert first["share"] == 0.5
    assert (first["removed_gain"], first["halved_gain"]) == (0.75, 0.25)
    assert content["cpu"]["source"] == "work-time"
    assert content["cpu"]["total"] == 10 * (2 * 1.25 + 0.5)
    assert content["cpu"]["unattributed"] == 10 * 0.5
    assert content["recorded"][1] - content["recorded"][0] == pytest.approx(content["seconds"])
    assert content["seconds"] == 150.0
    [(name, moved)] = content["io"].items()
    assert (name, moved["total"], moved["unattributed"]) == ("written", 20 * 4096, 0)
    some = json.loads(asked(capsys, history, "--since", "100s", "--format", "json")[1])
    assert some["seconds"] == pytest.approx(100, abs=15)


def test_the_table_says_what_to_fix_first(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the capacity gain; both times are in UTC, so that no change of the clocks is between."""
    since = datetime.now().astimezone() - timedelta(hours=1)
    code, out, _ = asked(capsys, history, "--since", since.isoformat())
    assert code == 0
    assert "fix first      shop.a1b2: without it 75.0 % more of all other queries fits" in out
    assert "at half its cost 25.0 %" in out
    assert "+75.0 %" in out
    content = json.loads(asked(capsys, history, "--since", "1h", "--format", "json")[1])
    first, last = map(time_text, content["recorded"])
    assert re.search(rf"recorded +2 min from {first} to {last}\n", out)
    local = datetime.now() - timedelta(hours=1)
    assert asked(capsys, history, "--since", f"{local:%Y-%m-%dT%H:%M}")[:2] == (0, out)


def test_a_profile_does_not_need_texts(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are not in the history, and the server is down."""
    code, out, err = asked(capsys, history, "--since", "1h", "--text")
    assert code == 0
    assert "shop.a1b2" in out
    assert err.startswith("mysql-headroom: the statement texts cannot be read: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "code", "complaint"),
    [
        (["--since", "1h", "--target", "b"], 1, "no query classes of b are stored for that time"),
        (["--since", "2000-01-01T00:00Z", "--plot", "x.png"], 2, "--plot needs readings"),
        (["--since", "1h", "--seconds", "5"], 2, "--seconds says how long to watch from now on"),
        (["--since", "start", "--seconds", "5"], 2, "--seconds says how long to watch from now"),
        (["--since", "0s"], 1, "stored for that time; an agent writes them with `history.path`"),
        (["--since", "2096-11-28"], 2, "--since: that time is in the future; give a past one"),
    ],
)
def test_each_missing_history_is_one_line(
    history: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    complaint: str,
) -> None:
    """With the remedy."""
    found, out, err = asked(capsys, history, *options)
    assert (found, out) == (code, "")
    assert complaint in err
    assert err.count("\n") == 1


def test_since_is_refused_without_a_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a file that is no history is named."""
    config = tmp_path / "config.yaml"
    config.write_text("targets: [{name: db, user: x, port: 1}]\n")
    code, _, err = asked(capsys, config, "--since", "1h")
    assert code == 2
    assert "has no history.path, which --since TIME reads; set history.path" in err
    config.write_text(f"history: {{path: {tmp_path}/none.db}}\n{config.read_text()}")
    code, _, err = asked(capsys, config, "--since", "1h")
    assert code == 1
    assert f"{tmp_path}/none.db: there is no history at this path" in err


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "-5", "1e99", ""])
def test_an_invalid_time_is_refused(capsys: pytest.CaptureFixture[str], since: str) -> None:
    """With the valid forms."""
    with pytest.raises(SystemExit) as stopped:
        main(["profile", "--config.file", "config.yaml", f"--since={since}"])
    assert stopped.value.code == 2
    assert "or now, start" in capsys.readouterr().err


def test_the_packaged_configuration_names_the_history_of_its_service(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Root's shell has no STATE_DIRECTORY, by which the service alone would find it."""
    unit = (DEPLOY / "systemd/mysql-headroom.service").read_text()
    [folder] = re.findall(r"(?m)^StateDirectory=(\S+)$", unit)
    write_classes(tmp_path / "state" / "history.db")
    (tmp_path / "password").write_text("secret")
    text = (DEPLOY / "debian/config.yaml").read_text()
    text = text.replace("name: primary", "name: db")
    text = text.replace("/etc/mysql-headroom/", f"{tmp_path}/")
    config = tmp_path / "config.yaml"
    config.write_text(text.replace(f"/var/lib/{folder}/", f"{tmp_path}/state/"))
    code, out, err = asked(capsys, config, "--since", "1h")
    assert (code, err) == (0, "")
    assert "fix first" in out
