"""Query classes as Prometheus metrics: counters, their sources and errors, capacity gains.

Counters rise once a minute, after its use was attributed: take rates over five minutes or more.
"""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.metric_family_builders import counter, gauge
from agent.query_classes.attribution_snapshot import ClassesState, ClassState, ResourceState
from agent.query_classes.capacity_gain import capacity_gain

TEXT_LENGTH = 256
COUNTERS = (
    ("calls", "calls", "Statements"),
    ("statement_time", "statement_seconds", "Statement time in seconds"),
    ("cpu", "cpu_seconds", "CPU seconds"),
    ("read", "read_bytes", "Disk reads in bytes"),
    ("written", "written_bytes", "Disk writes in bytes"),
    ("network", "network_bytes", "Network traffic with clients in bytes, both ways,"),
    ("row_operations", "row_operations", "InnoDB row operations (reads and changes)"),
)
"""Key of the quantity, the metric's name after `query_` and `unattributed_`, and the beginning of
its help text."""

MODES = (("user_cpu", "user"), ("system_cpu", "system"))
"""Keys of the parts of the CPU time and their values of the label `mode`; always estimated."""

EVENTS = (
    ("errors", "errors", "Statements of the query class that failed"),
    (
        "no_index_used",
        "no_index",
        "Statements of the query class that scanned a table without an index",
    ),
    (
        "no_good_index_used",
        "no_good_index",
        "Statements of the query class that searched for a usable index again for every row",
    ),
    ("tmp_disk_tables", "tmp_disk_tables", "Temporary tables of the query class on disk"),
)
"""Key of another counter of the server, the metric's name after `query_`, and the help text."""

NOT_SHOWN = "absent while the class is not among those shown"

MODEL_GAUGES: tuple[tuple[str, str, Callable[[ResourceState], float | None]], ...] = (
    (
        "query_model_error_ratio",
        "Mean error of the totals that the model of this quantity predicted in advance, as a "
        "share of them: 0 is exact. Absent before the second minute.",
        lambda resource: resource.held_out.mape,
    ),
    (
        "query_model_r_squared",
        "Squared correlation of the quantity's totals with what its model predicted in advance: "
        "1 is perfect, 0 is none. Absent before the second minute.",
        lambda resource: resource.held_out.r_squared,
    ),
    (
        "unattributed_ratio",
        "Share of the quantity's recent use that is attributed to no query class, 0 to 1; "
        "absent while nothing is used.",
        lambda resource: resource.unattributed_share,
    ),
    (
        "query_model_disagreement",
        "Difference between the measured shares of the query classes and those that a model "
        "estimates: the sum of |measured - estimated share|, 0 is equal, 2 is nothing in "
        "common. Absent where nothing is measured.",
        lambda resource: resource.disagreement,
    ),
)

TargetClasses = list[tuple[Snapshot, ClassesState]]


def class_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Yield the counters of all targets, and the other metrics of those with recent results."""
    known = [(s, s.classes) for s in snapshots if s.classes is not None]
    fresh = [(s, c) for s, _ in known if (c := s.current_classes(now)) is not None]
    yield from _counters(known)
    yield from _cpu_modes(known)
    yield from _events(known)
    yield from _class_gauges(fresh, now)
    yield from _model_gauges(fresh)
    yield gauge(
        "query_classes",
        "Query classes that are known: those seen so far, of which only the tracked ones stay "
        "where there are too many. Absent before the first minute.",
        (((s.target,), float(c.known)) for s, c in known),
    )
    yield counter(
        "query_intervals_lost",
        "Intervals in which the activity of the query classes is not known, by kind of cause; for "
        "the kind unseen, query classes whose first interval is not known. Absent before the first "
        "of its kind.",
        (((s.target, k.value), float(n)) for s, c in known for k, n in c.lost.items() if n),
        "kind",
    )


def _labels(snapshot: Snapshot, one: ClassState) -> tuple[str, str, str]:
    return snapshot.target, one.name.schema, one.name.digest


def _counters(known: TargetClasses) -> Iterator[Metric]:
    for quantity, name, text in COUNTERS:
        yield counter(
            f"query_{name}",
            f"{text} of the query class; {NOT_SHOWN}, or it is not known.",
            ((_labels(s, one), one.totals.get(quantity)) for s, c in known for one in c.classes),
            "schema",
            "digest",
        )
        yield counter(
            f"unattributed_{name}",
            f"{text} attributed to no query class; absent where it is not known.",
            (((s.target,), r.unattributed) for s, c in known if (r := c.resource(quantity))),
        )


def _cpu_modes(known: TargetClasses) -> Iterator[Metric]:
    yield counter(
        "query_cpu_mode_seconds",
        "CPU seconds of the query class in the server's own code (user) or in the kernel "
        "(system); estimated independently of query_cpu_seconds_total. Absent where the server "
        "is on another host.",
        (
            ((*_labels(s, one), mode), one.totals.get(quantity))
            for quantity, mode in MODES
            for s, c in known
            for one in c.classes
        ),
        "schema",
        "digest",
        "mode",
    )
    yield counter(
        "unattributed_cpu_mode_seconds",
        "CPU seconds of the server's process that are attributed to no query class, in its own "
        "code (user) or in the kernel (system); absent where the server is on another host.",
        (
            ((s.target, mode), resource.unattributed)
            for quantity, mode in MODES
            for s, c in known
            if (resource := c.resource(quantity))
        ),
        "mode",
    )


def _events(known: TargetClasses) -> Iterator[Metric]:
    for quantity, name, text in EVENTS:
        counts = (
            (_labels(s, one), one.totals.get(quantity)) for s, c in known for one in c.classes
        )
        yield counter(f"query_{name}", f"{text}; {NOT_SHOWN}.", counts, "schema", "digest")


def _class_gauges(fresh: TargetClasses, now: float) -> Iterator[Metric]:
    yield from _cpu_estimates(fresh)
    yield _capacity_gains(fresh, now)
    yield _digest_texts(fresh)


def _cpu_estimates(fresh: TargetClasses) -> Iterator[Metric]:
    """Yield CPU per work time with its error, and the error of the estimated CPU."""
    each = [(s, one) for s, c in fresh for one in c.classes]
    lines = [(_labels(s, one), one.line) for s, one in each if one.line and one.line.is_usable]
    yield gauge(
        "query_cpu_slope",
        "CPU seconds per second of the query class's work time (statements that run without "
        "waiting), the slope of a regression; absent where the slope is not above 0.",
        ((labels, line.slope) for labels, line in lines),
        "schema",
        "digest",
    )
    yield gauge(
        "query_cpu_slope_stderr",
        "Standard error of query_cpu_slope, in CPU seconds per second; absent without the slope.",
        ((labels, line.slope_stderr) for labels, line in lines),
        "schema",
        "digest",
    )
    yield gauge(
        "query_cpu_error_ratio",
        "Standard error of the query class's estimated CPU as a share of that CPU; absent where "
        "the CPU is measured.",
        ((_labels(s, one), one.error) for s, one in each),
        "schema",
        "digest",
    )


def _capacity_gains(fresh: TargetClasses, now: float) -> Metric:
    gains = [
        (_labels(s, one), capacity_gain(c, one, s.capacity(now)))
        for s, c in fresh
        for one in c.classes
    ]
    return gauge(
        "query_capacity_gain_ratio",
        "How much more of all other queries the server could do if the query class were "
        "removed, or its cost halved: 0.25 is a quarter more. Absent where that is not known.",
        (
            ((*labels, change), gain)
            for labels, found in gains
            for change, gain in (("removed", found.removed), ("halved", found.halved))
        ),
        "schema",
        "digest",
        "change",
    )


def _digest_texts(fresh: TargetClasses) -> Metric:
    return gauge(
        "query_digest_info",
        "Normalised text of the query class's statements, without literals, in the label "
        "digest_text; always 1. Absent unless classes.digest_text is on.",
        (
            ((*_labels(s, one), one.text[:TEXT_LENGTH]), 1.0)
            for s, c in fresh
            for one in c.classes
            if one.text is not None
        ),
        "schema",
        "digest",
        "digest_text",
    )


def _model_gauges(fresh: TargetClasses) -> Iterator[Metric]:
    resources = [(s.target, r) for s, c in fresh for r in c.resources]
    yield gauge(
        "query_source_info",
        "How the quantity was attributed to query classes, in the label source: measured, in "
        "proportion to work time, or by a model learned from totals; always 1.",
        (((t, r.name, r.source.value), 1.0) for t, r in resources if r.source is not None),
        "quantity",
        "source",
    )
    for name, text, value in MODEL_GAUGES:
        yield gauge(name, text, [((t, r.name), value(r)) for t, r in resources], "quantity")
    yield gauge(
        "query_model_reason",
        "1 for each reason to doubt the attribution of the quantity to query classes; absent "
        "without one.",
        (((t, r.name, reason.value), 1.0) for t, r in resources for reason in r.reasons),
        "quantity",
        "reason",
    )
    yield gauge(
        "query_attribution_duration_seconds",
        "Seconds that the latest attribution to query classes took; absent before the first.",
        (((s.target,), c.seconds) for s, c in fresh),
    )
