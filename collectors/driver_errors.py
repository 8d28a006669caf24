"""Converts PyMySQL's errors to `CollectorError`: a kind, and one line with place and remedy."""

import socket
import ssl

from collectors.base import CollectorError, FailureKind
from collectors.lazy_cryptography import CR, ER, pymysql
from collectors.transport_security import EXPIRED_CODE, OTHER_NAME_CODES, RENEW_CERTIFICATE

DENIED = {
    ER.ACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.HOST_NOT_PRIVILEGED,
    ER.HOST_IS_BLOCKED,
    1524,  # plugin is not loaded
    1698,  # access denied without a password
    1820,  # password must be changed
    1862,  # password has expired
    3118,  # account is locked
    3955,  # account is blocked after failed logins
    4150,  # MariaDB: likewise
    4151,  # MariaDB: account is locked
}
PASSWORD_REFUSALS = {ER.ACCESS_DENIED_ERROR, 1698}
"""Those that a server counts until it locks the account."""
PRIVILEGE = {
    ER.TABLEACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    1370,  # execution of a routine
}
TIME_LIMIT_ERRORS = {3024, 1969, 1317, 1205}  # MySQL's, MariaDB's; interrupted; lock wait
DISCONNECT_ERRORS = {
    1053,
    1152,
    1158,
    1159,
    1160,
    1161,
    1927,
    4031,
}  # shutdown, network error, kill, idle time-out
UNREACHABLE_ERRORS = {CR.CR_CONN_HOST_ERROR, CR.CR_CONNECTION_ERROR}
ACCOUNT_LIMIT_ERRORS = {1203, 1226}
OFFLINE_ERROR = 3032  # SET GLOBAL offline_mode
INIT_CONNECT_ERROR = 1184  # its message has the session's number, and not what failed
CONNECT_ERRORS = (
    UNREACHABLE_ERRORS
    | ACCOUNT_LIMIT_ERRORS
    | {ER.CON_COUNT_ERROR, OFFLINE_ERROR, INIT_CONNECT_ERROR}
)
UNLOCK, NEW_PASSWORD = "ACCOUNT UNLOCK", "IDENTIFIED BY '...' PASSWORD EXPIRE NEVER"
ACCOUNT_CHANGES = {
    1820: NEW_PASSWORD,
    1862: NEW_PASSWORD,
    3118: UNLOCK,
    3955: UNLOCK,
    4151: UNLOCK,
}
"""By error: what to add to ALTER USER."""
REMEDIES = {
    **{code: f"ALTER USER ... {change}" for code, change in ACCOUNT_CHANGES.items()},
    4150: "FLUSH PRIVILEGES on the server lets it in again",
    ER.HOST_IS_BLOCKED: "TRUNCATE TABLE performance_schema.host_cache lets it in again",
    OFFLINE_ERROR: "SET GLOBAL offline_mode = OFF lets it in again",
    ER.CON_COUNT_ERROR: "SET GLOBAL max_connections to more, or let clients open fewer",
    CR.CR_SSL_CONNECTION_ERROR: (
        "let the server have TLS (its ssl_cert and ssl_key), or use its socket file"
    ),
    INIT_CONNECT_ERROR: "its error log has the cause: correct SELECT @@GLOBAL.init_connect",
}
LIMIT_REMEDIES = {
    "max_user_connections": (
        "ALTER USER ... WITH MAX_USER_CONNECTIONS of 3 for each target, and each command, that uses"
        " the account"
    ),
    "max_questions": "ALTER USER ... WITH MAX_QUERIES_PER_HOUR 0",
    "max_queries_per_hour": "ALTER USER ... WITH MAX_QUERIES_PER_HOUR 0",
    "max_connections_per_hour": "ALTER USER ... WITH MAX_CONNECTIONS_PER_HOUR 0",
}
"""By the limit that the message of `ACCOUNT_LIMIT_ERRORS` names; the servers' names differ."""
MAX_LENGTH = 300  # characters of a server's message


def failure(error: Exception, place: object, user: str = "") -> CollectorError:
    """Convert an error at this address to a `CollectorError`; `user` is the login's account."""
    if isinstance(error, CollectorError):
        return CollectorError(error.kind, f"{place}: {error}")
    refusal = getattr(error, "original_exception", error)
    if isinstance(refusal, ssl.SSLCertVerificationError):
        why = _printable(refusal.verify_message).rstrip(".")
        text = f"the server's certificate is not trusted: {why}"
        remedy = _certificate_remedy(refusal.verify_code)
        return CollectorError(FailureKind.UNTRUSTED, f"{place}: {text}; {remedy}")
    code, text = _code_and_text(error)
    if code == INIT_CONNECT_ERROR:
        text = "the server's init_connect fails, which ends each session of this account"
    kind = _failure_kind(code, text, error)
    message = f"{place}: {text}" + (f" ({code})" if code else "")
    remedy = _remedy(code, text)
    if remedy:
        message += f"; {remedy}"
    elif kind is FailureKind.DENIED and user:
        message += (
            f"; check the account {user!r} and its password"
            " (`mysql-headroom files grants.sql` has its grants)"
        )
    elif kind is FailureKind.TIMEOUT:
        message += "; is it a MySQL server's port, and does it answer?"
    elif code in UNREACHABLE_ERRORS and kind is FailureKind.REFUSED:
        message = f"{place}: {_connect_problem(refusal)}"
    return CollectorError(kind, message)


def is_password_refusal(error: BaseException | None) -> bool:
    """Return whether the server has refused a login that it may count."""
    return isinstance(error, pymysql.MySQLError) and error.args[0] in PASSWORD_REFUSALS


def _certificate_remedy(code: int) -> str:
    """Return what to change where a certificate is refused with this code of OpenSSL."""
    if code == EXPIRED_CODE:
        return RENEW_CERTIFICATE
    if code in OTHER_NAME_CODES:
        return "use a host that it names, or set tls.verify_identity: false"
    return "check tls.ca"


def _remedy(code: int, text: str) -> str:
    """Return what to change on the server; empty where the error does not say."""
    if code in ACCOUNT_LIMIT_ERRORS:
        return next((remedy for limit, remedy in LIMIT_REMEDIES.items() if limit in text), "")
    return REMEDIES.get(code, "")


def _connect_problem(refusal: Exception) -> str:
    """Explain why no server was reached, and what to check; PyMySQL's own text can be unclear."""
    why = getattr(refusal, "strerror", None) or _printable(str(refusal))
    if isinstance(refusal, socket.gaierror):
        remedy = "check the host's name, and whether it can be resolved here"
    elif isinstance(refusal, FileNotFoundError):
        remedy = "check the path; is the server up?"
    elif isinstance(refusal, PermissionError):
        remedy = "check that the agent's user may access it"
    else:
        remedy = "is the server up, and does it listen there?"
    return f"cannot connect: {why}; {remedy}"


def _code_and_text(error: Exception) -> tuple[int, str]:
    arguments = error.args
    if isinstance(error, (pymysql.MySQLError, OSError, RuntimeError)):
        if len(arguments) > 1 and isinstance(arguments[0], int):
            return arguments[0], _printable(str(arguments[1]))
        return 0, _printable(str(error) or type(error).__name__)
    return 0, f"not an answer of a MySQL server ({type(error).__name__}); check host and port"


def _printable(text: str) -> str:
    """Return the first line of a text from outside, without control codes."""
    line = (text.splitlines() or [""])[0][:MAX_LENGTH]
    return "".join(sign if sign.isprintable() else "?" for sign in line)


def _failure_kind(code: int, text: str, error: Exception) -> FailureKind:
    """Return the kind of an error, by its number, its text and its type."""
    if isinstance(error, TimeoutError) or "timed out" in text:
        return FailureKind.TIMEOUT
    for codes, kind in (
        (DENIED, FailureKind.DENIED),
        (PRIVILEGE, FailureKind.PRIVILEGE),
        (TIME_LIMIT_ERRORS, FailureKind.SLOW),
        ({CR.CR_SSL_CONNECTION_ERROR}, FailureKind.UNTRUSTED),
        (CONNECT_ERRORS, FailureKind.REFUSED),
    ):
        if code in codes:
            return kind
    if isinstance(error, UnicodeDecodeError):
        return FailureKind.UNREADABLE
    if isinstance(error, pymysql.MySQLError) and _is_answer(code) and code not in DISCONNECT_ERRORS:
        return FailureKind.UNREADABLE
    return FailureKind.LOST


def _is_answer(code: int) -> bool:
    """Return whether the server sent the error: codes 2000 to 2999 are the client's own."""
    return 1000 <= code < 2000 or code >= 3000
