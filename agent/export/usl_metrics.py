"""The fitted Universal Scalability Law as Prometheus metrics: parameters, peak, trust, reasons."""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.metric_family_builders import LOWER, TRUST, UPPER, gauge, trust_rows
from models.trust import Trust
from models.usl.fit import UslFit

FIT_GAUGES: tuple[tuple[str, str, Callable[[UslFit], float | None]], ...] = (
    (
        "usl_sigma",
        "Contention (sigma) of the fitted Universal Scalability Law: the share of the work that "
        "cannot run in parallel, 0 is none. Absent without a recent fit.",
        lambda fit: fit.law.sigma,
    ),
    (
        "usl_kappa",
        "Coherency (kappa) of the fitted Universal Scalability Law: the cost of keeping each "
        "pair of statements consistent, 0 is none. Absent without a recent fit.",
        lambda fit: fit.law.kappa,
    ),
    (
        "usl_lambda_queries_per_second",
        "Throughput in queries per second at a concurrency of one, by the fitted Universal "
        "Scalability Law (lambda); absent without a recent fit.",
        lambda fit: fit.law.lam,
    ),
    (
        "usl_max_concurrency",
        "Statements running at once at the peak of the fitted Universal Scalability Law; absent "
        "without a recent fit, and where the law has no peak.",
        lambda fit: fit.n_max,
    ),
    (
        "usl_max_concurrency_lower",
        "Statements running at once at the peak of the fitted Universal Scalability Law, "
        f"{LOWER}; absent where that is not known.",
        lambda fit: fit.n_max_interval and fit.n_max_interval.low,
    ),
    (
        "usl_max_concurrency_upper",
        "Statements running at once at the peak of the fitted Universal Scalability Law, "
        f"{UPPER}; absent where that is not known.",
        lambda fit: fit.n_max_interval and fit.n_max_interval.high,
    ),
    (
        "usl_max_throughput_queries_per_second",
        "Throughput in queries per second at the peak of the fitted Universal Scalability Law; "
        "absent without a recent fit.",
        lambda fit: fit.x_max,
    ),
    (
        "usl_max_throughput_lower_queries_per_second",
        "Throughput in queries per second at the peak of the fitted Universal Scalability Law, "
        f"{LOWER}; absent where that is not known.",
        lambda fit: fit.x_max_interval and fit.x_max_interval.low,
    ),
    (
        "usl_max_throughput_upper_queries_per_second",
        "Throughput in queries per second at the peak of the fitted Universal Scalability Law, "
        f"{UPPER}; absent where that is not known.",
        lambda fit: fit.x_max_interval and fit.x_max_interval.high,
    ),
    (
        "usl_r_squared",
        "Share of the throughput's variance that the fit of the Universal Scalability Law "
        "explains, at most 1; it is high even where the prediction is bad. Absent without a "
        "recent fit.",
        lambda fit: fit.r_squared,
    ),
    (
        "usl_points",
        "Points (intervals) given to the fit of the Universal Scalability Law; absent without a "
        "recent fit.",
        lambda fit: float(fit.points),
    ),
    (
        "usl_outliers",
        "Points (intervals) that the fit of the Universal Scalability Law left out as outliers; "
        "absent without a recent fit.",
        lambda fit: float(len(fit.outliers)),
    ),
)


def usl_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the fitted law, its peak with bounds, and its trust."""
    fits = [(s.target, fit) for s in snapshots if (fit := s.current_law(now)) is not None]
    for name, text, value in FIT_GAUGES:
        yield gauge(name, text, [((target,), value(fit)) for target, fit in fits])
    judged_fits = [(s.target, *judged) for s in snapshots if (judged := _law_trust(s, now))]
    yield gauge(
        "usl_trust",
        f"Trust in the fit of the Universal Scalability Law: {TRUST}; absent while nothing is "
        "assessed.",
        (row for target, trust, _ in judged_fits for row in trust_rows((target,), trust)),
        "trust",
    )
    yield gauge(
        "usl_reason",
        "1 for each reason why the fit of the Universal Scalability Law is not trusted, or why "
        "there is none; absent without one.",
        (((target, reason), 1.0) for target, _, reasons in judged_fits for reason in reasons),
        "reason",
    )
    sources = [(s.target, s.assessed.source) for s in snapshots if s.current_law(now) is not None]
    yield gauge(
        "usl_concurrency_source_info",
        "Source of the concurrency that was fitted, in the label source: statement times or a "
        "count of running threads; always 1. Absent without a recent fit.",
        (((target, source.value), 1.0) for target, source in sources if source is not None),
        "source",
    )
    yield gauge(
        "last_assessment_timestamp_seconds",
        "Unix time of the end of the latest interval that was assessed; absent before the first.",
        (((s.target,), s.assessed.at) for s in snapshots),
    )


def _law_trust(snapshot: Snapshot, now: float) -> tuple[Trust, tuple[str, ...]] | None:
    """Return the law's trust and reasons; one that may not be fitted is not identifiable."""
    fit, refusal = snapshot.current_law(now), snapshot.law_refusal(now)
    if refusal is not None:
        return Trust.NOT_IDENTIFIABLE, (refusal.check.value,)
    if fit is None:
        return None
    return fit.trust, tuple(reason.value for reason in fit.reasons)
