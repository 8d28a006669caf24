"""Query classes as Prometheus metrics: counters to rate(), how they were obtained, what they cost.

Counters rise once a minute, when a minute was divided: take rates over five minutes or more.
"""

from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from agent.assessment.snapshot import Snapshot
from agent.export.families import counter, gauge
from agent.query_classes.capacity_gain import saving
from agent.query_classes.state import ClassesState, ClassState, ResourceState

TEXT_LETTERS = 256
COUNTERS = (
    ("calls", "calls", "Statements"),
    ("statement_time", "statement_seconds", "Statement time"),
    ("cpu", "cpu_seconds", "CPU time"),
    ("read", "read_bytes", "Bytes read from disk"),
    ("written", "written_bytes", "Bytes written to disk"),
    ("network", "network_bytes", "Network bytes sent and received"),
    ("row_operations", "row_operations", "InnoDB rows read and changed"),
)
"""Quantities of a class, and what follows `query_` and, for what no class explains,
`unattributed_`."""

MODES = (("user_cpu", "user"), ("system_cpu", "system"))
"""Parts of the CPU time, and their values of the label `mode`; they are no more than estimated."""

EVENTS = (
    ("errors", "errors", "Failed statements of the query class."),
    (
        "no_index_used",
        "no_index",
        "Statements of the query class that scanned a table without an index.",
    ),
    (
        "no_good_index_used",
        "no_good_index",
        "Statements of the query class without a good index, checked row by row.",
    ),
    ("tmp_disk_tables", "tmp_disk_tables", "Temporary tables on disk made by the query class."),
)
"""What the server counts of a class besides, and what follows `query_`."""

MODEL_GAUGES: tuple[tuple[str, str, Callable[[ResourceState], float | None]], ...] = (
    (
        "query_model_error_ratio",
        "Mean relative error of the totals that the model predicted in advance.",
        lambda resource: resource.held_out.mape,
    ),
    (
        "query_model_r_squared",
        "Squared correlation of the totals with the model's predictions in advance.",
        lambda resource: resource.held_out.r_squared,
    ),
    (
        "unattributed_ratio",
        "Share of a quantity that is not attributed to any class.",
        lambda resource: resource.unattributed_share,
    ),
    (
        "query_model_disagreement",
        "Sum over classes of |measured - estimated| share: 0 the same, 2 nothing in common.",
        lambda resource: resource.disagreement,
    ),
)

Known = list[tuple[Snapshot, ClassesState]]


def class_families(snapshots: list[Snapshot], now: float) -> Iterator[Metric]:
    """Counters always, the rest while it is fresh."""
    known = [(s, s.classes) for s in snapshots if s.classes is not None]
    fresh = [(s, c) for s, _ in known if (c := s.current_classes(now)) is not None]
    yield from _counters(known)
    yield from _modes(known)
    yield from _events(known)
    yield from _of_classes(fresh, now)
    yield from _of_models(fresh)
    yield gauge(
        "query_classes",
        "Query classes seen so far.",
        (((s.target,), float(c.known)) for s, c in known),
    )
    yield counter(
        "query_intervals_lost",
        "Intervals in which the classes' work is not known.",
        (((s.target, k.value), float(n)) for s, c in known for k, n in c.lost.items() if n),
        "kind",
    )


def _labels(snapshot: Snapshot, one: ClassState) -> tuple[str, str, str]:
    return snapshot.target, one.name.schema, one.name.digest


def _counters(known: Known) -> Iterator[Metric]:
    for quantity, name, text in COUNTERS:
        yield counter(
            f"query_{name}",
            f"{text} of the query class.",
            ((_labels(s, one), one.totals.get(quantity)) for s, c in known for one in c.classes),
            "schema",
            "digest",
        )
        yield counter(
            f"unattributed_{name}",
            f"{text} not attributed to any class.",
            (((s.target,), r.unattributed) for s, c in known if (r := c.resource(quantity))),
        )


def _modes(known: Known) -> Iterator[Metric]:
    yield counter(
        "query_cpu_mode_seconds",
        "CPU time of the query class in the server's own code (user) or in the kernel (system); "
        "estimated apart from query_cpu_seconds_total.",
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
        "CPU time not attributed to any class, in the server's own code (user) or in the kernel "
        "(system).",
        (
            ((s.target, mode), resource.unattributed)
            for quantity, mode in MODES
            for s, c in known
            if (resource := c.resource(quantity))
        ),
        "mode",
    )


def _events(known: Known) -> Iterator[Metric]:
    for quantity, name, text in EVENTS:
        counts = (
            (_labels(s, one), one.totals.get(quantity)) for s, c in known for one in c.classes
        )
        yield counter(f"query_{name}", text, counts, "schema", "digest")


def _of_classes(fresh: Known, now: float) -> Iterator[Metric]:
    each = [(s, c, one) for s, c in fresh for one in c.classes]
    lines = [(_labels(s, one), one.line) for s, _, one in each if one.line and one.line.usable]
    yield gauge(
        "query_cpu_slope",
        "CPU seconds per second of the class's work time, the slope of a regression.",
        ((labels, line.slope) for labels, line in lines),
        "schema",
        "digest",
    )
    yield gauge(
        "query_cpu_slope_stderr",
        "Standard error of the slope.",
        ((labels, line.slope_stderr) for labels, line in lines),
        "schema",
        "digest",
    )
    yield gauge(
        "query_cpu_error_ratio",
        "Standard error of the class's estimated CPU, relative to it.",
        ((_labels(s, one), one.error) for s, _, one in each),
        "schema",
        "digest",
    )
    gains = [(_labels(s, one), saving(c, one, s.capacity(now))) for s, c, one in each]
    yield gauge(
        "query_capacity_gain_ratio",
        "Extra capacity for all other queries were the class removed, or its cost halved; "
        "0.25 is a quarter more.",
        (
            ((*labels, change), gain)
            for labels, found in gains
            for change, gain in (("removed", found.removed), ("halved", found.halved))
        ),
        "schema",
        "digest",
        "change",
    )
    yield gauge(
        "query_digest_info",
        "The normalised text of a class's statements.",
        (
            ((*_labels(s, one), one.text[:TEXT_LETTERS]), 1.0)
            for s, _, one in each
            if one.text is not None
        ),
        "schema",
        "digest",
        "digest_text",
    )


def _of_models(fresh: Known) -> Iterator[Metric]:
    resources = [(s.target, r) for s, c in fresh for r in c.resources]
    yield gauge(
        "query_source_info",
        "How the use of a quantity was attributed to the classes.",
        (((t, r.name, r.source.value), 1.0) for t, r in resources if r.source is not None),
        "quantity",
        "source",
    )
    for name, text, value in MODEL_GAUGES:
        yield gauge(name, text, [((t, r.name), value(r)) for t, r in resources], "quantity")
    yield gauge(
        "query_model_reason",
        "1 for each reason why an attribution is uncertain.",
        (((t, r.name, why.value), 1.0) for t, r in resources for why in r.reasons),
        "quantity",
        "reason",
    )
    yield gauge(
        "query_fit_duration_seconds",
        "Duration of the latest attribution.",
        (((s.target,), c.seconds) for s, c in fresh),
    )
