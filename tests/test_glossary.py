"""One word for each thing: the glossary, and no private language where users read."""

import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from enum import StrEnum
from io import StringIO
from pathlib import Path

import pytest

from agent.cli import COMMANDS, main
from models.attribution.result import AttributionReason
from models.business_metric_headroom import UnitReason
from models.capacity.outliers import OutlierReason
from models.capacity.resource_and_limit import LimitReason
from models.capacity.result import CapacityReason
from models.forecast.time_to_saturation import ForecastReason
from models.group.summary import GroupReason
from models.group.usl_over_nodes import ScalingReason
from models.trust import Reason
from models.what_if.sla_result import SlaReason

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden/metrics.txt"
MAX_TERMS = 30
PRIVATE = re.compile(
    r"\b(walls?(?!.clock)|lanes?|wanders?|spells?|faring|fares|of late|nobody's|no class's"
    r"|take care|told|anew|dearer|dearest|became of|fare|at will"
    r"|(?:capacity|limit) is met|meets? the (?:capacity|limit))\b"
)
"""Words that users stumbled over."""
REASONS = (
    Reason,
    CapacityReason,
    LimitReason,
    OutlierReason,
    ForecastReason,
    AttributionReason,
    GroupReason,
    ScalingReason,
    SlaReason,
    UnitReason,
)


def terms() -> list[str]:
    """The terms of the glossary, in its order."""
    rows = re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs/glossary.md").read_text(), re.M)
    return [row for row in rows if row not in ("Term", "---")]


def said_to_users() -> Iterator[tuple[str, str]]:
    """Names and texts that users read, with where each is from."""
    for line in GOLDEN.read_text().splitlines():
        if line.startswith("# HELP"):
            yield "metric", line
    for reasons in REASONS:
        for reason in reasons:
            yield reasons.__name__, f"{reason.value} {reason.sentence}"
    for page in sorted((ROOT / "docs").glob("*.md")):
        yield page.name, page.read_text()
    for name in COMMANDS:
        with redirect_stdout(StringIO()) as out, pytest.raises(SystemExit):
            main([name, "--help"])
        yield f"{name} --help", out.getvalue()


def test_the_glossary_is_short_and_has_each_word_once() -> None:
    """At most thirty terms."""
    found = terms()
    assert 20 <= len(found) <= MAX_TERMS
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("term", terms())
def test_each_term_is_in_use(term: str) -> None:
    """A term that no other page uses is not in the glossary."""
    word = re.sub(r" \(.*\)", "", term).lower()
    pages = [path for path in (ROOT / "docs").glob("*.md") if path.name != "glossary.md"]
    assert any(word in path.read_text().lower() for path in [*pages, ROOT / "README.md"])


def test_no_private_word_reaches_a_user() -> None:
    """Metric names, HELP texts, reasons, --help and docs use the terms of the field."""
    found = {
        f"{where}: {m[0]}"
        for where, text in said_to_users()
        for m in PRIVATE.finditer(text.replace("_", " "))  # the words of a name too
    }
    assert not found


@pytest.mark.parametrize("reasons", REASONS, ids=lambda reasons: reasons.__name__)
def test_the_docs_explain_every_reason(reasons: type[StrEnum]) -> None:
    """Each value of a metric's label or in JSON."""
    docs = " ".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    assert {reason.value for reason in reasons if f"`{reason.value}`" not in docs} == set()
