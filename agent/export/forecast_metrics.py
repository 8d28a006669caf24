"""The forecast as Prometheus metrics: when the load meets the capacity, and how likely that is."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.families import BOUND, gauge
from models.forecast.saturation import Saturation

TIMES: tuple[tuple[str, str, Callable[[Saturation], float | None]], ...] = (
    (
        "time_to_saturation_seconds",
        "Time until the load, growing as it does, meets the capacity.",
        lambda found: found.seconds,
    ),
    (
        "time_to_saturation_lower_seconds",
        f"Time until the load meets the capacity, lower {BOUND}",
        lambda found: found.lower,
    ),
    (
        "time_to_saturation_upper_seconds",
        f"Time until the load meets the capacity, upper {BOUND}",
        lambda found: found.upper,
    ),
)


def forecast_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """When the load meets the capacity, with bounds, and why that may not be known."""
    known = [(s.target, state) for s in snapshots if (state := s.current_forecast(now))]
    for name, text, value in TIMES:
        yield gauge(name, text, [((target,), value(state.saturation)) for target, state in known])
    yield gauge(
        "saturation_within_probability",
        "The probability that the load meets the capacity within this time.",
        (
            ((target, f"{days}d"), probability)
            for target, state in known
            for days, probability in state.saturation.probability
        ),
        "horizon",
    )
    yield gauge(
        "forecast_reason",
        "1 for the reason why no time to saturation is known.",
        (
            ((target, state.saturation.reason.value), 1.0)
            for target, state in known
            if state.saturation.reason is not None
        ),
        "reason",
    )
    yield gauge(
        "last_forecast_timestamp_seconds",
        "When the load was last forecast.",
        (((s.target,), s.forecast.at) for s in snapshots if s.forecast is not None),
    )
