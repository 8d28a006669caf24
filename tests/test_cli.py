"""The command line: what each command says of itself, and how a mistake ends."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from history_rows import filled

from agent import __version__
from agent.cli import COMMANDS, main
from testbed.real.daemon import is_root, wait_until
from testbed.real.namespaces import IN_A_CONTAINER

ROOT = Path(__file__).resolve().parent.parent
WHITE_PAPER = ROOT / "docs/examples/white-paper.csv"


def run(*words: str) -> "subprocess.CompletedProcess[str]":
    """The command as a program of its own."""
    return subprocess.run(
        [sys.executable, "-m", "agent.cli", *words],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    """With what each does."""
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    for command in COMMANDS:
        assert f"\n    {command}" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option of each command is explained."""
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"usage: mysql-headroom {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [*COMMANDS, *(f"history {action}" for action in ("show", "export", "import", "prune"))],
)
def test_every_option_has_a_help_text(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its default, or what it is for."""
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    entries = re.split(r"\n  (?=-)", capsys.readouterr().out.partition("\noptions:")[2])
    assert [one for one in entries[1:] if not re.search(r"(  |\n +)[^ ]", one)] == []


def test_the_help_is_the_same_without_docstrings() -> None:
    """As the image runs all commands: no text that is shown is a docstring."""
    script = """
from agent.cli import COMMANDS, main
for command in ((), *((command,) for command in COMMANDS)):
    try:
        main([*command, "--help"])
    except SystemExit:
        pass
"""
    shown = [
        subprocess.check_output([sys.executable, *how, "-c", script], encoding="utf-8")
        for how in ((), ("-OO",))
    ]
    assert shown[0].count("usage: ") == 1 + len(COMMANDS)
    assert shown[0] == shown[1]


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints name and number."""
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"mysql-headroom {__version__}\n"


def test_an_interrupt_while_a_command_is_loaded_leaves_no_trace() -> None:
    """Loading takes a second on a busy machine."""
    script = (
        "import signal, sys, agent.cli as cli; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "  # a background job ignores it
        "cli.import_module = lambda _: signal.raise_signal(signal.SIGINT); "
        "sys.exit(cli.main(['fit', '-']))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (130, b"")


@pytest.mark.parametrize("command", ["run", "check"])
def test_an_invalid_file_ends_with_2_and_all_its_mistakes(command: str, tmp_path: Path) -> None:
    """One line a mistake on standard error, nothing else, no trace."""
    path = tmp_path / "config.yaml"
    path.write_text("targets: [{name: a, user: u, port: x}]\nlisten: 3\n")
    ended = run(command, "--config.file", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines() == [
        f"mysql-headroom: {path}:1: targets[0].port: must be a whole number",
        f"mysql-headroom: {path}:2: listen: must be an address and a port, such as"
        " 127.0.0.1:10104, [::1]:10104 or :10104",
    ]


@pytest.mark.parametrize("words", [("fit", str(WHITE_PAPER)), ("profile", "--help")])
def test_a_latin_1_terminal_shows_escapes(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is complete without Greek letters too."""
    monkeypatch.setenv("PYTHONIOENCODING", "utf-8")
    expected = run(*words)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    ended = run(*words)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == expected.stdout.encode("ascii", "backslashreplace").decode()
    assert "\\u" in ended.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "mysql-headroom: the following arguments are required: COMMAND"),
        (("run",), "mysql-headroom run: the following arguments are required: --config.file"),
        (
            ("replay", "a.csv", "--every", "0"),
            "mysql-headroom replay: --every: must be from 1s to 366d",
        ),
        (("fit", "a.csv", "--no\x1bsuch"), r"mysql-headroom: unrecognized arguments: --no\x1bsuch"),
        (
            ("history", "show"),
            "mysql-headroom history show: one of the arguments --config.file --file is required",
        ),
    ],
)
def test_an_invalid_option_is_one_line(words: tuple[str, ...], expected: str) -> None:
    """The place, the mistake, and how to list the options; not twenty lines of usage."""
    ended = run(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    program, _, _ = expected.partition(":")
    assert ended.stderr == f"{expected}; see `{program} --help`\n"


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:99999", "a b:1"])
def test_an_invalid_address_is_reported_as_the_options(address: str, tmp_path: Path) -> None:
    """The message does not name the file."""
    path = tmp_path / "config.yaml"
    path.write_text("targets: [{name: a, user: u}]\n")
    ended = run("run", "--config.file", str(path), "--web.listen-address", address)
    assert ended.returncode == 2
    assert f"--web.listen-address: {address!r} is not HOST:PORT" in ended.stderr
    assert str(path) not in ended.stderr


def test_an_unavailable_address_ends_with_1(tmp_path: Path) -> None:
    """One line has the address, and why."""
    path = tmp_path / "config.yaml"
    path.write_text("targets: [{name: a, user: u, port: 1}]\nlisten: 203.0.113.1:80\n")
    ended = run("run", "--config.file", str(path))
    assert ended.returncode == 1
    assert "cannot listen on 203.0.113.1:80" in ended.stderr
    assert "; choose another with `listen` or --web.listen-address" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with a file that each kind of command reads."""
    (tmp_path / "curve.csv").write_text("concurrency,throughput\n1,10\n2,19\n4,33\n8,50\n")
    samples = "\n".join(f"{10 * k},{1000 * k},2,{10 * k}" for k in range(100))
    (tmp_path / "samples.csv").write_text(f"t_s,questions,threads_running,uptime_s\n{samples}\n")
    (tmp_path / "config.yaml").write_text(f"history: {{path: {tmp_path}/history.db}}\n{NOBODY}")
    filled(tmp_path / "history.db", 20, "a")
    return tmp_path


NOBODY = "targets: [{name: a, user: u, socket: nowhere}]\n"
PRINTING = (
    "fit curve.csv",
    "files grants.sql",
    "check --config.file config.yaml",
    "replay samples.csv",
    "compare samples.csv --around 500",
    "history show --file history.db",
    "history export --file history.db",
)


def output_to(place: str, command: str, folder: Path, buffered: str) -> tuple[int, str]:
    """Exit code and standard error of a command with its standard output into a place."""
    script = f"{sys.executable} -m agent.cli {command} {place}; exit ${{PIPESTATUS[0]}}"
    environment = os.environ | {"PYTHONUNBUFFERED": buffered, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
        env=environment,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("command", PRINTING)
def test_a_closed_pipe_is_no_error(command: str, data: Path) -> None:
    """`mysql-headroom … | head` ends without a trace."""
    assert output_to("| true", command, data, "1") == (0, "")


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("command", [*PRINTING, "demo --seconds 3"])
def test_a_full_disk_is_reported_in_one_line(command: str, buffered: str, data: Path) -> None:
    """Standard output is named, not the file that was read."""
    problem = "standard output cannot be written: No space left on device"
    assert output_to(">/dev/full", command, data, buffered) == (1, f"mysql-headroom: {problem}\n")


@pytest.mark.skipif(not is_root(), reason="only root makes PID namespaces")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_is_the_first_process_of_a_container_can_be_ended(
    number: signal.Signals, code: int
) -> None:
    """By Ctrl-C and by docker stop, while it waits for a server that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        words = ("analyze", "--prometheus", url, "--timeout", "10m")
        process = subprocess.Popen([*IN_A_CONTAINER, sys.executable, "-m", "agent.cli", *words])
        try:
            client, _ = silent.accept()
            with client:
                psutil.Process(process.pid).children()[0].send_signal(number)
                assert process.wait(timeout=60) == code
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(not is_root(), reason="only root makes PID namespaces")
def test_the_first_process_of_a_container_ends_on_sigterm_while_it_starts(tmp_path: Path) -> None:
    """The kernel ignores it there without a handler; a numpy that never loads is the slow start."""
    reading = f"open({str(tmp_path / 'loading')!r}, 'w').close()"
    (tmp_path / "numpy.py").write_text(f"import time\n{reading}\ntime.sleep(1000)\n")
    process = subprocess.Popen(
        [*IN_A_CONTAINER, sys.executable, "-m", "agent.cli", "run"],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}"},
    )
    try:
        wait_until("it loads", (tmp_path / "loading").exists)
        psutil.Process(process.pid).children()[0].terminate()
        assert process.wait(timeout=60) == 143
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("command", PRINTING)
def test_a_closed_output_is_reported_in_one_line(command: str, data: Path) -> None:
    """As of a job that was started with `>&-`: no traceback, and no other file gets the text."""
    problem = "standard output cannot be written: Bad file descriptor"
    assert output_to(">&-", command, data, "") == (1, f"mysql-headroom: {problem}\n")
