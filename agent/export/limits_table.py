"""The resource walls as a table for people."""

from html import escape

from agent.commands.fit_report import quantity, short_time
from agent.export.capacity_report import resource_words
from agent.snapshot import Snapshot
from models.capacity.resource_limit import Wall

COLUMNS = ("resource", "used now", "a query takes", "full at", "90 % interval", "trust", "limit")
WORTH_TELLING = 0.005  # a smaller probability to be the limit is none


def walls_table(snapshot: Snapshot, now: float) -> str:
    """A row for each resource, the one that ends first at the top; empty where none is known."""
    capacity, load = snapshot.capacity(now), snapshot.current_load(now)
    if capacity is None or not capacity.walls:
        return ""
    used = load.resources if load else {}
    ordered = sorted(capacity.walls, key=lambda wall: (wall.x_max is None, wall.x_max or 0.0))
    rows = "".join(_row(w, used.get(w.resource), capacity.shares.get(w.resource)) for w in ordered)
    head = "".join(f"<th>{name}</th>" for name in COLUMNS)
    return f'<table class="walls"><tr>{head}</tr>{rows}</table>'


def _row(wall: Wall, used: float | None, share: float | None) -> str:
    interval = wall.x_max_interval
    cells = (
        resource_words(wall.resource),
        "" if used is None else f"{used:.0%}",
        "" if wall.demand is None else short_time(wall.demand),
        "" if wall.x_max is None else f"{quantity(wall.x_max)} /s",
        f"{quantity(interval.low)} to {quantity(interval.high)}" if interval else "",
        _trust(wall),
        f"{share:.0%} likely" if share and share >= WORTH_TELLING else "",
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _trust(wall: Wall) -> str:
    if wall.x_max is None:
        return "; ".join(reason.sentence for reason in wall.reasons)
    return wall.trust.value.replace("_", " ")
