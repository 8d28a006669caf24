"""A target's query classes: samples in, once a minute a new state out.

`append` is called by the lanes that read, `advance` by the one that fits.
"""

import time
from collections import deque
from dataclasses import replace

import numpy as np

from agent.config.query_classes import ClassSettings
from agent.query_classes.class_intervals import (
    ClassInterval,
    ClassIntervalMaker,
    class_ticks,
    counted,
    host_use,
)
from agent.query_classes.class_registry import NOBODY, ClassRegistry, Numbers, name_of
from agent.query_classes.decayed_totals import DecayedTotals
from agent.query_classes.digest_deltas import Lost
from agent.query_classes.divided_resources import RESOURCES
from agent.query_classes.interval_usage import IntervalUsage
from agent.query_classes.state import ClassesState, ClassState, ResourceState
from agent.query_classes.topk_counters import ALWAYS, TopKCounters
from agent.queue_drain import take_all
from collectors.base import Sample
from models.attribution.class_intervals import AGENT, OTHER, Array, ClassIntervals
from models.attribution.class_shares import ClassShares
from models.attribution.reasons import HostUse, Signs, find_reasons
from models.attribution.sliding_model import SlidingModel

TRACKED, TRACKED_PER_SHOWN = 200, 3
"""Classes that have a column of their own in the models, and how many of them for each that is
shown; the others are one. A fit's time grows with their third power, its memory with the second."""
STAYS = 1.5
"""A tracked class keeps its column until another is so many times as great."""
MOST_KNOWN = 30_000
"""Classes that are remembered; beyond, all but the tracked ones are forgotten."""
MOST_NEW = 60
"""Intervals whose use is kept for whoever writes it down."""
QUANTITIES = ("calls", "statement_time")
WAITED = ("lock_time", "rows_examined", "rows_sent")
"""Counters that the split of a class's time needs beside its attributed resources."""
COUNTED = ("errors", "no_index_used", "no_good_index_used", "tmp_disk_tables")
"""What is summed up besides, where the server counts it."""
USED = ("statement_time", "calls", "rows_examined")
"""A class is as great as the sum of its shares of these."""


class QueryClasses:
    """Everything about the query classes of one target."""

    def __init__(self, settings: ClassSettings) -> None:
        self.state: ClassesState | None = None
        self.settings = settings
        self._book = ClassRegistry()
        self._maker = ClassIntervalMaker(self._book)
        self._ticks: list[ClassInterval] = []
        self._closes: float | None = None
        blocks = max(1, round(settings.window / settings.interval))
        self._keep = 1 - 1 / blocks
        self._recent = DecayedTotals(QUANTITIES, self._keep)
        self._waited = DecayedTotals(WAITED, self._keep)
        self._models = {r.name: SlidingModel(r, blocks) for r in RESOURCES}
        self._seen: set[str] = set()
        self._totals = TopKCounters((*QUANTITIES, *self._models, *COUNTED), settings.top)
        self._most_tracked = min(TRACKED, TRACKED_PER_SHOWN * settings.top)
        self._tracked: list[str] = []
        self._greatness: Array = np.zeros(0)
        self._new: deque[IntervalUsage] = deque(maxlen=MOST_NEW)

    def take_new(self) -> list[IntervalUsage]:
        """What was used in the intervals since this was asked last, oldest first."""
        return take_all(self._new)

    def append(self, sample: Sample) -> None:
        """Take in a sample of any collector."""
        self._maker.append(sample)

    def advance(self, now: float, unix: float) -> None:
        """Work on what has come in, up to `now` (monotonic seconds; `unix` is the same instant)."""
        renumbered = False
        for made in self._maker.ticks(now):
            tick = self._without_changes(made) if renumbered else made
            if self._closes is None:
                self._closes = tick.end - tick.seconds + self.settings.interval
            self._ticks.append(tick)
            if tick.end >= self._closes:
                self._close(unix - (now - tick.end))
                renumbered |= self._forget_most()
                self._closes = max(self._closes + self.settings.interval, tick.end)

    def _close(self, at: float) -> None:
        """A minute is over: who is tracked, who used what, who is shown."""
        begun = time.perf_counter()
        ticks, self._ticks = self._ticks, []
        self._track(ticks)
        names = (*self._tracked, OTHER, AGENT)
        whole = [tick for tick in ticks if tick.changes is not None]
        table = class_ticks(whole, self._columns(names), names, self._texts(names))
        divisions = self._divide(table, ticks, whole)
        self._new.append(self._count(at, table, ticks, divisions))
        self._totals.choose(self._ranking())
        state = self._described(at, divisions, ticks)
        self.state = replace(state, seconds=time.perf_counter() - begun)

    def _forget_most(self) -> bool:
        """Forget all but the tracked classes where too many were met; their numbers are new."""
        if len(self._book) <= MOST_KNOWN:
            return False
        self._book.keep(self._tracked)
        self._greatness = np.ones(len(self._tracked))
        self._maker.deltas.forget(Lost.CHURN)
        return True

    def _without_changes(self, tick: ClassInterval) -> ClassInterval:
        """A tick that was made with numbers that are no longer valid: only its use is known."""
        if tick.changes is not None:
            self._maker.deltas.lost[Lost.CHURN] += 1
        return replace(tick, changes=None)

    def _track(self, ticks: list[ClassInterval]) -> None:
        """Give the greatest classes of late a column, those that have one preferred."""
        great = np.zeros(len(self._book))
        great[: len(self._greatness)] = self._greatness * self._keep
        for tick in ticks:
            if tick.changes is None:
                continue
            for name in USED:
                if name in tick.changes.names:
                    used = tick.changes.values[:, tick.changes.names.index(name)]
                    great[tick.changes.classes] += used / max(float(used.sum()), 1e-9)
        self._greatness = great
        worth = great.copy()
        worth[[self._book.number(key) for key in self._tracked]] *= STAYS
        best = np.argsort(-worth, kind="stable")[: self._most_tracked + len(self._own(worth))]
        keys = [self._book.keys[n] for n in best if worth[n] > 0]
        self._tracked = [key for key in keys if not self._book.is_own(key)][: self._most_tracked]

    def _own(self, worth: Array) -> list[int]:
        return [n for n in range(len(worth)) if self._book.is_own(self._book.keys[n])]

    def _columns(self, names: tuple[str, ...]) -> Numbers:
        """The column of every class that was met."""
        columns = np.full(len(self._book), names.index(OTHER), dtype=np.intp)
        columns[self._own(self._greatness)] = names.index(AGENT)
        for i, key in enumerate(self._tracked):
            columns[self._book.number(key)] = i
        return columns

    def _texts(self, names: tuple[str, ...]) -> tuple[str | None, ...]:
        return tuple(None if name in ALWAYS else self._book.text_for_models(name) for name in names)

    def _divide(
        self, table: ClassIntervals, ticks: list[ClassInterval], whole: list[ClassInterval]
    ) -> dict[str, ClassShares]:
        """Divide each resource over the classes, by the ticks in which it and they are known."""
        divisions, host = {}, host_use(ticks)
        for name, model in self._models.items():
            y = np.array([tick.used.get(name, np.nan) for tick in whole])
            known = np.flatnonzero(np.isfinite(y))
            measured = name == "cpu" and table.cpu is not None and bool(table.cpu.any())
            if len(known):
                divisions[name] = model.take(table.at(known), y[known], host)
            elif measured and not any(name in tick.used for tick in ticks):
                divisions[name] = model.take(table, table.cpu.sum(axis=1), host)  # type: ignore[union-attr]
        return divisions

    def _count(
        self,
        at: float,
        table: ClassIntervals,
        ticks: list[ClassInterval],
        divisions: dict[str, ClassShares],
    ) -> IntervalUsage:
        uses = np.zeros((len(table.names), len(self._totals.quantities)))
        spent = table.statement_time.sum(axis=0)
        if table.inflight_delta is not None:
            spent = spent + table.inflight_delta.sum(axis=0)
        if table.count is not None:
            uses[:, 0] = table.count.sum(axis=0)
        uses[:, 1] = spent
        left = {"calls": 0.0, "statement_time": 0.0}
        for i, name in enumerate(self._models, start=len(QUANTITIES)):
            used = [tick.used[name] for tick in ticks if name in tick.used]
            if name in divisions:
                uses[:, i] = divisions[name].uses
            if used:
                self._seen.add(name)
                left[name] = sum(used) - float(uses[:, i].sum())
        self._add_counted(uses, table.names, ticks)
        rose, nobody = self._totals.add(table.names, uses, left)
        risen = {name: row for name, row in {**rose, NOBODY: nobody}.items() if row.any()}
        by_name = {name: self._known(row, divisions) for name, row in risen.items()}
        seconds = sum(tick.seconds for tick in ticks)
        self._recent.add(table.names, uses[:, : len(QUANTITIES)], seconds)
        self._waited.add(table.names, _waited(table), seconds)
        return IntervalUsage.of(at, seconds, by_name, divisions.get("cpu"), table.names)

    def _add_counted(self, uses: Array, names: tuple[str, ...], ticks: list[ClassInterval]) -> None:
        columns = self._columns(names)
        for name in COUNTED:
            if any(tick.changes is not None and name in tick.changes.names for tick in ticks):
                self._seen.add(name)
                place = self._totals.quantities.index(name)
                uses[:, place] = counted(ticks, columns, len(names), name)

    def _known(self, sums: Array, divisions: dict[str, ClassShares]) -> dict[str, float]:
        """Sums by quantity, those left out that nobody could count."""
        return {
            name: float(value)
            for name, value in zip(self._totals.quantities, sums, strict=True)
            if name in QUANTITIES or name in self._seen or name in divisions
        }

    def _ranking(self) -> dict[str, float]:
        """Use of CPU of late, or where that is not known, of time."""
        cpu = self._models["cpu"].use()
        return cpu if any(cpu.values()) else self._recent.by("statement_time")

    def _described(
        self, at: float, divisions: dict[str, ClassShares], ticks: list[ClassInterval]
    ) -> ClassesState:
        host = host_use(ticks)
        return ClassesState(
            at=at,
            classes=tuple(self._class(name, divisions) for name in self._totals.shown),
            resources=tuple(
                self._resource(name, divisions, host)
                for name in self._models
                if name in self._seen or name in divisions
            ),
            lost=dict(self._maker.deltas.lost),
            known=len(self._book),
            seconds=0.0,
            interval=self.settings.interval,
            recent_seconds=self._recent.seconds,
        )

    def _class(self, key: str, divisions: dict[str, ClassShares]) -> ClassState:
        sums = self._totals.shown[key]
        names, lines = self._models["cpu"].lines()
        place = names.index(key) if key in names else None
        cpu = divisions.get("cpu")
        error = float(cpu.error[place]) if cpu and place is not None else np.nan
        return ClassState(
            name=name_of(key),
            totals=self._known(sums, divisions),
            recent={
                **{name: model.use().get(key, 0.0) for name, model in self._models.items()},
                **self._recent.of(key),
                **self._waited.of(key),
            },
            error=error if np.isfinite(error) and cpu and not cpu.is_measured else None,
            line=lines.line(place) if place is not None and key not in ALWAYS else None,
            waits=bool(cpu and place is not None and cpu.waits[place]),
            text=self._book.text(key) if self.settings.digest_text else None,
        )

    def _resource(
        self, name: str, divisions: dict[str, ClassShares], host: HostUse
    ) -> ResourceState:
        model = self._models[name]
        quality = model.held_out
        signs = Signs(
            ticks=model.ticks,
            held_out_mape=quality.mape,
            level=model.level if model.resource.cpu else None,
            host=host,
            time_is_work=False,
        )
        i = self._totals.quantities.index(name)
        return ResourceState(
            name=name,
            source=divisions[name].source if name in divisions else None,
            unattributed=float(self._totals.left_over[i]) if name in self._seen else None,
            unattributed_share=model.unattributed_share if name in self._seen else None,
            held_out=quality,
            disagreement=model.disagreement,
            reasons=find_reasons(signs),
            total=model.total,
        )


def _waited(table: ClassIntervals) -> Array:
    """Sum up what the ticks have of `WAITED`, shape (K, 3); 0 for what they lack."""
    sizes = {"lock_time": table.lock_time, **dict(table.sizes)}
    nothing = np.zeros_like(table.statement_time)
    known = ((sizes.get(name), nothing) for name in WAITED)
    return np.array([(x if x is not None else none).sum(axis=0) for x, none in known]).T
