"""Judge the shipped alerts on simulated months and recorded servers, beside those of before.

    python bench/alerts.py [--months 2] [--seed 3000 ...] [--stories NAME ...] [--sweep]
        [--keep FOLDER]

Each story of `testbed/simulated/server_months.py` is played so often, minute by minute, through the
agent's own pipeline and the rules (`agent/replay`), the day before each stretch being known, and
the load of the week. Of a month only stretches of some hours are played: around its first
saturation and two others, two events that saturate nothing, and around the peaks of three ordinary
days, which stand for all such days. The capacity is assessed every ten minutes (the agent does it
each interval).
Each seed is that of the first month of a set; the tables are of all sets. `--sweep` prints other
thresholds, too; `--keep` keeps what was played, so that many sets can be played one by one, or side
by side.
"""

import argparse
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from candidate_alert_rules import variants
from former_alert_rules import BY_GROWTH, BY_HALF, BY_QUARTER, BY_TRUST
from recorded_certainty import recorded_certainty

from agent.assessment.load_by_time_step import LoadSum
from agent.assessment.recent_load import KEPT_STEPS, RecentLoad
from agent.config.settings import FitSettings
from agent.replay.alert_rules import HORIZON_SECONDS, RULES, Alerts, Rule, Scrape
from agent.replay.recording_player import IntervalRecording
from agent.replay.replay import Replay
from agent.window.interval_buffer import IntervalBuffer
from agent.window.intervals import Interval
from models.forecast.next_hour import STEP_SECONDS
from testbed.simulated.alert_judgement import (
    HEADS,
    AlertScore,
    MonthSpan,
    SaturationPeriod,
    saturations,
    smoothed,
)
from testbed.simulated.server_months import (
    DAY,
    DAYS,
    HOUR,
    MINUTE,
    PER_DAY,
    STORIES,
    Month,
    server_month,
)

PACE = 600.0
SATURATED, EVENTS, ORDINARY = 3, 2, 3
"""Stretches that are played of a month: of saturations, of events without one, of other days."""
EARLIER, LATER, AT_MOST = 4 * HOUR, 3 * HOUR, 3 * HOUR
FROM = 1.3 * DAY
"""A saturation before that has no day before it that is known."""
PAGES = ("critical",)
ANY = ("critical", "warning")
SATURATION = "Saturat"
"""Pages and warnings on saturation have it in their names, or ResourceFull."""


@dataclass(frozen=True, slots=True)
class PlayedSpan:
    """What is played of a month, and how many like it there are."""

    span: MonthSpan
    weight: float


@dataclass(frozen=True, eq=False, slots=True)
class Played:
    """A stretch as it was scraped."""

    known: Month
    stretch: PlayedSpan
    saturations: Sequence[SaturationPeriod]
    scrapes: Sequence[Scrape]


class ScrapeRecorder(Alerts):
    """Keeps each scrape, for any rules to be evaluated afterwards."""

    def __init__(self) -> None:
        super().__init__(())
        self.seen: list[Scrape] = []

    def observe(self, scrape: Scrape) -> None:
        """Keep it."""
        self.seen.append(scrape)


def stretches(known: Month, found: Sequence[SaturationPeriod]) -> Iterator[PlayedSpan]:
    """Choose what is played."""
    rng = np.random.default_rng(len(found))
    full = [s for s in found if s.start > FROM]
    first, others = full[:1], full[1:]
    drawn = sorted(rng.permutation(len(others))[: SATURATED - 1])
    for one in (*first, *(others[k] for k in drawn)):
        end = min(one.end, one.start + AT_MOST) + LATER
        weight = 1.0 if one in first else len(others) / len(drawn)
        yield PlayedSpan((one.start - EARLIER, min(end, DAYS * DAY)), weight)
    days = {int(s.start // DAY) for s in found} | {int(s.end // DAY) for s in found}
    calm = [m for m in known.monthly_load.events if m // PER_DAY not in days]
    for minute in calm[:EVENTS]:
        at = MINUTE * minute
        weight = len(calm) / len(calm[:EVENTS])
        yield PlayedSpan((at - HOUR, min(at + 3 * HOUR, DAYS * DAY)), weight)
    days |= {minute // PER_DAY for minute in known.monthly_load.events}
    ordinary = [day for day in range(2, DAYS - 1) if day not in days]
    days_drawn = rng.permutation(ordinary)[:ORDINARY]
    for day in days_drawn:
        top = MINUTE * (day * PER_DAY + int(np.argmax(known.asked[day * PER_DAY :][:PER_DAY])))
        yield PlayedSpan((top - 2.5 * HOUR, top + 2.5 * HOUR), len(ordinary) / len(days_drawn))


def play(known: Month, stretch: PlayedSpan) -> list[Scrape]:
    """Scrape the agent each minute; it knows the day before, and the load of the week."""
    first, last = (int(at / MINUTE) for at in stretch.span)
    before = known.intervals(max(first - KEPT_STEPS * int(STEP_SECONDS / MINUTE), 0), first)
    buffer = IntervalBuffer(MINUTE, DAY, 1.0)
    buffer.append_intervals(before[-PER_DAY:], stretch.span[0])
    load, seen = RecentLoad(stretch.span[0]), ScrapeRecorder()
    load.restore(_sums(before))
    recording = IntervalRecording(iter(known.intervals(first, last)), buffer)
    settings = FitSettings(interval=MINUTE)
    replay = Replay("simulated", recording, settings, pace=PACE, alerts=seen, recent=load)
    replay.play_until(stretch.span[1])
    return seen.seen


def _sums(rows: Iterable[Interval]) -> Iterator[LoadSum]:
    """What the history has of them, by the steps of the load's week."""
    for row in rows:
        step = int((row.end - row.seconds / 2) // STEP_SECONDS)
        yield LoadSum(step, row.seconds, row.seconds * row.throughput)


def played_month(story: str, seed: int, folder: Path | None) -> list[Played]:
    """All stretches of a month, played or as they were kept."""
    kept = folder and folder / f"{story.replace(' ', '_')}-{seed}.pickle"
    if kept and kept.exists():
        found: list[Played] = pickle.loads(kept.read_bytes())
        return found
    known = server_month(story, seed)
    saturated = saturations(known.asked, known.room)
    found = [
        Played(known, stretch, saturated, play(known, stretch))
        for stretch in stretches(known, saturated)
    ]
    if kept:
        kept.write_bytes(pickle.dumps(found))
    return found


def fired(rules: Iterable[Rule], scrapes: Sequence[Scrape]) -> list[MonthSpan]:
    """From when to when one of these alerts fired, those that touch as one."""
    alerts, spans = Alerts(rules), list[MonthSpan]()
    for scrape in scrapes:
        alerts.observe(scrape)
        spans += [
            (e.firing_at, e.resolved_at) for e in alerts.take() if e.firing_at and e.resolved_at
        ]
    end = scrapes[-1].at
    spans += [(e.firing_at, end) for e in alerts.take() if e.firing_at]
    return _joined(spans)


def _joined(spans: Iterable[MonthSpan]) -> list[MonthSpan]:
    found: list[MonthSpan] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def chosen(rules: Iterable[Rule], severities: Sequence[str]) -> list[Rule]:
    """Those on saturation, of these severities."""
    return [
        rule
        for rule in rules
        if rule.severity in severities and (SATURATION in rule.alert or "Full" in rule.alert)
    ]


def judge(played: Iterable[Played], rules: Sequence[Rule]) -> AlertScore:
    """Count what these rules say of all stretches."""
    score = AlertScore()
    for one in played:
        spans = fired(rules, one.scrapes)
        stretch = one.stretch
        of = f"{one.known.story} {one.known.seed}"
        score.add(spans, one.saturations, one.known.asked, stretch.span, stretch.weight, of)
    return score


def certainty(played: Iterable[Played]) -> Iterator[str]:
    """How often a grown load would have saturated the server, by the probability that was said."""
    pairs: list[tuple[float, float]] = []
    for one in played:
        for scrape in one.scrapes:
            minute = int(scrape.at / MINUTE) - 1
            asked = float(one.known.asked[max(minute - 2, 0) : minute + 1].mean())
            if asked < 1:
                pairs += [
                    (p, growth * asked)
                    for growth, p in scrape.saturation_by_growth.items()
                    if growth > 1
                ]
    said, asked_for = np.array(pairs).T
    for low, high in ((0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.01)):
        inside = (said >= low) & (said < high)
        if inside.any():
            came = (asked_for[inside] >= 1).mean()
            yield f"said {low:.2f} to {min(high, 1):.2f}: {came:.0%} of {inside.sum()}"
    wrong = (
        ((said >= 0.95) & (asked_for < 0.8)).mean(),
        ((said <= 0.05) & (asked_for > 1.25)).mean(),
    )
    yield f"said ≥ 0.95 below 80 % of the capacity: {wrong[0]:.2%} of all"
    yield f"said ≤ 0.05 above 125 % of it: {wrong[1]:.2%} of all"


def hour_ahead(played: Iterable[Played]) -> Iterator[str]:
    """How often the server was saturated within the next hour, by the probability of that.

    Minutes of a saturation do not count; stretches count as often as there are ones like them.
    """
    rows: list[tuple[float, bool, float]] = []
    for one in played:
        asked = smoothed(one.known.asked)
        for scrape in one.scrapes:
            minute, ahead = int(scrape.at / MINUTE), int(HORIZON_SECONDS / MINUTE)
            probability = scrape.saturation_by_time.get(HORIZON_SECONDS)
            if probability is not None and one.known.asked[max(minute - 5, 0) : minute].mean() < 1:
                came = bool(asked[minute + 2 :][:ahead].max(initial=0.0) >= 1)
                rows.append((probability, came, one.stretch.weight))
    said, came_all, weights = np.array(rows).T
    for low, high in pairwise((0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.01)):
        inside = (said >= low) & (said < high)
        if inside.any():
            said_mean, came_mean = (
                np.average(column[inside], weights=weights[inside]) for column in (said, came_all)
            )
            yield f"said {low:.2f} to {min(high, 1):.2f}: {said_mean:.1%}, came {came_mean:.1%}"


def table(played: Sequence[Played], sets: Mapping[str, Sequence[Rule]], months: int) -> None:
    """Print a row for each set of rules."""
    print("| " + " | ".join(HEADS) + " |\n" + "|---" * len(HEADS) + "|")
    for name, rules in sets.items():
        print(judge(played, rules).row(name, months))


def main() -> None:
    """Play, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--months", type=int, default=2, help="of each story in a set")
    parser.add_argument(
        "--seed", type=int, nargs="+", default=[3000], help="of the first month of each set"
    )
    parser.add_argument("--stories", nargs="*", choices=list(STORIES), default=list(STORIES))
    parser.add_argument("--sweep", action="store_true", help="print other thresholds, too")
    parser.add_argument("--keep", type=Path, help="a folder for what was played")
    args = parser.parse_args()
    started, played = time.process_time(), list[Played]()
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    for story in args.stories:
        for first in args.seed:
            for seed in range(first, first + args.months):
                played += played_month(story, seed, args.keep)
    of_each = args.months * len(args.seed)
    months = len(args.stories) * of_each
    shown = {
        "pages by trust": chosen(BY_TRUST, PAGES),
        "pages by a tenth more": chosen(BY_GROWTH, PAGES),
        "pages by one half": chosen(BY_HALF, PAGES),
        "pages now": chosen(RULES, PAGES),
        "pages and warnings by trust": chosen(BY_TRUST, ANY),
        "pages and warnings by a tenth more": chosen(BY_GROWTH, ANY),
        "pages and warnings by one half": chosen(BY_HALF, ANY),
        "pages and warnings now": chosen(RULES, ANY),
        "pages now, and the former warning": chosen(BY_QUARTER, ANY),
    }
    print(f"{months} months, {len(played)} stretches played")
    table(played, shown | (variants() if args.sweep else {}), months)
    for story in args.stories:
        its = [one for one in played if one.known.story == story]
        print(f"\n{story}")
        table(its, shown, of_each)
    print("\nOf loads grown by 10, 25 or 50 %, those that would have saturated the server:")
    print("\n".join(certainty(played)))
    print("\nSaturations within the next hour:")
    print("\n".join(hour_ahead(played)))
    print("\nRecorded servers, whose true peak was measured:")
    print("\n".join(recorded_certainty()))
    print(f"{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
