"""The demo shows the real agent on a real server, ends when told to, and leaves nothing behind."""

import io
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import law_windows
import numpy as np
import psutil
import pytest
from test_private_server import listens

from agent.assessment.snapshot import AssessmentState, Load
from agent.cli import main
from agent.demo import demo_run, os_user
from agent.demo.load_generator import (
    MAX_TOP_CLIENTS,
    PERIOD,
    clients_at,
    is_rising,
    peak_clients,
)
from agent.demo.page_address import Address, AddressError, choose_address, listen_on
from agent.demo.private_server import FOLDER_PREFIX, Program, ServerError, find_server, free_port
from agent.demo.result_rows import result_line, result_rows, summary_sentence
from agent.demo.screen import ENTER, HOME, LEAVE, Screen, View, draw
from agent.export.page import render
from agent.window.concurrency import ConcurrencySource
from models.capacity.result import CapacityReason
from models.trust import Trust
from models.usl.law import Usl
from testbed.real.daemon import wait_until
from testbed.real.server_programs import missing

COMMAND = [sys.executable, "-m", "agent.cli", "demo"]
PATIENCE = 60.0  # seconds for one thing to happen on a busy machine
FITTED_WITHIN = 120  # seconds; the first fit takes twenty on a machine at rest
PROMPT = 5.0  # seconds for the demo to end
AFTERWARDS = 5.0  # seconds for what outlives it to clean up

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start the demo with standard output in a pipe, where there is a server to be had."""
    if find_server() is None:
        missing("MySQL or MariaDB server")
    demos = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        demo = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        demos.append(demo)
        return demo

    yield start
    for demo in demos:
        demo.kill()
        demo.communicate()


def wait_for_line(demo: "subprocess.Popen[str]", text: str) -> list[str]:
    """Read lines up to the one with that text."""
    assert demo.stdout
    lines = []
    for line in demo.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(f"ended without {text!r}: {lines} {demo.stderr and demo.stderr.read()}")


def end(demo: "subprocess.Popen[str]", number: signal.Signals) -> str:
    """Send a signal and wait for the end it asks for; the rest of what it printed."""
    demo.send_signal(number)
    out, err = demo.communicate(timeout=PROMPT)
    assert err == ""
    return out


def traces(pid: int) -> list[str]:
    """Folders and processes of the demo that had this process ID."""
    mark = f"{FOLDER_PREFIX}{pid}-"
    found = [str(path) for path in Path(tempfile.gettempdir()).glob(f"{mark}*")]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if mark in words:
            found.append(f"{process.name} {words}")
    return found


def server_process(pid: int) -> psutil.Process:
    """That demo's private server."""
    (found,) = [trace for trace in traces(pid) if "--skip-networking" in trace]
    return psutil.Process(int(found.split()[0]))


def assert_nothing_left(pid: int, *ports: int, within: float = 0.0) -> None:
    """No folder, no process and no port of that demo is left, now or soon."""
    deadline = time.monotonic() + within
    while (left := traces(pid)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert not [port for port in ports if listens(port)]


def get(url: str) -> str:
    """The body of an answer."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


@pytest.mark.live
def test_the_demo_ends_when_its_time_is_over(start: Start) -> None:
    """Not before, with its table and 0."""
    demo = start("--seconds", "3", "--web.listen-address", f"127.0.0.1:{free_port()}")
    wait_for_line(demo, "starting the load")
    began = time.monotonic()
    out, err = demo.communicate(timeout=PATIENCE)
    assert (demo.returncode, err) == (0, "")
    assert time.monotonic() - began > 2
    assert re.search(r"\ntiming +(no fit yet|first fit after \d+ s)", out)
    assert_nothing_left(demo.pid)


@pytest.mark.live
def test_the_demo_shows_the_peak(start: Start, promtool: str) -> None:
    """With a fit, page and metrics, and a final table; its load uses all processors."""
    port = free_port()
    demo = start("--seconds", f"{FITTED_WITHIN}", "--web.listen-address", f"127.0.0.1:{port}")
    lines = wait_for_line(demo, "starting the load")
    assert f"page     http://127.0.0.1:{port}/" in lines
    assert f"metrics  http://127.0.0.1:{port}/metrics" in lines
    lines += wait_for_line(demo, "USL peak")
    server = server_process(demo.pid)
    assert not server.net_connections("tcp")
    assert server.uids().effective != 0
    assert "by statement time" in lines[-1]
    assert "MariaDB" in (page := get(f"http://127.0.0.1:{port}/")) or "MySQL" in page
    has_law = re.compile(r'^mysql_headroom_usl_points\{target="demo"\} \d', re.MULTILINE)
    wait_until("a law", lambda: has_law.search(get(f"http://127.0.0.1:{port}/metrics")))
    metrics = get(f"http://127.0.0.1:{port}/metrics")
    assert 'mysql_headroom_feature_enabled{feature="statements_in_flight",target="demo"} 1' in (
        metrics
    )
    subprocess.run([promtool, "check", "metrics"], input=metrics, text=True, check=True)
    out = end(demo, signal.SIGINT)
    assert demo.returncode == 0
    assert re.search(r"\ntiming +first fit after \d+ s", out)
    assert re.search(r"\ncapacity +[\d,]+ queries/s|\ncapacity +at least", out)
    assert "\x1b" not in "\n".join(lines) + out
    assert_nothing_left(demo.pid, port)


@pytest.mark.live
@pytest.mark.parametrize(
    ("line", "number"),
    [
        ("starting a private", signal.SIGINT),
        ("loading tables", signal.SIGHUP),
        ("starting the load", signal.SIGTERM),
    ],
)
def test_a_signal_ends_the_demo_at_any_moment(
    start: Start, line: str, number: signal.Signals
) -> None:
    """At once, with 0 and nothing left."""
    demo = start("--web.listen-address", f"127.0.0.1:{free_port()}")
    wait_for_line(demo, line)
    time.sleep(0.2)
    out = end(demo, number)
    assert demo.returncode == 0
    assert_nothing_left(demo.pid)
    if line == "starting the load":
        assert "No prediction yet: no complete interval yet." in out


@pytest.mark.live
def test_killing_the_demo_ends_all_its_processes(start: Start) -> None:
    """Server and load end with it, and its folder is removed."""
    demo = start("--web.listen-address", f"127.0.0.1:{free_port()}")
    wait_for_line(demo, "starting the load")

    def loads() -> int:
        return sum("agent.demo.load_generator" in trace for trace in traces(demo.pid))

    wait_until("the load has its program", lambda: loads() == 1)
    demo.kill()
    demo.wait()
    assert_nothing_left(demo.pid, within=AFTERWARDS)


@pytest.mark.live
def test_a_terminal_is_redrawn_in_place() -> None:
    """On a terminal one screen is redrawn, and Ctrl-C leaves the table below."""
    if find_server() is None:
        missing("MySQL or MariaDB server")
    terminal, inside = pty.openpty()
    termios.tcsetwinsize(inside, (24, 80))
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    demo = subprocess.Popen(
        [*COMMAND, "--web.listen-address", "127.0.0.1:0"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment | {"TERM": "xterm"},
        start_new_session=True,
    )
    os.close(inside)
    try:
        shown = read_until(terminal, has_load_on_three_screens)
        demo.send_signal(signal.SIGINT)
        shown += read_until(terminal, lambda text: False)
        assert demo.wait(PROMPT) == 0
    finally:
        demo.kill()
        demo.wait()
        os.close(terminal)
    before, _, rest = shown.partition(ENTER)
    screens, _, after = rest.partition(LEAVE)
    assert "starting the load" in before
    assert screens.count(HOME) >= 3
    assert re.search(r"\nthroughput +[\d,]+ queries/s", screens)
    for screen in screens.split(HOME)[1:]:
        assert screen.count("\n") < 24
        assert re.search(r"\nload +(rising|falling), \d+ of \d+ clients", screen)
    assert re.search(r"\nthroughput +[\d,]+ queries/s", after)
    assert re.search(r"\ntiming +(no fit yet|first fit after \d+ s)", after)
    assert_nothing_left(demo.pid)


def has_load_on_three_screens(text: str) -> bool:
    """Check that three screens were drawn and the last of them shows a throughput."""
    screens = text.split(HOME)
    return len(screens) > 4 and "queries/s" in screens[-2]


def read_until(terminal: int, enough: Callable[[str], bool]) -> str:
    """What the program writes until that is enough, or it ends."""
    text = b""
    deadline = time.monotonic() + PATIENCE
    while not enough(text.decode(errors="replace")):
        assert time.monotonic() < deadline, text
        if select.select([terminal], [], [], 1.0)[0]:
            try:
                text += os.read(terminal, 65536)
            except OSError:  # the program is gone
                break
    return text.decode(errors="replace")


def test_an_address_in_use_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """If it was requested, the demo ends before it begins, with the remedy."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["demo", "--web.listen-address", address]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    advice = "choose another with --web.listen-address HOST:PORT"
    expected = f"cannot listen on {address}: Address already in use; {advice}"
    assert told.err == f"mysql-headroom demo: {expected}\n"


def test_the_default_port_may_be_in_use() -> None:
    """Then a free one is used and printed."""
    said: list[str] = []
    usual = socket.socket()
    usual.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        usual.bind(("127.0.0.1", 10104))
        usual.listen()
    except OSError:
        pass  # taken as it is
    with usual:
        assert choose_address(None, said.append).socket_address() == ("127.0.0.1", 0)
    assert said == ["port 10104 is taken; the page uses a free port instead"]


def test_a_port_may_be_taken_after_the_choice() -> None:
    """Two demos that start at once choose the same: the later one uses a free one."""
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as faster:
        port = faster.getsockname()[1]
        with listen_on(Address("127.0.0.1", port), socket.create_server, said.append) as mine:
            assert mine.getsockname()[1] != port
        assert said == [f"port {port} is taken; the page uses a free port instead"]
        with pytest.raises(AddressError, match=rf"^cannot listen on 127\.0\.0\.1:{port}: Address"):
            listen_on(
                Address("127.0.0.1", port, is_explicit=True), socket.create_server, said.append
            )


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seconds", "0"),
        ("--seconds", "nan"),
        ("--seconds", "soon"),
        ("--web.listen-address", "here"),
        ("--web.listen-address", "127.0.0.1:99999"),
    ],
)
def test_invalid_arguments_are_refused(
    arguments: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the argument's name and the usage."""
    with pytest.raises(SystemExit, match="2"):
        main(["demo", *arguments])
    assert arguments[0] in capsys.readouterr().err


def test_the_wave_goes_up_and_down_within_bounds() -> None:
    """The clients rise from few to the top and fall again, never above the bound."""
    top = peak_clients()
    wave = [clients_at(second, top) for second in np.linspace(0, PERIOD, 100)]
    assert min(wave) == wave[0] == wave[-1] == 2
    assert max(wave) == top <= MAX_TOP_CLIENTS
    assert np.argmax(wave) in range(45, 55)
    assert np.all(np.diff(wave[:45]) >= 0)
    assert np.all(np.diff(wave[55:]) <= 0)
    assert is_rising(0.25 * PERIOD)
    assert not is_rising(1.75 * PERIOD)


def a_view(waiting: str = "") -> View:
    """A view of a server with a peak at 5 threads, or of one that waits for a fit."""
    law = Usl(0.1, 0.036, 500.0)
    rows = [
        law_windows.interval(k, load, throughput=float(law.throughput(load)))
        for k, load in enumerate([*np.linspace(0.5, 15, 40), 2.0])
    ]
    snapshot = replace(law_windows.known(rows), at=1000.0)
    fitted = AssessmentState(waiting=waiting) if waiting else replace(snapshot.assessed, at=1000.0)
    load = Load(1000.0, 900.0, {ConcurrencySource.STATEMENT_TIME: 2.0}, {})
    snapshot = replace(snapshot, load=load, assessed=fitted)
    return View("demo", snapshot, 1001.0, 20.0, "rising, 5 of 24", "first fit", "http://here:1")


@pytest.mark.parametrize("size", [(80, 24), (80, 50), (40, 12), (20, 5)])
@pytest.mark.parametrize("waiting", ["", "1 of 9 intervals had a load; a fit needs three of them"])
def test_a_screen_never_has_more_lines_than_the_terminal(
    size: tuple[int, int], waiting: str
) -> None:
    """Whatever the terminal's size and whatever is known."""
    assert len(draw(a_view(waiting), *size)) <= size[1]


def test_a_screen_shows_chart_and_text() -> None:
    """At 80 by 24: sentence, numbers, chart with the load's place, addresses."""
    text = "\n".join(draw(a_view(), 80, 24))
    assert "This server can do " in text
    assert re.search(r"concurrency +2 threads \(by statement time\)\n", text)
    assert re.search(r"limited by +contention \(100 %\)\n", text)
    assert re.search(r"USL peak +[\d,]+ queries/s at (4\.9|5\.)\d* threads \(90 %: ", text)
    assert re.search(r"headroom +\d+ % of the capacity\n", text)
    assert re.search(r"\| +.*O", text)
    assert "metrics  http://here:1/metrics" in text


@pytest.mark.parametrize(("no_colour", "is_coloured"), [("", True), ("1", False)])
def test_no_color_is_obeyed(
    no_colour: str, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As no-color.org has it: bold text is no colour."""
    monkeypatch.setenv("NO_COLOR", no_colour)
    drawn = io.StringIO()
    Screen(drawn).show(a_view())
    assert ("\x1b[3" in drawn.getvalue()) is is_coloured
    assert "\x1b[1m" in drawn.getvalue()


def test_a_load_above_the_capacity_is_described() -> None:
    """It is no headroom of 0 %."""
    snapshot = a_view().snapshot
    beyond = Load(1000.0, 1e6, {ConcurrencySource.STATEMENT_TIME: 2.0}, {})
    shown = dict(result_rows(replace(snapshot, load=beyond), 1001.0))["headroom"]
    assert shown == "none"


def test_a_load_past_the_peak_shows_the_loss() -> None:
    """More statements at once than at the peak, and less throughput."""
    snapshot = a_view().snapshot
    capacity = snapshot.assessed.capacity
    assert capacity is not None
    assert capacity.value is not None
    assert capacity.concurrency_upper is not None
    n = 1.5 * capacity.concurrency_upper
    past = Load(1000.0, 0.9 * capacity.value, {ConcurrencySource.STATEMENT_TIME: n}, {})
    past_peak = replace(snapshot, load=past)
    shown = dict(result_rows(past_peak, 1001.0))["headroom"]
    words = "past its peak: more load lowers the throughput; 10 % of it is lost"
    assert shown.startswith(f"none, {words} (")
    assert summary_sentence(replace(snapshot, load=past), 1001.0).endswith(f"It is {words}.")


def test_an_overload_is_described_where_the_concurrency_at_the_capacity_is_not_known() -> None:
    """Far more statements than fill a full processor wait for it; no dash stands for N*."""
    snapshot = a_view().snapshot
    known = snapshot.assessed.capacity
    assert known is not None
    assert known.value is not None
    capacity = replace(
        known, limit="server_cpu", filling_concurrency=8.0, concurrency=None, concurrency_upper=None
    )
    crowded = Load(
        1000.0,
        0.9 * known.value,
        {ConcurrencySource.STATEMENT_TIME: 40.0},
        {},
        {"server_cpu": 0.99},
    )
    assessed = replace(snapshot.assessed, capacity=capacity)
    overloaded = replace(snapshot, load=crowded, assessed=assessed)
    shown = dict(result_rows(overloaded, 1001.0))["headroom"]
    lost = "past its peak: more load lowers the throughput; 10 % of it is lost"
    assert shown == f"none, {lost}"
    assert f"{lost}</" in render([overloaded], 1001.0)


def test_without_a_fit_the_reason_is_shown() -> None:
    """Why there is no prediction."""
    text = " ".join(draw(a_view("3 points are too few"), 80, 24))
    assert "No prediction yet: 3 points are too few." in text


def test_each_failed_server_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failures before the last are printed in their order, and the last one is the error."""

    def fail(why: str) -> Program:
        raise ServerError(why)

    def ways(_: Callable[[str], None]) -> Iterator[Callable[[], Program]]:
        return (partial(fail, why) for why in ("the first", "the second", "the third"))

    monkeypatch.setattr(demo_run, "servers_to_try", ways)
    with ExitStack() as stack, pytest.raises(ServerError, match=r"^the third$"):
        demo_run._start_server(stack)
    assert capsys.readouterr().out == (
        "the first; trying another …\nthe second; trying another …\n"
    )


def test_a_process_that_ends_meanwhile_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was listed and has ended when its user is read."""
    listed = [Path("/proc/self"), Path("/proc/0")]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(listed))
    assert os_user._running_uids() == {os.geteuid()}


def test_a_line_has_two_doubts_and_the_load_that_would_settle_them() -> None:
    """The page lists all of them."""
    snapshot = a_view().snapshot
    doubts = (
        CapacityReason.WIDE_INTERVAL,
        CapacityReason.COST_FLUCTUATES,
        CapacityReason.CONTENTION_UNKNOWN,
        CapacityReason.OTHERS_FLUCTUATE,
    )
    known = snapshot.assessed.capacity
    assert known is not None
    capacity = replace(known, trust=Trust.INDICATIVE, reasons=doubts, settling_throughput=2000.0)
    doubted = replace(snapshot, assessed=replace(snapshot.assessed, capacity=capacity))
    first, second = (doubt.sentence for doubt in doubts[:2])
    rest = "2 more on the page; a load of about 2,000 queries/s would settle it"
    shown = dict(result_rows(doubted, 1001.0))["trust"]
    assert shown == f"indicative: {first}; {second}; {rest}"


def test_a_line_repeats_reasons_only_if_they_change() -> None:
    """Else only the trust."""
    rows = [("capacity", "at least 5"), ("trust", "indicative: why; and why"), ("headroom", "9 %")]
    full = "capacity at least 5 | trust indicative: why; and why | headroom 9 %"
    assert result_line(rows, []) == full
    assert result_line(rows, rows) == "capacity at least 5 | trust indicative | headroom 9 %"
    assert result_line(rows, [("trust", "indicative: why")]) == full
