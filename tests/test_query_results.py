"""Cells of an answer: which are numbers and texts, at the very edges of what is accepted."""

import pytest

from collectors.base import CollectorError, FailureKind
from collectors.result_cells import ResultLimits, number, number_or_zero, text, whole_number

WIDE = "\N{SNOWMAN WITHOUT SNOW}\N{GRINNING FACE}"  # three and four bytes in UTF-8


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (b"0", 0.0),
        (b"-12.5", -12.5),
        (b"+7.", 7.0),
        (b"3e-2", 0.03),
        (b"1E+3", 1000.0),
        (b"1e30", 1e30),
        (b"-1e30", -1e30),
        (b"1e-999", 0.0),
        (b"0" * 79 + b"5", 5.0),
        (b"0." + b"0" * 79 + b"5", 5e-80),
        ("42", 42.0),
    ],
)
def test_a_number_is_parsed(cell: bytes | str, value: float) -> None:
    """Signs, fractions, exponents, the longest DECIMAL and the greatest float."""
    assert number("n", cell) == value


@pytest.mark.parametrize(
    "cell",
    [
        None,
        b"",
        b"nan",
        b"inf",
        b"0x10",
        b"1_000",
        b" 1",
        b".5",
        b"1e",
        b"1e1000",
        b"1.0000000001e30",
        b"-1.0000000001e30",
        b"0" * 80 + b"5",
        b"0." + b"0" * 80 + b"5",
        "\N{ARABIC-INDIC DIGIT FIVE}",
    ],
)
def test_an_unusable_number_is_refused(cell: bytes | str | None) -> None:
    """With its name, as an answer that cannot be used."""
    with pytest.raises(CollectorError, match=r"^questions is not a usable number: ") as raised:
        number("questions", cell)
    assert raised.value.kind is FailureKind.UNREADABLE


def test_only_null_counts_as_zero() -> None:
    """An empty cell is no number there either."""
    assert number_or_zero("n", None) == 0
    assert number_or_zero("n", b"3") == 3
    with pytest.raises(CollectorError):
        number_or_zero("n", b"")


def test_a_whole_number_is_unsigned_with_64_bits() -> None:
    """At most twenty digits; from a cell or a word."""
    assert whole_number("n", b"18446744073709551615") == 2**64 - 1
    assert whole_number("n", "0") == 0
    for cell in (b"-1", b"+1", b"1.0", b"1e3", b"0" * 21, b"", None):
        with pytest.raises(CollectorError):
            whole_number("n", cell)


def test_a_message_shows_the_beginning_of_an_invalid_number() -> None:
    """Forty characters of it, escaped, and NULL by its name."""
    for cell in (b"x" * 500, "x" * 500):
        with pytest.raises(CollectorError) as raised:
            number("n", cell)
        assert str(raised.value) == f"n is not a usable number: '{'x' * 40}'"
    with pytest.raises(CollectorError, match=r"number: NULL$"):
        number("n", None)
    with pytest.raises(CollectorError, match=r"number: '\\x1b\[2J'$"):
        number("n", b"\x1b[2J")


def test_a_text_is_decoded_and_cut_in_characters() -> None:
    """However many bytes one has; invalid UTF-8 shows as U+FFFD, NULL as an empty text."""
    assert text(None) == ""
    assert text(b"abc", 3) == "abc"
    assert text(b"abcd", 3) == "abc"
    assert text((4 * WIDE).encode(), 5) == (4 * WIDE)[:5]
    assert text(b"a\xffb") == "a\N{REPLACEMENT CHARACTER}b"
    assert len(text(b"a" * 10_000)) == 512


def test_the_size_limit_grows_with_the_result() -> None:
    """By each row, each column and each byte of the cells."""
    least = ResultLimits(columns=2, rows=10, bytes=100)
    for more in (ResultLimits(3, 10, 100), ResultLimits(2, 11, 100), ResultLimits(2, 10, 101)):
        assert more.size > least.size
    assert ResultLimits(2, 20, 100).size - least.size == 10 * (
        ResultLimits(2, 11, 100).size - least.size
    )
    assert ResultLimits(0, 0, 0).size > 0
