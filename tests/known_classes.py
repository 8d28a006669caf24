"""A made-up state of query classes that has a value for everything that can be shown."""

from agent.query_classes.attribution_snapshot import ClassesState, ClassState, ResourceState
from agent.query_classes.class_registry import ClassName
from agent.query_classes.digest_deltas import LossReason
from models.attribution.class_interval_table import AGENT, OTHER
from models.attribution.result import AttributionReason, DivisionMethod, PredictionError
from models.attribution.weighted_linear_regression import Line

RESOURCES = ("cpu", "user_cpu", "system_cpu", "read", "written", "network", "row_operations")
EVENTS = ("errors", "no_index_used", "no_good_index_used", "tmp_disk_tables")
LINE = Line(0.8, 0.001, 0.97, 0.02, 0.0005, 0.01, 300)


def one_class(digest: str, use: float, text: str | None = None) -> ClassState:
    """Return a class that uses that much of everything."""
    several = digest in (OTHER, AGENT)
    return ClassState(
        name=ClassName("" if several else "shop", digest),
        totals={
            "calls": 1000 * use,
            "statement_time": 2 * use,
            **dict.fromkeys(RESOURCES, use),
            **dict.fromkeys(EVENTS, 10 * use),
        },
        recent={"calls": 500 * use, "statement_time": use, **dict.fromkeys(RESOURCES, use)},
        error=None if several else 0.1,
        line=None if several else LINE,
        waits=False,
        text=text,
    )


def known_classes(at: float) -> ClassesState:
    """Return two classes and the others; CPU is measured, all else estimated."""
    return ClassesState(
        at=at,
        classes=(
            one_class("a1", 6.0, "SELECT `a` FROM `t` WHERE `b` = ?"),
            one_class("b2", 2.5),
            one_class(OTHER, 1.0),
            one_class(AGENT, 0.25),
        ),
        resources=tuple(
            ResourceState(
                name=name,
                source=DivisionMethod.MEASURED if name == "cpu" else DivisionMethod.LEARNED,
                unattributed=0.5,
                unattributed_share=0.05,
                held_out=PredictionError(0.04, 0.9, 0.95),
                disagreement=0.08 if name == "cpu" else None,
                reasons=() if name == "cpu" else (AttributionReason.FEW_INTERVALS,),
                total=10.25,
            )
            for name in RESOURCES
        ),
        lost={LossReason.RESET: 1, LossReason.FULL: 0},
        known=321,
        seconds=0.05,
        interval=60.0,
        recent_seconds=1800.0,
    )
