"""A profile in words, as JSON and as CSV: classes of query ranked by what they use."""

import csv
import io
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from agent.classes.book import name_of
from agent.classes.observe import Observed
from agent.commands.attribute_words import OTHERS, SOURCES, amount, bar, cut, percent, short
from models.attribution.divide import Attribution, Method
from models.attribution.reasons import Reason

NAME_WIDTH = 34
DIGEST_LETTERS = 12


@dataclass(frozen=True)
class Row:
    """One class; what is not known is None."""

    schema: str
    digest: str
    calls: float
    seconds: float
    """Time that its statements took, those that still run included."""
    cpu: float | None
    cpu_stderr: float | None
    io: float | None
    """Bytes read and written; estimated."""
    latency: float | None
    """Mean seconds of a statement."""
    rows_examined: float | None
    rows_sent: float | None
    waits: bool
    share: float | None
    """Of all classes, by what the rows are sorted by."""
    text: str | None


@dataclass(frozen=True)
class Profile:
    """Classes, the greatest first, and how their use was obtained."""

    rows: tuple[Row, ...]
    sort: str
    seconds: float
    cpu_source: Method | None
    cpu_total: float | None
    cpu_unattributed: float | None
    cpu_error: float | None
    """Mean error of the CPU of a tick as predicted from other ticks, as a part of it."""
    disagreement: float | None
    compared_with: Method | None
    reasons: tuple[Reason, ...]


SORTS: dict[str, Callable[[Row], float | None]] = {
    "cpu": lambda row: row.cpu,
    "time": lambda row: row.seconds,
    "count": lambda row: row.calls,
    "io": lambda row: row.io,
    "latency": lambda row: row.latency,
}


def profile_of(observed: Observed, sort: str, *, with_text: bool) -> Profile:
    """Rank what was observed; by time where what is asked for is not known."""
    rows = [row for row in _rows(observed, with_text=with_text) if row.calls or row.seconds > 0]
    if all(SORTS[sort](row) is None for row in rows):
        sort = "time"
    value = SORTS[sort]
    whole = 0.0 if sort == "latency" else sum(value(row) or 0.0 for row in rows)
    ranked = sorted(rows, key=lambda row: (-(value(row) or 0.0), row.digest))
    cpu = observed.cpu
    known_whole = cpu is not None and not observed.cpu_is_sum
    return Profile(
        rows=tuple(_shared(row, value(row), whole) for row in ranked),
        sort=sort,
        seconds=observed.seconds,
        cpu_source=cpu.method if cpu else None,
        cpu_total=cpu.total if cpu else None,
        cpu_unattributed=cpu.unattributed if cpu and known_whole else None,
        cpu_error=cpu.held_out.mape if cpu else None,
        disagreement=cpu.disagreement if cpu else None,
        compared_with=cpu.compared_with if cpu else None,
        reasons=cpu.reasons if cpu else (),
    )


def in_words(profile: Profile, top: int) -> str:
    """Write the profile as a table, 80 columns and more where texts are shown."""
    lines = [headline(profile), ""]
    title = f"  {'class':<{NAME_WIDTH}} {'share':>20}  {'CPU s':>9} ± error   {'time s':>9}"
    lines.append(f"{title} {'calls':>9} {'latency':>9} {'IO bytes':>9}")
    shown, rest = profile.rows[:top], profile.rows[top:]
    most = max((row.share or 0.0 for row in profile.rows), default=0.0) or 1.0
    lines += [_line(row, most) for row in shown]
    if rest:
        lines.append(f"  {len(rest)} more: {percent(sum(row.share or 0.0 for row in rest))}")
    return "\n".join([*lines, "", *_notes(profile)])


def headline(profile: Profile) -> str:
    """Say in one sentence who is first."""
    if not profile.rows:
        return f"No statement ended in {profile.seconds:.0f} s."
    first = profile.rows[0]
    by = {"cpu": "CPU", "time": "time", "count": "calls", "io": "IO", "latency": "latency"}
    if first.share is None or profile.sort == "latency":
        return f"{_name(first)} is first by {by[profile.sort]}."
    return f"{_name(first)} has most of the {by[profile.sort]}: {percent(first.share)}."


def as_json(profile: Profile, top: int) -> str:
    """Write the profile as JSON; null where something is not known."""
    content = {
        "sort": profile.sort,
        "seconds": profile.seconds,
        "cpu": {
            "source": profile.cpu_source.value if profile.cpu_source else None,
            "total": profile.cpu_total,
            "unattributed": profile.cpu_unattributed,
            "held_out_mape": profile.cpu_error,
            "disagreement": profile.disagreement,
            "reasons": [reason.value for reason in profile.reasons],
        },
        "classes": [asdict(row) for row in profile.rows[:top]],
    }
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False)


def as_csv(profile: Profile, top: int) -> str:
    """Write the profile as CSV; empty where something is not known."""
    out = io.StringIO()
    names = list(Row.__dataclass_fields__)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in profile.rows[:top]:
        values = asdict(row)
        writer.writerow("" if values[name] is None else values[name] for name in names)
    return out.getvalue().rstrip("\n")


def _rows(observed: Observed, *, with_text: bool) -> list[Row]:
    ticks = observed.ticks
    spent = ticks.statement_time.sum(axis=0)
    if ticks.inflight_delta is not None:
        spent = np.maximum(spent + ticks.inflight_delta.sum(axis=0), 0.0)
    count = ticks.count.sum(axis=0) if ticks.count is not None else np.zeros(len(spent))
    ended = ticks.statement_time.sum(axis=0)
    sizes = {name: table.sum(axis=0) for name, table in ticks.sizes}
    rows = []
    for k, key in enumerate(ticks.names):
        name = name_of(key)
        cpu, stderr, waits = _use(observed.cpu, k)
        rows.append(
            Row(
                schema=name.schema,
                digest=name.digest,
                calls=float(count[k]),
                seconds=float(spent[k]),
                cpu=cpu,
                cpu_stderr=stderr,
                io=_use(observed.io, k)[0],
                latency=float(ended[k] / count[k]) if count[k] else None,
                rows_examined=float(sizes["rows_examined"][k])
                if "rows_examined" in sizes
                else None,
                rows_sent=float(sizes["rows_sent"][k]) if "rows_sent" in sizes else None,
                waits=waits,
                share=None,
                text=observed.book.text(key) if with_text else None,
            )
        )
    return rows


def _use(found: Attribution | None, k: int) -> tuple[float | None, float | None, bool]:
    if found is None:
        return None, None, False
    use = found.classes[k]
    return use.total, use.stderr, use.waits


def _shared(row: Row, value: float | None, whole: float) -> Row:
    if value is None or whole <= 0:
        return row
    return Row(**{**asdict(row), "share": value / whole})


def _name(row: Row) -> str:
    if row.text:
        return cut(row.text.replace("`", ""), NAME_WIDTH)
    digest = row.digest[:DIGEST_LETTERS]
    return cut(f"{row.schema}.{digest}" if row.schema else digest, NAME_WIDTH)


def _line(row: Row, most: float) -> str:
    share = "" if row.share is None else f"{bar(row.share, most)} {percent(row.share):>7}"
    error = "" if row.cpu_stderr is None else f"± {short(row.cpu_stderr)}"
    cpu = "–" if row.cpu is None else short(row.cpu)
    latency = "–" if row.latency is None else short(row.latency)
    moved = "–" if row.io is None else short(row.io)
    waits = "  waits" if row.waits else ""
    return (
        f"  {_name(row):<{NAME_WIDTH}} {share:>20}  {cpu:>9} {error:<9} {amount(row.seconds)}"
        f" {amount(row.calls)} {latency:>9} {moved:>9}{waits}"
    ).rstrip()


def _notes(profile: Profile) -> list[str]:
    lines = [f"  {'watched':<14} {profile.seconds:.0f} s"]
    if profile.cpu_source is None or profile.cpu_total is None:
        lines.append(f"  {'CPU':<14} not known: neither the process nor CPU per statement is seen")
        return lines
    whole = f"{short(profile.cpu_total)} s"
    if profile.cpu_unattributed is not None:
        part = profile.cpu_unattributed / (profile.cpu_total or 1.0)
        whole += f", of which {percent(part)} is no class's"
    lines += [
        f"  {'CPU':<14} {whole}",
        f"  {'source':<14} {SOURCES[profile.cpu_source]}",
    ]
    if profile.cpu_error is not None:
        lines.append(f"  {'held out':<14} the total within {percent(profile.cpu_error)} on average")
    if profile.disagreement is not None and profile.compared_with is not None:
        moved = percent(profile.disagreement / 2)
        other = OTHERS[profile.compared_with]
        lines.append(f"  {'disagreement':<14} {moved} of the use lies elsewhere by {other}")
    return [*lines, *(f"  {'take care':<14} {reason.sentence}" for reason in profile.reasons)]
