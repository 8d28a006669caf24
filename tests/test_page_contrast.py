"""Charts and bars have enough contrast to the page, light or dark (WCAG 2.2, criterion 1.4.11)."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from known_classes import known_classes
from known_time_split import known_time_use
from law_windows import WAVES, intervals, known, seen_at

from agent.assessment.deploy_markers import Marker
from agent.export.assessment_chart import FAINT
from agent.export.page import STYLE, render
from agent.export.time_split_html import COLOURS

MIN_CONTRAST = 3.0
Rgb = tuple[float, float, float]
MARK = re.compile(r"<(?:rect|circle|line|path|polyline|text) [^>]*>")


def rgb(colour: str) -> Rgb:
    """The parts of `#rgb` or `#rrggbb`, 0 to 1."""
    digits = colour.removeprefix("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    red, green, blue = (int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4))
    return red, green, blue


def luminance(colour: Rgb) -> float:
    """Relative luminance by WCAG 2.2."""
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Rgb, other: Rgb) -> float:
    """Contrast ratio by WCAG 2.2."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def schemes() -> Iterator[tuple[Rgb, Rgb]]:
    """Colour of the text and of the background, light and dark."""
    for body in re.findall(r"^ *body \{(.*?)\}", STYLE, re.MULTILINE | re.DOTALL):
        if found := re.search(r"background: (#\w+)", body):
            text = re.search(r"(?<![-\w])color: (#\w+)", body)
            assert text
            yield rgb(text[1]), rgb(found[1])


def marks(html: str) -> set[tuple[str, float]]:
    """Colour and opacity of each mark, without the faint ones."""
    found = set()
    for mark in MARK.findall(html):
        opacity = re.search(r'opacity="([\d.]+)"', mark)
        if opacity and opacity[1] == FAINT:
            continue
        share = float(opacity[1]) if opacity else 1.0
        colours = re.findall(r'(?:fill|stroke)="(#\w+|currentColor)"', mark)
        assert colours, mark
        found |= {(colour, share) for colour in colours}
    return found


def test_the_formula_gives_known_contrasts() -> None:
    """Black on white has 21; #777777 just misses the 4.5 of text."""
    assert contrast(rgb("#000"), rgb("#fff")) == pytest.approx(21.0)
    assert contrast(rgb("#777777"), rgb("#fff")) == pytest.approx(4.48, abs=0.01)


def test_each_mark_can_be_told_from_the_background() -> None:
    """Points, law, capacity, present load, outliers, and the bars of the time split."""
    rows = intervals(WAVES)
    rows[40] = rows[40]._replace(statement_time=500.0)
    at = seen_at(rows)
    found = known(rows)
    assert found.assessed.intervals is not None
    middle = float(found.assessed.intervals.at[50])
    shown = replace(
        found,
        markers=(Marker(middle, "4.2", "db"),),
        classes=known_classes(at),
        time_use=known_time_use(at),
    )
    drawn = marks(render([shown], at))
    assert {colour for colour, _ in drawn} > {*COLOURS.values(), "currentColor"}
    both = list(schemes())
    assert len(both) == 2
    for colour, opacity in drawn:
        for text, background in both:
            mark = text if colour == "currentColor" else rgb(colour)
            parts = zip(mark, background, strict=True)
            red, green, blue = (opacity * a + (1 - opacity) * b for a, b in parts)
            assert contrast((red, green, blue), background) >= MIN_CONTRAST, colour
