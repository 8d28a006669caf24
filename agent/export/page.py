"""The HTML page: an overview, and for each target sentences, numbers, tables and a chart."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from agent import __version__
from agent.assessment.snapshot import Snapshot
from agent.config.durations import format_duration
from agent.export.assessment_chart import render_chart, render_legend
from agent.export.badges_html import badges
from agent.export.business_metric_sentences import business_metric_sentences
from agent.export.capacity_sentences import (
    doubt_sentences,
    full_resource_sentence,
    headline,
    why_down,
    why_no_prediction,
)
from agent.export.class_sla_sentences import class_sla_sentences
from agent.export.class_table_html import classes_table
from agent.export.forecast_sentences import forecast_text
from agent.export.limits_table_html import resource_limits_table
from agent.export.markers_html import markers_section
from agent.export.number_cells import capacity_cells, load_cells
from agent.export.overview_html import overview
from agent.export.sla_sentences import sla_sentences
from agent.export.table_html import html_table
from agent.export.target_group_html import groups_section
from agent.export.time_split_html import time_section
from agent.groups.group_monitor import GroupState
from models.trust import Trust

REFRESH_SECONDS = 5
STILL = ("refresh", "no")
"""Field of the query string, and its value, of a page that is not reloaded: a reload ends a
selection, and folds what was unfolded."""
MAX_SECTIONS = 10
"""Number of targets up to which the page has a section for each. With 200 it would have 4.7 MB."""
COLLECTOR_COLUMNS = ("collector", "state", "took", "last read", "failures", "skipped", "last error")
SQL_VERBS = ("GRANT ", "UPDATE ")
"""How a remedy begins that is a statement; the others are sentences."""
STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def render(
    snapshots: list[Snapshot],
    now: float,
    groups: Sequence[GroupState] = (),
    history: str | None = None,
    *,
    reloads: bool = True,
) -> str:
    """Return the page of all targets as HTML; `now` in Unix seconds, `history` the file's path.

    `reloads`: whether the browser loads it again by itself.
    """
    table = ""
    if len(snapshots) > 1:
        table = overview(snapshots, now, lambda name: page_query(name, reloads=reloads))
    shown = snapshots if len(snapshots) <= MAX_SECTIONS else []
    ordered = sorted(shown, key=lambda snapshot: snapshot.target)
    sections = "".join(_target_section(snapshot, now, history) for snapshot in ordered)
    body = f"{_reload_line('', reloads, now)}{table}{groups_section(groups, now)}{sections}"
    return _document("mysql-headroom", body, reloads=reloads)


def render_target(
    snapshot: Snapshot, now: float, history: str | None = None, *, reloads: bool = True
) -> str:
    """Return the page of one target as HTML, likewise."""
    back = f'<p class="grey"><a href="{page_query("", reloads=reloads)}">all targets</a></p>'
    reload_line = _reload_line(snapshot.target, reloads, now)
    body = f"{reload_line}{back}{_target_section(snapshot, now, history)}"
    return _document(f"mysql-headroom: {snapshot.target}", body, reloads=reloads)


def page_query(target: str, *, reloads: bool) -> str:
    """Return the link to the page of a target, or of all where its name is empty."""
    fields = [("target", target)] if target else []
    return f"?{urlencode(fields if reloads else [*fields, STILL])}"


def _document(title: str, body: str, *, reloads: bool) -> str:
    reload = f'<meta http-equiv="refresh" content="{REFRESH_SECONDS}">' if reloads else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"{reload}"
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f'<h1>mysql-headroom <span class="grey">{escape(__version__)}</span></h1>'
        f'{body}<p class="grey"><a href="metrics">/metrics</a> for Prometheus,'
        ' <a href="api/v1/snapshot">/api/v1/snapshot</a> as JSON</p></body></html>'
    )


def _reload_line(target: str, reloads: bool, now: float) -> str:
    """Return a line with a link to the page that is not reloaded, or from it to the other."""
    text, name = f"Reloaded every {REFRESH_SECONDS} s", "stop"
    if not reloads:
        at = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        text, name = f"As of {at}, not reloaded", "reload it"
    link = escape(page_query(target, reloads=not reloads))
    return f'<p class="grey">{text}: <a href="{link}">{name}</a></p>'


def _target_section(snapshot: Snapshot, now: float, history: str | None) -> str:
    chart = _chart(snapshot, now)
    return (
        f"<section><header><h2>{escape(snapshot.target)}</h2>{badges(snapshot, now)}"
        f'<span class="grey">{escape(snapshot.health.server)}</span></header>'
        f"{_lead(snapshot, now)}{_number_list(snapshot, now)}{resource_limits_table(snapshot, now)}"
        f"{time_section(snapshot, now)}{chart}{_legend(snapshot, now, has_chart=bool(chart))}"
        f"{markers_section(snapshot, now, history, has_chart=bool(chart))}"
        f"{classes_table(snapshot, now)}{_missing_features(snapshot)}"
        f"{_collectors(snapshot, now)}</section>"
    )


def _lead(snapshot: Snapshot, now: float) -> str:
    """Return the headline, further sentences, and a list of the reasons for doubt."""
    capacity = snapshot.capacity(now)
    if capacity is None:
        return _down_paragraph(snapshot) + _lead_paragraph(_why_no_prediction(snapshot, now))
    items = "".join(f"<li>{escape(doubt)}</li>" for doubt in doubt_sentences(capacity))
    full = full_resource_sentence(snapshot, now)
    sentence = escape(f"{headline(capacity, snapshot.headroom(now))} {full}".strip())
    lead = (
        f'{_down_paragraph(snapshot)}<p class="lead">{sentence}</p>'
        f"{_forecast_paragraph(snapshot, now)}{_sla_paragraphs(snapshot, now)}"
    )
    lead += _business_paragraphs(snapshot, now)
    why = "" if capacity.trust is Trust.TRUSTED else "<p>Why it is not trusted:</p>"
    return lead + (f"{why}<ul>{items}</ul>" if items else "")


def _down_paragraph(snapshot: Snapshot) -> str:
    """Return why the server cannot be read now, where what follows is from before."""
    why = why_down(snapshot)
    return _lead_paragraph(f"Down: {why}") if why and snapshot.assessed.capacity else ""


def _lead_paragraph(text: str) -> str:
    end = "" if text.endswith("?") else "."  # an error may end with what to check
    return f'<p class="lead">{escape(text)}{end}</p>'


def _forecast_paragraph(snapshot: Snapshot, now: float) -> str:
    """Return a sentence on when the load reaches the limit."""
    known = snapshot.current_forecast(now)
    return f"<p>{escape(forecast_text(known.saturation))}</p>" if known else ""


def _sla_paragraphs(snapshot: Snapshot, now: float) -> str:
    """Return a few sentences on the loads at which the SLAs are reached."""
    known = snapshot.current_sla(now)
    sentences = [sla_sentences(known)] if known else []
    sentences += class_sla_sentences(snapshot, now)
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _business_paragraphs(snapshot: Snapshot, now: float) -> str:
    """Return a sentence on the headroom in the unit of each business metric."""
    sentences = (business_metric_sentences(one) for one in snapshot.current_business(now))
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)


def _why_no_prediction(snapshot: Snapshot, now: float) -> str:
    reason = why_no_prediction(snapshot, now)
    if snapshot.assessed.capacity is None:
        return f"No prediction yet: {reason}"
    return f"No present prediction: {reason}"


def _number_list(snapshot: Snapshot, now: float) -> str:
    cells = [*load_cells(snapshot, now), *capacity_cells(snapshot, now)]
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in cells
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _chart(snapshot: Snapshot, now: float) -> str:
    capacity, points = snapshot.capacity(now), snapshot.assessed.intervals
    if capacity is None or points is None:
        return ""
    latest = snapshot.markers[-1] if snapshot.markers else None
    return render_chart(points, capacity, snapshot.operating_point(now), latest)


def _legend(snapshot: Snapshot, now: float, *, has_chart: bool) -> str:
    points = snapshot.assessed.intervals
    if snapshot.capacity(now) is None or points is None:
        return ""
    left_out = render_legend(points, has_chart=has_chart)
    return f'<p class="grey">{escape(left_out)}.</p>' if left_out else ""


def _missing_features(snapshot: Snapshot) -> str:
    missing: dict[tuple[str, str], list[str]] = {}
    for feature in snapshot.health.features:
        if not feature.enabled:
            missing.setdefault((feature.reason, feature.remedy), []).append(feature.name)
    items = "".join(
        f"<li>{escape(', '.join(names))}: {escape(reason)}"
        + (f"<br>remedy: {_remedy(remedy)}" if remedy else "")
        + "</li>"
        for (reason, remedy), names in missing.items()
    )
    return f"<p>Not available:</p><ul>{items}</ul>" if items else ""


def _remedy(remedy: str) -> str:
    """Return the remedy, as code if it is an SQL statement to copy."""
    text = escape(remedy)
    return f"<code>{text}</code>" if remedy.startswith(SQL_VERBS) else text


def _collectors(snapshot: Snapshot, now: float) -> str:
    rows = "".join(
        f"<tr><td>{escape(c.name)}</td><td>{_state_text(c.success)}</td>"
        f"<td>{'' if c.duration is None else f'{1000 * c.duration:.1f} ms'}</td>"
        f"<td>{_age(c.last_at, now)}</td>"
        f"<td>{sum(c.failures.values())}</td><td>{c.skipped}</td><td>{escape(c.last_error)}</td></tr>"
        for c in snapshot.health.collectors
    )
    table = html_table(f"collectors of {snapshot.target}", COLLECTOR_COLUMNS, rows)
    failing = [c.name for c in snapshot.health.collectors if c.success is False]
    if not failing:
        return f"<details><summary>Collector status</summary>{table}</details>"
    state = escape(f"Collector status (failing: {', '.join(failing)})")
    return f"<details open><summary>{state}</summary>{table}</details>"


def _age(at: float | None, now: float) -> str:
    return "" if at is None else f"{format_duration(max(0.0, now - at))} ago"


def _state_text(success: bool | None) -> str:
    return {True: "ok", False: "fails", None: "–"}[success]
