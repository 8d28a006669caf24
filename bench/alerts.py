"""Judge the shipped alerts on simulated months and recorded servers, beside those of before.

    python bench/alerts.py [--months 2] [--seed 3000] [--stories NAME ...] [--sweep]

Each story of `simulated_months.py` is played so often, minute by minute, through the agent's own
pipeline and the rules (`agent/replay`), the day before each stretch being known. Of a month only
stretches of some hours are played: around three saturations, two events that saturate nothing,
and around the peaks of two ordinary days, which stand for all such days. The capacity is assessed
every ten minutes (the agent does it each interval). `--sweep` prints other thresholds, too.
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from alert_judgement import HEADS, Saturation, Score, Span, saturations
from alert_rules_before import RULES as BEFORE
from alert_variants import variants
from recorded_certainty import recorded_certainty
from simulated_months import DAY, DAYS, HOUR, MINUTE, PER_DAY, STORIES, Month, month

from agent.config.settings import FitSettings
from agent.replay.alert_rules import RULES, Alerts, Rule, Scrape
from agent.replay.recording import Intervals
from agent.replay.replay import Replay
from agent.window.interval_buffer import IntervalBuffer

PACE = 600.0
SATURATED, EACH = 3, 2
"""Stretches that are played of a month: of saturations, and of each other kind."""
EARLIER, LATER, AT_MOST = 4 * HOUR, 1 * HOUR, 3 * HOUR
PAGES = ("critical",)
ANY = ("critical", "warning")
SATURATION = "Saturat"
"""Pages and warnings on saturation have it in their names, or ResourceFull."""


@dataclass(frozen=True, slots=True)
class PlayedSpan:
    """What is played of a month, and how many like it there are."""

    span: Span
    weight: float


@dataclass(frozen=True, eq=False, slots=True)
class Played:
    """A stretch as it was scraped."""

    known: Month
    stretch: PlayedSpan
    saturations: Sequence[Saturation]
    scrapes: Sequence[Scrape]


class Recorder(Alerts):
    """Keeps each scrape, for any rules to be evaluated afterwards."""

    def __init__(self) -> None:
        super().__init__(())
        self.seen: list[Scrape] = []

    def observe(self, scrape: Scrape) -> None:
        """Keep it."""
        self.seen.append(scrape)


def stretches(known: Month, found: Sequence[Saturation]) -> Iterator[PlayedSpan]:
    """Choose what is played."""
    rng = np.random.default_rng(len(found))
    full = [s for s in found if s.start > 1.3 * DAY]
    for one in full[:SATURATED]:
        end = min(one.end, one.start + AT_MOST) + LATER
        yield PlayedSpan(
            (one.start - EARLIER, min(end, DAYS * DAY)), len(full) / len(full[:SATURATED])
        )
    days = {int(s.start // DAY) for s in found} | {int(s.end // DAY) for s in found}
    calm = [m for m in known.course.events if m // PER_DAY not in days]
    for minute in calm[:EACH]:
        at = MINUTE * minute
        yield PlayedSpan((at - HOUR, min(at + 3 * HOUR, DAYS * DAY)), len(calm) / len(calm[:EACH]))
    days |= {minute // PER_DAY for minute in known.course.events}
    ordinary = [day for day in range(2, DAYS - 1) if day not in days]
    for day in rng.permutation(ordinary)[:EACH]:
        top = MINUTE * (day * PER_DAY + int(np.argmax(known.asked[day * PER_DAY :][:PER_DAY])))
        yield PlayedSpan((top - 2.5 * HOUR, top + 2.5 * HOUR), len(ordinary) / EACH)


def play(known: Month, stretch: PlayedSpan) -> list[Scrape]:
    """Scrape the agent every minute of the stretch; it knows the day before."""
    first, last = (int(at / MINUTE) for at in stretch.span)
    history = IntervalBuffer(MINUTE, DAY, 1.0)
    history.extend(known.intervals(max(first - PER_DAY, 0), first), stretch.span[0])
    seen = Recorder()
    recording = Intervals(iter(known.intervals(first, last)), history)
    replay = Replay("simulated", recording, FitSettings(interval=MINUTE), pace=PACE, alerts=seen)
    replay.until(stretch.span[1])
    return seen.seen


def fired(rules: Iterable[Rule], scrapes: Sequence[Scrape]) -> list[Span]:
    """From when to when one of these alerts fired, those that touch as one."""
    alerts, spans = Alerts(rules), list[Span]()
    for scrape in scrapes:
        alerts.observe(scrape)
        spans += [
            (e.firing_at, e.resolved_at) for e in alerts.take() if e.firing_at and e.resolved_at
        ]
    end = scrapes[-1].at
    spans += [(e.firing_at, end) for e in alerts.take() if e.firing_at]
    return _joined(spans)


def _joined(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
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


def judge(played: Iterable[Played], rules: Sequence[Rule]) -> Score:
    """Count what these rules say of all stretches."""
    score = Score()
    for one in played:
        spans = fired(rules, one.scrapes)
        stretch = one.stretch
        score.add(spans, one.saturations, one.known.asked, stretch.span, stretch.weight)
    return score


def certainty(played: Iterable[Played]) -> Iterator[str]:
    """How often a grown load would have saturated the server, by the probability that was said."""
    pairs: list[tuple[float, float]] = []
    for one in played:
        for scrape in one.scrapes:
            minute = int(scrape.at / MINUTE) - 1
            asked = float(one.known.asked[max(minute - 2, 0) : minute + 1].mean())
            if asked < 1:
                pairs += [(p, growth * asked) for growth, p in scrape.likely.items() if growth > 1]
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


def table(played: Sequence[Played], sets: Mapping[str, Sequence[Rule]], months: int) -> None:
    """Print a row for each set of rules."""
    print("| " + " | ".join(HEADS) + " |\n" + "|---" * len(HEADS) + "|")
    for name, rules in sets.items():
        print(judge(played, rules).row(name, months))


def main() -> None:
    """Play, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--months", type=int, default=2, help="of each story")
    parser.add_argument("--seed", type=int, default=3000, help="of the first month")
    parser.add_argument("--stories", nargs="*", choices=list(STORIES), default=list(STORIES))
    parser.add_argument("--sweep", action="store_true", help="print other thresholds, too")
    args = parser.parse_args()
    started, played = time.process_time(), list[Played]()
    for story in args.stories:
        for seed in range(args.seed, args.seed + args.months):
            known = month(story, seed)
            found = saturations(known.asked)
            for stretch in stretches(known, found):
                played.append(Played(known, stretch, found, play(known, stretch)))
    months = len(args.stories) * args.months
    shown = {
        "pages before": chosen(BEFORE, PAGES),
        "pages now": chosen(RULES, PAGES),
        "pages and warnings before": chosen(BEFORE, ANY),
        "pages and warnings now": chosen(RULES, ANY),
    }
    print(f"{months} months, {len(played)} stretches played")
    table(played, shown | (variants() if args.sweep else {}), months)
    for story in args.stories:
        its = [one for one in played if one.known.story == story]
        print(f"\n{story}")
        table(its, {name: shown[name] for name in list(shown)}, args.months)
    print("\nOf loads grown by 10, 25 or 50 %, those that would have saturated the server:")
    print("\n".join(certainty(played)))
    print("\nRecorded servers, whose true peak was measured:")
    print("\n".join(recorded_certainty()))
    print(f"{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
