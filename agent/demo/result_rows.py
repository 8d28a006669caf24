"""The agent's results in the demo: rows of a table, and one line."""

from collections.abc import Sequence

from agent.assessment.snapshot import Snapshot
from agent.export.capacity_sentences import (
    bounds,
    doubt_sentences,
    full_resource_sentence,
    headline,
    resource_display_name,
    why_no_prediction,
)
from agent.export.fit_report import past_peak_text
from agent.export.number_formats import format_number, format_threads, whole_percent
from agent.window.concurrency import ConcurrencySource
from models.capacity.result import USL, Capacity
from models.trust import Trust
from models.usl.fit import UslFit
from models.usl.peak_posterior import CredibleInterval

LabelledValue = tuple[str, str]

LAW_PEAK, TRUST = "USL peak", "trust"
SHOWN_DOUBTS = 2
SOURCES = {
    ConcurrencySource.STATEMENT_TIME: "statement time",
    ConcurrencySource.THREADS_RUNNING: "Threads_running",
}


def summary_sentence(snapshot: Snapshot, now: float) -> str:
    """Return the sentence that sums up the result."""
    capacity = snapshot.capacity(now)
    if capacity is None:
        return f"No prediction yet: {why_no_prediction(snapshot, now)}."
    full = full_resource_sentence(snapshot, now)
    return f"{headline(capacity, snapshot.headroom(now))} {full}".strip()


def result_rows(snapshot: Snapshot, now: float) -> list[LabelledValue]:
    """Return load, capacity, its limit, the USL peak, trust and headroom, as far as known."""
    capacity, fit = snapshot.capacity(now), snapshot.current_law(now)
    return [
        *_load_rows(snapshot, now),
        *(_capacity_rows(capacity) if capacity else []),
        *(_law_rows(fit, capacity) if fit else []),
        *(_trust_rows(capacity) if capacity else []),
        *_headroom_rows(snapshot, now),
    ]


def result_line(rows: Sequence[LabelledValue], previous: Sequence[LabelledValue]) -> str:
    """Return the rows in one line; the doubts only if they differ from those of the rows before."""
    shown = [
        (name, value.partition(":")[0])
        if name == TRUST and (name, value) in previous
        else (name, value)
        for name, value in rows
    ]
    return " | ".join(f"{name} {value}" for name, value in shown)


def _load_rows(snapshot: Snapshot, now: float) -> list[LabelledValue]:
    load = snapshot.current_load(now)
    if load is None:
        return []
    rows = [("throughput", f"{format_number(round(load.throughput))} queries/s")]
    source = next(
        (s for s in (snapshot.assessed.source, *ConcurrencySource) if s in load.concurrency), None
    )
    if source is not None:
        count = format_threads(load.concurrency[source])
        rows.append(("concurrency", f"{count} (by {SOURCES[source]})"))
    return rows


def _capacity_rows(capacity: Capacity) -> list[LabelledValue]:
    if capacity.trust is Trust.NOT_IDENTIFIABLE or capacity.value is None:
        least = (
            "–" if capacity.lower is None else f"at least {format_number(capacity.lower)} queries/s"
        )
        return [("capacity", least)]
    likely = sorted(capacity.shares.items(), key=lambda limit: -limit[1])[:2]
    limits = ", ".join(
        f"{resource_display_name(n)} ({whole_percent(share)})"
        for n, share in likely
        if share >= 0.01
    )
    value = f"{format_number(round(capacity.value))} queries/s ({bounds(capacity)})"
    return [("capacity", value), ("limited by", limits)]


def _law_rows(fit: UslFit, capacity: Capacity | None) -> list[LabelledValue]:
    is_limit = capacity is None or capacity.limit in (None, USL)
    other = "" if is_limit else "; not the likeliest limit"
    if fit.trust is Trust.NOT_IDENTIFIABLE:
        bound = f"at least {format_number(round(fit.x_max_lower_bound))} queries/s"
        return [(LAW_PEAK, bound)]
    return [
        (
            LAW_PEAK,
            f"{format_number(round(fit.x_max or 0))} queries/s at {_peak_concurrency(fit)}{other}",
        ),
    ]


def _peak_concurrency(fit: UslFit) -> str:
    return format_threads(fit.n_max) + _interval_words(fit.n_max_interval)


def _interval_words(interval: CredibleInterval | None) -> str:
    if interval is None:
        return ""
    low, high = (format_threads(bound).removesuffix(" threads") for bound in interval)
    return f" (90 %: {low} to {high})"


def _trust_rows(capacity: Capacity) -> list[LabelledValue]:
    """Return the trust with the first of the doubts, and the load that would settle the rest."""
    doubts = doubt_sentences(capacity)
    settling = doubts[-1:] if capacity.settling_throughput is not None else []
    doubts = doubts[: len(doubts) - len(settling)]
    more = len(doubts) - SHOWN_DOUBTS
    others = [f"{more} more on the page"] if more > 0 else []
    why = "; ".join([*doubts[:SHOWN_DOUBTS], *others, *settling])
    return [(TRUST, capacity.trust.value.replace("_", " ") + (f": {why}" if why else ""))]


def _headroom_rows(snapshot: Snapshot, now: float) -> list[LabelledValue]:
    headroom, capacity = snapshot.headroom(now), snapshot.capacity(now)
    if headroom is None or capacity is None or capacity.trust is Trust.NOT_IDENTIFIABLE:
        return []
    if headroom.overloaded:
        at_peak = capacity.concurrency
        threads = "" if at_peak is None else f" ({format_threads(at_peak)} at it)"
        return [("headroom", f"none, {past_peak_text(headroom.overload_loss)}{threads}")]
    return [
        (
            "headroom",
            "none" if headroom.ratio < 0 else f"{whole_percent(headroom.ratio)} of the capacity",
        )
    ]
