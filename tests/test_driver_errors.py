"""Every way in which a server can fail has a kind and one line."""

import socket
import ssl
import struct

import pymysql
import pytest

from collectors.base import CollectorError, FailureKind
from collectors.driver_errors import MAX_LENGTH, failure, is_password_refusal

PLACE = "db1:3306"
Error = pymysql.err.OperationalError


def wrapped(error: OSError) -> Error:
    """As the library tells what went wrong while it connected."""
    found = Error(2003, f"Can't connect to MySQL server on 'db1' ({error})")
    found.original_exception = error  # type: ignore[attr-defined]
    return found


def unverified(reason: str) -> ssl.SSLCertVerificationError:
    """As OpenSSL tells whom it does not believe."""
    found = ssl.SSLCertVerificationError(1, "certificate verify failed")
    found.verify_message, found.verify_code = reason, 19  # X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
    return found


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (wrapped(ConnectionRefusedError(111, "Connection refused")), FailureKind.REFUSED),
        (Error(1040, "Too many connections"), FailureKind.REFUSED),
        (Error(1226, "User 'a' has exceeded 'max_user_connections'"), FailureKind.REFUSED),
        (Error(1045, "Access denied for user 'a'@'b'"), FailureKind.DENIED),
        (Error(3118, "Access denied. Account is locked."), FailureKind.DENIED),
        (wrapped(TimeoutError("timed out")), FailureKind.TIMEOUT),
        (Error(2013, "Lost connection to MySQL server during query (timed out)"), "timeout"),
        (Error(2013, "Lost connection to MySQL server during query"), FailureKind.LOST),
        (Error(1053, "Server shutdown in progress"), FailureKind.LOST),
        (Error(1927, "Connection was killed"), FailureKind.LOST),
        (Error(3024, "maximum statement execution time exceeded"), FailureKind.SLOW),
        (Error(1969, "max_statement_time exceeded"), FailureKind.SLOW),
        (Error(1142, "SELECT command denied"), FailureKind.PRIVILEGE),
        (pymysql.err.ProgrammingError(1146, "Table 'a.b' doesn't exist"), FailureKind.UNREADABLE),
        (Error(2026, "SSL is required but the server doesn't support it"), "untrusted"),
        (wrapped(unverified("self-signed certificate")), FailureKind.UNTRUSTED),
        (RuntimeError("'pynacl' package is required"), FailureKind.LOST),
        (ConnectionResetError(104, "Connection reset by peer"), FailureKind.LOST),
        (IndexError("index out of range"), FailureKind.LOST),
        (struct.error("unpack requires a buffer of 4 bytes"), FailureKind.LOST),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "unreadable"),
        (CollectorError(FailureKind.UNTRUSTED, "asks for the password"), FailureKind.UNTRUSTED),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_error_has_its_kind(error: Exception, kind: str) -> None:
    """Which decides whether the session ends."""
    found = failure(error, PLACE)
    assert found.kind == kind
    assert str(found).startswith(f"{PLACE}: ")


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        (
            FailureKind.DENIED,
            (1044, 1045, 1129, 1130, 1524, 1698, 1820, 1862, 3118, 3955, 4150, 4151),
        ),
        (FailureKind.PRIVILEGE, (1142, 1143, 1227, 1370)),
        (FailureKind.SLOW, (1205, 1317, 1969, 3024)),
        (FailureKind.REFUSED, (1040, 1203, 1226, 2002, 2003, 3032)),
        (FailureKind.LOST, (1053, 1152, 1158, 1159, 1160, 1161, 1927, 4031, 0, 999, 2000, 2999)),
        (FailureKind.UNREADABLE, (1000, 1064, 1999, 3000, 3025)),
    ],
)
def test_each_server_error_number_has_its_kind(kind: FailureKind, codes: tuple[int, ...]) -> None:
    """Numbers of the MySQL and MariaDB manuals; the client's own are lost connections."""
    assert {code: failure(Error(code, "words"), PLACE).kind for code in codes} == dict.fromkeys(
        codes, kind
    )


def test_a_server_message_is_one_harmless_line() -> None:
    """Without control characters and line feeds, and shortened."""
    text = str(failure(Error(1064, "near '\x1b[2J\x07" + "x" * 2000 + "'\nmore"), PLACE))
    assert text.isprintable()
    assert len(text) < MAX_LENGTH + 30
    assert "more" not in text


def test_known_errors_have_a_remedy() -> None:
    """A refused account, perhaps no MySQL server, and too many connections."""
    denied = str(failure(Error(1045, "Access denied"), PLACE, "headroom"))
    assert (
        "check the account 'headroom' and its password (`mysql-headroom files grants.sql`" in denied
    )
    assert str(failure(Error(1045, "Access denied"), PLACE)) == f"{PLACE}: Access denied (1045)"
    silent = str(failure(Error(2013, "Lost connection (timed out)"), PLACE, "headroom"))
    assert silent.endswith("(timed out) (2013); is it a MySQL server's port, and does it answer?")
    taken = str(failure(Error(1226, "has exceeded 'max_user_connections'"), PLACE, "headroom"))
    assert "(1226); ALTER USER ... WITH MAX_USER_CONNECTIONS of 3 for each target" in taken
    asked = str(failure(Error(1226, "has exceeded the 'max_questions' resource"), PLACE))
    assert asked.endswith("(1226); ALTER USER ... WITH MAX_QUERIES_PER_HOUR 0")
    lost = str(failure(Error(1053, "Server shutdown"), PLACE, "headroom"))
    assert lost == f"{PLACE}: Server shutdown (1053)"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ConnectionRefusedError(111, "Connection refused"),
            "Connection refused; is the server up, and does it listen there?",
        ),
        (
            socket.gaierror(-2, "Name or service not known"),
            "Name or service not known; check the host's name, and whether it can be resolved here",
        ),
        (
            FileNotFoundError(2, "No such file or directory"),
            "No such file or directory; check the path; is the server up?",
        ),
        (
            PermissionError(13, "Permission denied"),
            "Permission denied; check that the agent's user may access it",
        ),
        (OSError("odd"), "odd; is the server up, and does it listen there?"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_unreachable_server_has_a_remedy(error: OSError, text: str) -> None:
    """For a name, a path, a permission or a server each its own."""
    assert str(failure(wrapped(error), PLACE)) == f"{PLACE}: cannot connect: {text}"


def test_a_real_unknown_name_is_reported() -> None:
    """By the resolver's own error, for a name that none may know (RFC 6761)."""
    session = pymysql.connect(host="no-such-host.invalid", defer_connect=True)
    with pytest.raises(pymysql.OperationalError) as raised:
        session.connect()
    assert "check the host's name" in str(failure(raised.value, PLACE))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            Error(1040, "Too many connections"),
            "Too many connections (1040); SET GLOBAL max_connections to more, or let clients open"
            " fewer",
        ),
        (
            Error(2003, "Can't connect"),
            'cannot connect: (2003, "Can\'t connect"); is the server up, and does it listen there?',
        ),
        (Error(7), "7"),
        (RuntimeError("no", "key"), "('no', 'key')"),
        (RuntimeError(), "RuntimeError"),
        (
            IndexError("index out of range"),
            "not an answer of a MySQL server (IndexError); check host and port",
        ),
    ],
    ids=str,
)
def test_the_message_has_the_errors_text_and_number(error: Exception, message: str) -> None:
    """All of it without a number, the type's name without a text, and a remedy if there is one."""
    assert str(failure(error, PLACE)) == f"{PLACE}: {message}"


@pytest.mark.parametrize(
    ("error", "is_refused"),
    [
        (Error(1045, "Access denied"), True),
        (Error(1698, "Access denied"), True),
        (Error(1040, "Too many connections"), False),
        (OSError(1045, "Access denied"), False),
        (None, False),
    ],
)
def test_only_a_servers_own_refusal_counts_as_one(
    error: Exception | None, is_refused: bool
) -> None:
    """Of a password, so that it is not sent again until the server locks the account."""
    assert is_password_refusal(error) is is_refused
