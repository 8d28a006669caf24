"""What the agent knows now, in the demo's words: rows of a table, and one line."""

from agent.commands.fit_words import headline, quantity, threads
from agent.snapshot import Snapshot, Source
from models.trust import Trust
from models.usl_fit import UslFit
from models.usl_posterior import Interval

Row = tuple[str, str]

SOURCES = {Source.STATEMENT_TIME: "statement time", Source.THREADS_RUNNING: "Threads_running"}


def lead(snapshot: Snapshot, now: float) -> str:
    """The one sentence to read."""
    fit = snapshot.fit(now)
    return headline(fit) if fit is not None else f"No prediction yet: {why_no_fit(snapshot)}."


def rows(snapshot: Snapshot, now: float) -> list[Row]:
    """Load, predicted peak, trust and headroom, as far as they are known."""
    return [*_load_rows(snapshot, now), *_fit_rows(snapshot, now)]


def line(snapshot: Snapshot, now: float) -> str:
    """The same in one line."""
    return "; ".join(f"{name} {value}" for name, value in rows(snapshot, now)) or lead(
        snapshot, now
    )


def why_no_fit(snapshot: Snapshot) -> str:
    """What a prediction is waiting for."""
    if snapshot.health.up is False:
        errors = [c.last_error for c in snapshot.health.collectors if c.last_error]
        return errors[0] if errors else "the server does not answer"
    return snapshot.usl.waiting or "the last fit is too old"


def _load_rows(snapshot: Snapshot, now: float) -> list[Row]:
    load = snapshot.current_load(now)
    if load is None:
        return []
    rows = [("throughput", f"{quantity(round(load.throughput))} queries/s")]
    source = next((s for s in (snapshot.usl.source, *Source) if s in load.concurrency), None)
    if source is not None:
        count = threads(load.concurrency[source])
        rows.append(("concurrency", f"{count} by {SOURCES[source]}"))
    return rows


def _fit_rows(snapshot: Snapshot, now: float) -> list[Row]:
    fit = snapshot.fit(now)
    if fit is None:
        return []
    doubts = ", ".join(reason.sentence for reason in fit.reasons)
    trust = fit.trust.value.replace("_", " ") + (f": {doubts}" if doubts else "")
    if fit.trust is Trust.NOT_IDENTIFIABLE:
        bound = f"at least {quantity(round(fit.x_max_lower_bound))} queries/s"
        return [("predicted peak", bound), ("trust", trust)]
    return [
        ("predicted peak", _peak(fit)),
        ("at concurrency", threads(fit.n_max) + _range(fit.n_max_interval)),
        ("trust", trust),
        ("headroom", _headroom(snapshot, now)),
    ]


def _peak(fit: UslFit) -> str:
    interval = fit.x_max_interval
    whole = interval and Interval(round(interval.low), round(interval.high))
    return f"{quantity(round(fit.x_max or 0))} queries/s{_range(whole)}"


def _range(interval: Interval | None) -> str:
    if interval is None:
        return ""
    low, high = (threads(bound).removesuffix(" threads") for bound in interval)
    return f" (90 %: {low} to {high})"


def _headroom(snapshot: Snapshot, now: float) -> str:
    x, n = snapshot.throughput_headroom(now), snapshot.concurrency_headroom(now)
    if x is None or n is None:
        return "–"
    past = "past the peak" if n < 0 else f"{n:.0%} of concurrency"
    left = "above the predicted peak's throughput" if x < 0 else f"{x:.0%} of throughput"
    return f"{left}, {past}"
