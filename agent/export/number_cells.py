"""The numbers of a target on the page: each with its name and a note."""

from collections.abc import Iterator

from agent.assessment.snapshot import Snapshot
from agent.export.capacity_sentences import (
    bounds,
    full_resource_sentence,
    saturation_cell,
    saturation_soon_cell,
)
from agent.export.fit_report import past_peak_text
from agent.export.number_formats import format_number, whole_percent
from models.capacity.headroom import Headroom
from models.capacity.result import USL, Capacity
from models.trust import Trust
from models.usl.fit import UslFit

PageCell = tuple[str, str, str]
"""A number's name, the number, and a note."""
THROUGHPUT, CAPACITY, HEADROOM = "throughput", "capacity", "headroom"
SATURATED_SOON = "P(saturated within 1 h)"


def load_cells(snapshot: Snapshot, now: float) -> Iterator[PageCell]:
    """Yield the present load; nothing if it is not known."""
    load = snapshot.current_load(now)
    if load is not None:
        yield THROUGHPUT, _rate_text(load.throughput), "now"
        for source, n in load.concurrency.items():
            used = "used by the fit" if source is snapshot.assessed.source else ""
            yield f"concurrency ({source.value.replace('_', ' ')})", format_number(n), used


def capacity_cells(snapshot: Snapshot, now: float) -> Iterator[PageCell]:
    """Yield the capacity, the headroom, probabilities of saturation, and the law's peak."""
    capacity, fit = snapshot.capacity(now), snapshot.current_law(now)
    headroom = snapshot.headroom(now)
    if capacity is not None and capacity.trust is Trust.NOT_IDENTIFIABLE:
        yield CAPACITY, f"at least {_rate_text(capacity.lower)}", "not yet identifiable"
    elif capacity is not None:
        yield CAPACITY, _rate_text(capacity.value), bounds(capacity)
        if headroom is not None:
            yield _headroom_cell(capacity, headroom)
    likely = snapshot.saturation_probability(now)
    is_contradicted = headroom is None or headroom.overloaded
    is_contradicted |= bool(full_resource_sentence(snapshot, now))
    if likely and not is_contradicted:
        yield "P(saturated now)", *saturation_cell(likely)
    soon = snapshot.saturation_within(now)
    if soon and not is_contradicted:
        yield SATURATED_SOON, *saturation_soon_cell(soon)
    if fit is not None and fit.x_max is not None:
        is_limit = capacity is None or capacity.limit in (None, USL)
        other = "" if is_limit else "not the likeliest limit"
        note = "; ".join(filter(None, (_interval_text(fit.x_max_interval), other, _caution(fit))))
        yield "USL peak (Xmax)", _rate_text(fit.x_max), note
    if fit is not None and fit.n_max is not None:
        yield "at concurrency (Nmax)", format_number(fit.n_max), _interval_text(fit.n_max_interval)


def _rate_text(rate: float | None) -> str:
    return f"{format_number(rate)} queries/s"


def _headroom_cell(capacity: Capacity, headroom: Headroom) -> PageCell:
    if not headroom.overloaded:
        left = "none" if headroom.ratio < 0 else whole_percent(headroom.ratio)
        return HEADROOM, left, _caution(capacity)
    at_peak = ""
    if capacity.concurrency is not None:
        at_peak = f"{format_number(capacity.concurrency)} concurrent statements at the capacity"
    notes = (past_peak_text(headroom.overload_loss), at_peak, _caution(capacity))
    return HEADROOM, "none", "; ".join(filter(None, notes))


def _interval_text(interval: tuple[float, float] | None) -> str:
    return f"90 %: {format_number(interval[0])} to {format_number(interval[1])}" if interval else ""


def _caution(judged: Capacity | UslFit) -> str:
    return "" if judged.trust is Trust.TRUSTED else "not yet reliable"
