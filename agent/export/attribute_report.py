"""A text report of the attribution of a resource to query classes, with its errors."""

import re

from agent.export.number_formats import format_aligned, format_percent, format_short
from models.attribution.result import Attribution, ClassUse, DivisionMethod, PredictionError

NAME_WIDTH, BAR_WIDTH = 30, 12
MAX_CLASSES = 20
BLOCKS = " ▏▎▍▌▋▊▉█"
BYTES = re.compile(r"bytes|[rw]char")
SECONDS = re.compile(r"_s(econds)?$")

SOURCES = {
    DivisionMethod.MEASURED: "measured: CPU per class as the server accounts for it",
    DivisionMethod.WORK_TIME: "work time: statement time without lock waits and wait functions",
    DivisionMethod.LEARNED: "learned: from how the total changes with calls and rows",
    DivisionMethod.WLR: "weighted linear regression on statement time, as published",
}
COMPARED_WITH = {
    DivisionMethod.MEASURED: "what was measured",
    DivisionMethod.WORK_TIME: "work time alone",
    DivisionMethod.LEARNED: "the learned model",
    DivisionMethod.WLR: "weighted linear regression",
}


def format_attribution(
    resource: str, found: Attribution, prediction: PredictionError | None, truth_error: float | None
) -> str:
    """Return the report: lines of at most 80 columns, without a final line feed."""
    return "\n".join(
        [
            headline(resource, found),
            "",
            *_table(resource, found),
            "",
            *_notes(found, prediction, truth_error),
        ]
    )


def headline(resource: str, found: Attribution) -> str:
    """Return a sentence on the class that uses most."""
    first = found.ranked[0]
    name = shorten_middle(resource, 20)
    if first.total <= 0:
        used = f"{format_short(found.total)} in {found.intervals:,} intervals"
        return f"No class explains any of {name}: {used}."
    share = format_percent(first.share)
    return f"{shorten_middle(first.name, NAME_WIDTH)} uses the most of {name}: {share}."


def _table(resource: str, found: Attribution) -> list[str]:
    """Return the table's lines: classes by use, the smallest together, the unattributed part."""
    ranked = found.ranked
    shown = ranked if len(ranked) <= MAX_CLASSES + 1 else ranked[:MAX_CLASSES]
    rest = ranked[len(shown) :]
    greatest = max(use.share for use in ranked) or 1.0
    is_measured = found.method is DivisionMethod.MEASURED
    column = _unit(resource) or ("measured" if is_measured else "estimated")
    title = f"  {'class':<{NAME_WIDTH}} {'share':>{BAR_WIDTH + 8}}  {column:>9}"
    lines = [title if is_measured else f"{title} ± error"]
    lines += [_row(use, greatest) for use in shown]
    if rest:
        name = f"{len(rest)} more"
        share, total = sum(u.share for u in rest), sum(u.total for u in rest)
        lines.append(
            f"  {name:<{NAME_WIDTH}} {share_bar(0, 1)} {format_percent(share):>7}"
            f"  {format_aligned(total)}"
        )
    unattributed_share = found.unattributed / found.total if found.total > 0 else 0.0
    note = f"{format_percent(unattributed_share)} of all"
    name = "unattributed"
    padding = " " * (BAR_WIDTH + 8)
    return [
        *lines,
        f"  {name:<{NAME_WIDTH}} {padding}  {format_aligned(found.unattributed)}  {note}",
    ]


def _unit(resource: str) -> str:
    """Return the unit that a resource's name tells, or ""."""
    if BYTES.search(resource):
        return "bytes"
    return "seconds" if SECONDS.search(resource) else ""


def _row(use: ClassUse, greatest: float) -> str:
    error = "" if use.stderr is None else f" ± {format_short(use.stderr)}"
    waits = "  waits" if use.waits else ""
    name = f"{shorten_middle(use.name, NAME_WIDTH):<{NAME_WIDTH}}"
    share = f"{share_bar(use.share, greatest)} {format_percent(use.share):>7}"
    used = f"{format_aligned(use.total)}{error:<8}{waits}"
    return f"  {name} {share}  {used}".rstrip()


def _notes(
    found: Attribution, prediction: PredictionError | None, truth_error: float | None
) -> list[str]:
    classes = f"{len(found.classes):,} classes" if len(found.classes) > 1 else "one class"
    total = f"{format_short(found.total)} in {found.intervals:,} intervals, {classes}"
    total += "; shares of what they explain"
    lines = [f"  {'total':<14} {total}", f"  {'source':<14} {SOURCES[found.method]}"]
    for name, quality in (("fit", found.fit), ("held out", found.held_out)):
        lines.append(f"  {name:<14} {_quality_text(quality)}")
    if prediction is not None:
        lines.append(f"  {'prediction':<14} {_quality_text(prediction)}")
    if found.disagreement is not None and found.compared_with is not None:
        other = COMPARED_WITH[found.compared_with]
        difference = f"{format_percent(found.disagreement / 2)} of the use differs with {other}"
        lines.append(f"  {'disagreement':<14} {difference}")
    if truth_error is not None:
        lines.append(f"  {'truth':<14} differences of the shares from it: {truth_error:.3f} in all")
    return [*lines, *(f"  {'caution':<14} {reason.sentence}" for reason in found.reasons)]


def _quality_text(quality: PredictionError) -> str:
    if quality.mape is None:
        return "not identifiable"
    parts = [f"the total within {format_percent(quality.mape)} on average"]
    if quality.r_squared is not None:
        parts.append(f"R² {quality.r_squared:.3f}")
    if quality.slope is not None:
        parts.append(f"slope {quality.slope:.2f}")
    return ", ".join(parts)


def share_bar(share: float, greatest: float) -> str:
    """Draw a share as a bar, relative to the greatest share."""
    eighths = round(8 * BAR_WIDTH * share / greatest)
    full, part = divmod(eighths, 8)
    return ("█" * full + (BLOCKS[part] if part else "")).ljust(BAR_WIDTH)


def shorten_middle(name: str, width: int) -> str:
    """Shorten a class's name in the middle: names differ at both ends."""
    clean = "".join(c if c.isprintable() else "·" for c in name)
    if len(clean) <= width:
        return clean
    head = (width - 1) // 2
    return f"{clean[:head]}…{clean[len(clean) - (width - 1 - head) :]}"
