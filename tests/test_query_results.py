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
def test_a_number_is_read_as_it_is(cell: bytes | str, value: float) -> None:
    """Signs, fractions, exponents, as long as the longest DECIMAL and as great as may be."""
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
def test_what_is_no_usable_number_is_refused(cell: bytes | str | None) -> None:
    """With the name, as what a server may say and cannot be used."""
    with pytest.raises(CollectorError, match=r"^questions is not a usable number: ") as raised:
        number("questions", cell)
    assert raised.value.kind is FailureKind.UNREADABLE


def test_only_null_is_the_sum_of_nothing() -> None:
    """An empty cell is not a number there either."""
    assert number_or_zero("n", None) == 0
    assert number_or_zero("n", b"3") == 3
    with pytest.raises(CollectorError):
        number_or_zero("n", b"")


def test_a_whole_number_has_64_bits_and_no_sign() -> None:
    """Twenty digits; a cell or a word."""
    assert whole_number("n", b"18446744073709551615") == 2**64 - 1
    assert whole_number("n", "0") == 0
    for cell in (b"-1", b"+1", b"1.0", b"1e3", b"0" * 21, b"", None):
        with pytest.raises(CollectorError):
            whole_number("n", cell)


def test_a_message_shows_the_beginning_of_what_is_no_number() -> None:
    """Forty characters of it, escaped, and NULL by its name."""
    for cell in (b"x" * 500, "x" * 500):
        with pytest.raises(CollectorError) as raised:
            number("n", cell)
        assert str(raised.value) == f"n is not a usable number: '{'x' * 40}'"
    with pytest.raises(CollectorError, match=r"number: NULL$"):
        number("n", None)
    with pytest.raises(CollectorError, match=r"number: '\\x1b\[2J'$"):
        number("n", b"\x1b[2J")


def test_a_text_is_cut_in_characters_and_decoded_without_an_error() -> None:
    """However many bytes a character has; what is no UTF-8 shows as U+FFFD, NULL as nothing."""
    assert text(None) == ""
    assert text(b"abc", 3) == "abc"
    assert text(b"abcd", 3) == "abc"
    assert text((4 * WIDE).encode(), 5) == (4 * WIDE)[:5]
    assert text(b"a\xffb") == "a\N{REPLACEMENT CHARACTER}b"
    assert len(text(b"a" * 10_000)) == 512


def test_a_larger_result_has_more_room() -> None:
    """Each row, each column and each byte of the cells takes its own."""
    least = ResultLimits(columns=2, rows=10, bytes=100)
    for more in (ResultLimits(3, 10, 100), ResultLimits(2, 11, 100), ResultLimits(2, 10, 101)):
        assert more.size > least.size
    assert ResultLimits(2, 20, 100).size - least.size == 10 * (
        ResultLimits(2, 11, 100).size - least.size
    )
    assert ResultLimits(0, 0, 0).size > 0
