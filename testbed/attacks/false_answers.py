"""False answers for the lying server, by statement, and the failure that each must cause."""

from itertools import repeat

from collectors.base import FailureKind
from testbed.attacks.lying_server import (
    COUNTED,
    DECIMAL,
    DIGEST,
    JSON,
    LONGLONG,
    MAX_PACKET,
    NEWDECIMAL,
    OK,
    FalseAnswer,
    Packets,
    endless,
    error,
    greeting,
    one,
    status_table,
    table,
)

MORE = {FailureKind.OVERSIZED}
NO_ANSWER = {FailureKind.LOST}
UNUSABLE = {FailureKind.UNREADABLE}
SURROGATE = b"SELECT ? AS `\xed\xa0\x80`"
HUGE = 10_000_000


def ok() -> Packets:
    """Return an OK packet without rows."""
    return (OK,)


def large_packets() -> Packets:
    """Yield packets of 16 MiB, each continued by the next."""
    return repeat(bytes(MAX_PACKET))


def digests(numbers: str, key: str = f"1.5|{DIGEST}|=shop", count: object = 1) -> FalseAnswer:
    """Return all rows of the digest table in one result."""
    return lambda: table((str(count), numbers, key))


def counters(number: str) -> str:
    """Return a digest row whose numbers are all this one."""
    return " ".join(["1000000", *[number] * COUNTED])


LIES: dict[str, tuple[dict[str, FalseAnswer], set[FailureKind]]] = {
    "texts that are no UTF-8": (
        {
            "WHERE DIGEST IN": lambda: table((DIGEST, SURROGATE)),
            "DIGEST_TEXT": lambda: table((counters("1"), f"1.5|{DIGEST}|=shop", SURROGATE)),
        },
        set(),
    ),
    "endless texts": ({"DIGEST_TEXT": lambda: endless(repeat(("1",) * 3), columns=3)}, MORE),
    "a text of 10 MB": (
        {"DIGEST_TEXT": lambda: table((counters("1"), f"1.5|{DIGEST}|=shop", "x" * HUGE))},
        MORE,
    ),
    "a column's name that is none": (
        {"CONNECTION_ID": lambda: table((7,), name=b"\xed\xa0\x80\xff")},
        set(),
    ),
    "a schema that is no UTF-8": (
        {"GROUP_CONCAT(": lambda: table((1, counters("7"), b"1.5|" + b"a" * 64 + b"|=\xff"))},
        set(),
    ),
    "a number of 30 million digits": ({"CONNECTION_ID": one("1E+30000000", NEWDECIMAL)}, UNUSABLE),
    "an old decimal": ({"CONNECTION_ID": one("1E+30000000", DECIMAL)}, UNUSABLE),
    "ten million digits": ({"CONNECTION_ID": one("9" * HUGE, LONGLONG)}, MORE),
    "4000 digits": ({"global_status": lambda: status_table({"Questions": "9" * 4000})}, UNUSABLE),
    "not a number": ({"global_status": lambda: status_table({"Questions": "NaN"})}, UNUSABLE),
    "infinity": (
        {"ALL\nSELECT COUNT": lambda: table(("1e999", "inf", "inf", "", "x"), (0,) * 5)},
        UNUSABLE,
    ),
    "a date": ({"LIKE 'Binlog Dump%'": lambda: table(("0000-00-00", "x", 0, 0, 0, "x"))}, UNUSABLE),
    "a document": ({"CONNECTION_ID": one('{"a": 1}', JSON)}, UNUSABLE),
    "NULL for an identity": ({"CONNECTION_ID": one(None)}, UNUSABLE),
    "OK for an identity": ({"CONNECTION_ID": ok}, UNUSABLE),
    "OK for the variables": ({"SHOW VARIABLES": ok}, UNUSABLE),
    "NULL for every variable": (
        {"SHOW VARIABLES": lambda: table(("version", None), (None, None))},
        UNUSABLE,
    ),
    "no row": ({"CONNECTION_ID": lambda: table(columns=1)}, UNUSABLE),
    "OK for everything": ({"SHOW GLOBAL": ok, "SELECT": ok}, UNUSABLE),
    "packets of 16 MiB": ({"global_status": large_packets}, MORE),
    "endless rows": ({"global_status": lambda: endless(repeat(("1",) * 6), columns=6)}, MORE),
    "endless empty rows": ({"setup_consumers": lambda: endless(repeat(("",)))}, MORE),
    "endless columns": ({"setup_consumers": lambda: endless((), columns=MAX_PACKET)}, MORE),
    "endless rows of one column": ({"setup_consumers": lambda: endless(repeat(("x",)))}, MORE),
    "a million digests": (
        {"GROUP_CONCAT(": lambda: table((1, b"12 " * (MAX_PACKET // 3 - 100), DIGEST))},
        UNUSABLE,
    ),
    "only separators": ({"GROUP_CONCAT(": digests(counters("1"), "\x1f" * 9_000_000)}, UNUSABLE),
    "names of digests of 200 KB": (
        {"GROUP_CONCAT(": digests(counters("1"), f"1.5|{'d' * 200_000}|=shop")},
        UNUSABLE,
    ),
    "digests that are not numbers": ({"GROUP_CONCAT(": digests(counters("NaN"))}, UNUSABLE),
    "infinite digests": ({"GROUP_CONCAT(": digests(counters("inf"))}, UNUSABLE),
    "digests beyond all numbers": ({"GROUP_CONCAT(": digests(counters("1e999"))}, UNUSABLE),
    "a version of 5 MB": ({"SHOW VARIABLES": lambda: table(("version", "8" * 5_000_000))}, MORE),
    "a refusal that is no text": ({"setup_consumers": lambda: error(1142, b"\xff\xfe")}, set()),
    "a state that is none": ({"setup_consumers": lambda: (b"\xffH\x04#" + b"\xff" * 9,)}, UNUSABLE),
    "an empty packet": ({"setup_consumers": lambda: (b"",)}, NO_ANSWER),
    "a file that is asked for": ({"setup_consumers": lambda: (b"\xfb/etc/passwd",)}, NO_ANSWER),
}  # fmt: skip


GREETINGS: dict[str, FalseAnswer] = {
    "packets of 16 MiB": large_packets,
    "a version of 5 MB": lambda: (greeting(b"8" * 5_000_000),),
    "ten thousand digits": lambda: (greeting(b"8" * 10_000),),
    "another alphabet": lambda: (greeting(plugin=b"\xed\xa0\x80"),),
    "a name of 20 KB": lambda: (greeting(plugin=b"p" * 20_000),),
    "nothing": lambda: (b"",),
}


LOGINS: dict[str, FalseAnswer] = {
    "more and more of it": lambda: repeat(b"\x01\x04" + bytes(500)),
    "packets of 16 MiB": large_packets,
    "another plugin for ever": lambda: repeat(b"\xfemysql_native_password\0" + bytes(20) + b"\0"),
}
