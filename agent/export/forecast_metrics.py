"""The forecast as Prometheus metrics: when the load reaches the capacity, and how likely."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.metric_family_builders import LOWER, UPPER, gauge
from models.forecast.time_to_saturation import Saturation

TIMES: tuple[tuple[str, str, Callable[[Saturation], float | None]], ...] = (
    (
        "time_to_saturation_seconds",
        "Seconds from the forecast until the hourly load, at its present growth, reaches the "
        "capacity (the median); absent while it is not known: see forecast_reason.",
        lambda found: found.seconds,
    ),
    (
        "time_to_saturation_lower_seconds",
        f"Seconds until the load reaches the capacity, {LOWER}; known also where the median is "
        "too far away.",
        lambda found: found.lower,
    ),
    (
        "time_to_saturation_upper_seconds",
        f"Seconds until the load reaches the capacity, {UPPER}; absent where it is too far away "
        "to forecast.",
        lambda found: found.upper,
    ),
)


def forecast_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the time to saturation with bounds, its probabilities, and why it is not known."""
    known = [(s.target, state) for s in snapshots if (state := s.current_forecast(now))]
    for name, text, value in TIMES:
        yield gauge(name, text, [((target,), value(state.saturation)) for target, state in known])
    yield gauge(
        "saturation_within_probability",
        "Probability, 0 to 1, that the hourly load reaches the capacity within the time of the "
        "label horizon; absent before two weeks of load are known.",
        (
            ((target, f"{days}d"), probability)
            for target, state in known
            for days, probability in state.saturation.probability
        ),
        "horizon",
    )
    yield gauge(
        "forecast_reason",
        "1 for the reason why the time to saturation is not known; absent while it is known.",
        (
            ((target, state.saturation.reason.value), 1.0)
            for target, state in known
            if state.saturation.reason is not None
        ),
        "reason",
    )
    yield gauge(
        "last_forecast_timestamp_seconds",
        "Unix time at which the load was last forecast; absent before the first time.",
        (((s.target,), s.forecast.at) for s in snapshots if s.forecast is not None),
    )
