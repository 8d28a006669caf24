"""Users of the web pages: who gets in, what a check costs, and that no crowd gets in the way."""

import base64
import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import bcrypt
import pytest
from web_clients import SOON, ask, eventually, listening, password_hash, snapshot, written

from agent.web.access_middleware import FAILURE_DELAY
from agent.web.auth import REMEMBERED_FAILURES, AuthResult, BasicAuthenticator
from agent.web.password_queue import (
    MAX_WAITING,
    MAX_WAITING_PER_NETWORK,
    REMEMBERED_NETWORKS,
    PasswordQueue,
    network_of,
)
from agent.web.reloading_config import WebConfigFile

USERS = {"alice": password_hash("secret"), "bób": password_hash("pass: wörd")}


def basic(user: str, password: str) -> str:
    """The Authorization header for that user and password."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


class Checks:
    """Counts the checks and the pauses; a check may be held."""

    def __init__(self) -> None:
        self.asked: list[tuple[bytes, bytes]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.at_once = self.most_at_once = 0

    def __call__(self, password: bytes, hashed: bytes) -> bool:
        self.asked.append((password, hashed))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.go_on.wait(60)
        self.at_once -= 1
        return password == b"secret" and hashed == USERS["alice"].encode()


@contextmanager
def in_background(*actions: Callable[[], object]) -> Iterator[None]:
    """Run those at once, and wait for their end."""
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join(60)


def doorkeeper(checks: Checks) -> BasicAuthenticator:
    """One that does not pause."""
    return BasicAuthenticator(checks, lambda seconds: None)


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A server with the two users."""
    file = WebConfigFile(written(tmp_path, basic_auth_users=USERS))
    with listening(snapshot(True), settings=file) as server:
        yield server.server_port


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/ready", "/nothing"])
def test_every_path_requires_a_login(port: int, path: str) -> None:
    """Without one, existing and unknown paths respond alike."""
    status, headers, body = ask(port, path)
    assert (status, body) == (401, "401 unauthorized\n")
    assert headers["WWW-Authenticate"].startswith("Basic realm=")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(port, path, "HEAD")[::2] == (401, "")


@pytest.mark.parametrize(("user", "password"), [("alice", "secret"), ("bób", "pass: wörd")])
def test_the_right_password_is_admitted(port: int, user: str, password: str) -> None:
    """Also with colons and non-ASCII characters, and at the second request."""
    for _ in range(2):
        assert ask(port, "/metrics", Authorization=basic(user, password))[0] == 200


@pytest.mark.parametrize(
    "header",
    [
        basic("alice", "wrong"),
        basic("alice", ""),
        basic("", ""),
        basic("nobody", "secret"),
        basic("bób", "secret"),
        basic("alice", "secret").replace("Basic", "Bearer"),
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"alice:\xff\0\xfe").decode(),
        "Basic \xe4",
        basic("a" * 4000, "b" * 4000),
        basic("alice", "secret") + ", " + basic("alice", "secret"),
        basic("alice", USERS["alice"]),
    ],
)
def test_any_other_credentials_are_refused(port: int, header: str) -> None:
    """Wrong, unknown, malformed, huge: all get the same response."""
    status, _, body = ask(port, "/metrics", Authorization=header)
    assert (status, body) == (401, "401 unauthorized\n")


def test_without_users_no_login_is_required(tmp_path: Path) -> None:
    """A web configuration without users leaves the pages open."""
    with listening(snapshot(True), settings=WebConfigFile(written(tmp_path))) as server:
        assert ask(server.server_port, Authorization="Basic !!!")[0] == 200


def test_configured_headers_are_on_every_response(tmp_path: Path) -> None:
    """They replace the agent's own of that name; the others stay."""
    headers = {
        "Strict-Transport-Security": "max-age=60",
        "X-Frame-Options": "sameorigin",
        "Content-Security-Policy": "",
    }
    path = written(tmp_path, http_server_config={"headers": headers}, basic_auth_users=USERS)
    with listening(snapshot(True), settings=WebConfigFile(path)) as server:
        for authorization in ("", basic("alice", "secret")):
            _, found, _ = ask(server.server_port, Authorization=authorization)
            assert found["Strict-Transport-Security"] == "max-age=60"
            assert found["X-Frame-Options"] == "sameorigin"
            assert found["Content-Security-Policy"].startswith("default-src 'none'")
            assert found["Cache-Control"] == "no-store"


def test_a_checked_password_is_cached() -> None:
    """Repeated scrapes cost one bcrypt check in all, right or wrong."""
    checks = Checks()
    keeper = doorkeeper(checks)
    for _ in range(5):
        assert keeper.authenticate(USERS, basic("alice", "secret"), "a") is AuthResult.ADMITTED
        assert keeper.authenticate(USERS, basic("alice", "wrong"), "a") is AuthResult.UNAUTHORISED
    assert len(checks.asked) == 2


def test_the_cache_ends_with_the_hash_that_was_checked() -> None:
    """A new password or a removed user counts at once."""
    keeper = BasicAuthenticator(pause=lambda seconds: None)
    right = basic("alice", "secret")
    assert keeper.authenticate(USERS, right, "a") is AuthResult.ADMITTED
    changed = {**USERS, "alice": password_hash("other")}
    assert keeper.authenticate(changed, right, "a") is AuthResult.UNAUTHORISED
    assert keeper.authenticate({"bób": USERS["bób"]}, right, "a") is AuthResult.UNAUTHORISED
    assert keeper.authenticate(USERS, right, "a") is AuthResult.ADMITTED


def test_cached_failures_displace_no_admitted_user() -> None:
    """The memory for failures is limited and separate."""
    checks = Checks()
    keeper = doorkeeper(checks)
    keeper.authenticate(USERS, basic("alice", "secret"), "a")
    for guess in range(2 * REMEMBERED_FAILURES):
        keeper.authenticate(USERS, basic("alice", str(guess)), "a")
    done = len(checks.asked)
    assert keeper.authenticate(USERS, basic("alice", "secret"), "a") is AuthResult.ADMITTED
    assert len(checks.asked) == done


def test_an_unknown_user_costs_as_much_time_as_a_known_one() -> None:
    """The response time does not tell who exists: the slowest hash is checked."""
    checks = Checks()
    users = {"a": USERS["alice"], "b": USERS["alice"].replace("$04$", "$07$")}
    keeper = doorkeeper(checks)
    assert keeper.authenticate(users, basic("nobody", "secret"), "a") is AuthResult.UNAUTHORISED
    ((_, decoy),) = checks.asked
    assert decoy.startswith(b"$2b$07$")
    assert len(decoy) == 60


def test_a_long_password_is_cut_at_72_bytes() -> None:
    """The library refuses longer ones; other tools ignore the rest, as the agent does."""
    long = "x" * 72
    users = {"alice": password_hash(long)}
    keeper = BasicAuthenticator(pause=lambda seconds: None)
    assert keeper.authenticate(users, basic("alice", long + "more"), "a") is AuthResult.ADMITTED
    assert keeper.authenticate(users, basic("alice", long[1:]), "a") is AuthResult.UNAUTHORISED


def test_after_a_failure_the_next_check_is_delayed() -> None:
    """Guessing takes no more than a part of one CPU."""
    pauses: list[float] = []

    def slow(password: bytes, hashed: bytes) -> bool:
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass
        return False

    keeper = BasicAuthenticator(slow, pauses.append)
    keeper.authenticate(USERS, basic("alice", "wrong"), "a")
    assert 0.02 <= pauses[0] <= 0.5


def test_the_queue_of_checks_keeps_room_for_other_addresses() -> None:
    """Many requests from one address are refused while another address gets its turn."""
    checks = Checks()
    checks.go_on.clear()
    keeper = doorkeeper(checks)
    verdicts: list[AuthResult] = []

    def come(address: str, password: str) -> Callable[[], None]:
        return lambda: verdicts.append(
            keeper.authenticate(USERS, basic("alice", password), address)
        )

    with in_background(*(come("crowd", str(number)) for number in range(200))):
        assert eventually(lambda: len(verdicts) == 200 - MAX_WAITING_PER_NETWORK)
        assert set(verdicts) == {AuthResult.BUSY}
        with in_background(come("real", "secret")):
            checks.go_on.set()
    assert verdicts.count(AuthResult.ADMITTED) == 1
    assert verdicts.count(AuthResult.UNAUTHORISED) == MAX_WAITING_PER_NETWORK
    assert checks.most_at_once == 1


def test_the_queue_of_checks_is_limited_over_all_addresses() -> None:
    """So the number of waiting threads is bounded."""
    checks = Checks()
    checks.go_on.clear()
    keeper = doorkeeper(checks)
    verdicts: list[AuthResult] = []

    def come(number: int) -> Callable[[], None]:
        header = basic("alice", str(number))
        return lambda: verdicts.append(keeper.authenticate(USERS, header, f"host{number}"))

    with in_background(*(come(number) for number in range(100))):
        assert eventually(lambda: len(verdicts) == 100 - MAX_WAITING)
        checks.go_on.set()
    assert verdicts.count(AuthResult.UNAUTHORISED) == MAX_WAITING


def test_two_hundred_wrong_passwords_delay_no_real_scrape(tmp_path: Path) -> None:
    """With real hashes: a known client is answered at once, a new one soon."""
    users = {"alice": password_hash("secret"), "new": password_hash("other")}
    users["slow"] = "$2b$10$" + users["alice"][7:]
    stop = threading.Event()
    with listening(
        snapshot(True), settings=WebConfigFile(written(tmp_path, basic_auth_users=users))
    ) as s:
        assert ask(s.server_port, Authorization=basic("alice", "secret"))[0] == 200

        def guess(number: int) -> None:
            while not stop.is_set():
                header = basic("nobody", f"{number} {time.monotonic()}")
                try:
                    ask(s.server_port, source="127.0.0.2", Authorization=header)
                except (OSError, http.client.HTTPException):
                    continue

        with in_background(*(lambda n=n: guess(n) for n in range(200))):
            try:
                started = time.monotonic()
                assert ask(s.server_port, Authorization=basic("alice", "secret"))[0] == 200
                assert time.monotonic() - started < SOON
                assert ask(s.server_port, Authorization=basic("new", "other"))[0] == 200
            finally:
                stop.set()


CROWD = 20  # addresses


def test_many_guesses_after_a_restart_keep_no_scraper_out(tmp_path: Path) -> None:
    """No client is known yet, and 20 addresses guess: the scraper's first try succeeds."""
    users = {"prometheus": bcrypt.hashpw(b"secret", bcrypt.gensalt(10)).decode()}
    stop = threading.Event()
    answered: Counter[str] = Counter()
    file = WebConfigFile(written(tmp_path, basic_auth_users=users))
    with listening(snapshot(True), settings=file) as server:

        def guess(number: int) -> None:
            source = f"127.0.1.{number % CROWD + 1}"
            while not stop.is_set():
                header = basic("prometheus", f"{number} {time.monotonic()}")
                with suppress(OSError, http.client.HTTPException):
                    ask(server.server_port, source=source, Authorization=header)
                    answered[source] += 1

        with in_background(*(lambda n=n: guess(n) for n in range(3 * CROWD))):
            try:
                assert eventually(lambda: len(answered) == CROWD)
                for _ in range(3):
                    right = basic("prometheus", "secret")
                    assert ask(server.server_port, "/metrics", Authorization=right)[0] == 200
            finally:
                stop.set()


def test_the_queue_prefers_networks_with_the_fewest_requests() -> None:
    """Even if it is full of others; an admission resets the count."""
    line = PasswordQueue()
    order: list[str] = []
    first = threading.Event()
    go_on = threading.Event()

    def come(address: str) -> Callable[[], None]:
        def wait() -> None:
            with line.turn(address) as has_turn:
                first.set()
                go_on.wait(SOON)
                order.append(address if has_turn else f"no {address}")

        return wait

    def is_asked(address: str, times: int) -> None:
        for _ in range(times):
            line._count(network_of(address))

    for number in range(MAX_WAITING):
        is_asked(f"10.0.0.{number}", 10 + number)
    is_asked("10.0.0.3", 100)
    line.succeeded("10.0.0.3")
    with in_background(come("10.0.0.0")):
        assert first.wait(SOON)
        others = [f"10.0.0.{number}" for number in range(1, MAX_WAITING)]
        with in_background(*map(come, others)):
            assert eventually(lambda: len(line._clients) == MAX_WAITING)
            with in_background(come("10.9.9.9")):
                assert eventually(lambda: any(c.network == "10.9.9.9" for c in line._clients))
                assert len(line._clients) == MAX_WAITING
                go_on.set()
    loudest = f"no 10.0.0.{MAX_WAITING - 1}"
    assert [a for a in order if a != loudest][:4] in (
        ["10.0.0.0", "10.9.9.9", "10.0.0.3", "10.0.0.1"],
        ["10.0.0.0", "10.0.0.3", "10.9.9.9", "10.0.0.1"],
    )
    assert loudest in order


def test_counts_per_network_are_bounded_and_expire() -> None:
    """A network without requests for a while begins again."""
    now = 0.0
    line = PasswordQueue(lambda: now)
    for number in range(REMEMBERED_NETWORKS + 10):
        with line.turn(f"10.1.{number // 256}.{number % 256}"):
            pass
    assert len(line._asked) == REMEMBERED_NETWORKS
    for expected in (1, 2):
        with line.turn("10.0.0.1"):
            assert line._asked["10.0.0.1"][0] == expected
    now = 1000.0
    with line.turn("10.0.0.1"):
        assert line._asked["10.0.0.1"][0] == 1


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_ipv6_network_counts_as_one_client(address: str, network: str) -> None:
    """One of 64 bits."""
    assert network_of(address) == network


def test_a_refusal_of_a_wrong_password_is_delayed(tmp_path: Path) -> None:
    """A client that guesses gets two responses a second at most; no password, no delay."""
    file = WebConfigFile(written(tmp_path, basic_auth_users=USERS))
    with listening(snapshot(True), settings=file) as server:
        for _ in range(2):  # checked, then remembered
            started = time.monotonic()
            assert ask(server.server_port, Authorization=basic("alice", "wrong"))[0] == 401
            assert time.monotonic() - started >= FAILURE_DELAY
