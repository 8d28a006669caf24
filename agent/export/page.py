"""The page for people: what is known about every target, in words first, numbers after."""

from html import escape
from importlib.resources import files

from agent import __version__
from agent.commands.fit_words import headline, quantity, threads
from agent.config.durations import words
from agent.export.chart import chart
from agent.snapshot import Snapshot
from models.trust import Trust

REFRESH = 5  # seconds
COLLECTOR_COLUMNS = ("collector", "state", "took", "last read", "failures", "skipped", "last error")
STYLE = (files("agent.export") / "page.css").read_text(encoding="utf-8")


def render(snapshots: list[Snapshot], now: float) -> str:
    """The whole page as HTML; `now` in Unix seconds."""
    sections = "".join(_target(s, now) for s in sorted(snapshots, key=lambda s: s.target))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{REFRESH}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>mysql-headroom</title><style>{STYLE}</style></head><body>"
        f'<h1>mysql-headroom <span class="grey">{escape(__version__)}</span></h1>{sections}'
        '<p class="grey"><a href="/metrics">/metrics</a> for Prometheus</p></body></html>'
    )


def _target(snapshot: Snapshot, now: float) -> str:
    return (
        f"<section><header><h2>{escape(snapshot.target)}</h2>{_badges(snapshot, now)}"
        f'<span class="grey">{escape(snapshot.health.server)}</span></header>'
        f"{_lead(snapshot, now)}{_numbers(snapshot, now)}{_chart(snapshot, now)}"
        f"{_missing(snapshot)}{_collectors(snapshot, now)}</section>"
    )


def _badges(snapshot: Snapshot, now: float) -> str:
    state = {True: ("up", "good"), False: ("down", "bad"), None: ("connecting", "dim")}
    text, kind = state[snapshot.health.up]
    badges = _badge(text, kind)
    fit = snapshot.fit(now)
    if fit is not None:
        kinds = {Trust.TRUSTED: "good", Trust.INDICATIVE: "fair", Trust.NOT_IDENTIFIABLE: "dim"}
        badges += _badge(fit.trust.value.replace("_", " "), kinds[fit.trust])
    return badges


def _badge(text: str, kind: str) -> str:
    return f'<span class="badge {kind}">{escape(text)}</span>'


def _lead(snapshot: Snapshot, now: float) -> str:
    """The one sentence to read, and why not more can be said."""
    fit = snapshot.fit(now)
    if fit is None:
        return f'<p class="lead">No prediction yet: {escape(_why_no_fit(snapshot, now))}.</p>'
    doubts = "".join(f"<li>{escape(reason.sentence)}</li>" for reason in fit.reasons)
    if fit.trust is Trust.NOT_IDENTIFIABLE:
        bound = quantity(fit.x_max_lower_bound)
        doubts += f"<li>the peak is at least {bound} queries/s</li>"
    if fit.settle_concurrency is not None:
        doubts += f"<li>a load of about {threads(fit.settle_concurrency)} would settle it</li>"
    return f'<p class="lead">{escape(headline(fit))}</p>' + (f"<ul>{doubts}</ul>" if doubts else "")


def _why_no_fit(snapshot: Snapshot, now: float) -> str:
    if snapshot.usl.at is not None:
        return f"the last fit is {words(now - snapshot.usl.at)} old and withheld"
    if snapshot.health.up is False:
        errors = [c.last_error for c in snapshot.health.collectors if c.last_error]
        return errors[0] if errors else "the server does not answer"
    return snapshot.usl.waiting


def _numbers(snapshot: Snapshot, now: float) -> str:
    load, fit = snapshot.current_load(now), snapshot.fit(now)
    cells = []
    if load is not None:
        cells.append(("throughput", f"{quantity(load.throughput)} /s", "queries now"))
        for source, n in load.concurrency.items():
            used = "used by the fit" if source is snapshot.usl.source else ""
            name = f"concurrency ({source.value.replace('_', ' ')})"
            cells.append((name, quantity(n), used))
    if fit is not None and fit.x_max is not None:
        cells.append(("predicted peak", f"{quantity(fit.x_max)} /s", _range(fit.x_max_interval)))
    if fit is not None and fit.n_max is not None:
        cells.append(("peak at concurrency", quantity(fit.n_max), _range(fit.n_max_interval)))
    for name, ratio in (
        ("throughput headroom", snapshot.throughput_headroom(now)),
        ("concurrency headroom", snapshot.concurrency_headroom(now)),
    ):
        if ratio is not None:
            cells.append((name, f"{100 * ratio:.0f} %", _caution(snapshot, now)))
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}<small>{escape(note)}</small></dd></div>"
        for name, value, note in cells
    )
    return f"<dl>{rows}</dl>" if rows else ""


def _range(interval: tuple[float, float] | None) -> str:
    return f"90 %: {quantity(interval[0])} to {quantity(interval[1])}" if interval else ""


def _caution(snapshot: Snapshot, now: float) -> str:
    fit = snapshot.fit(now)
    return "" if fit is None or fit.trust is Trust.TRUSTED else "not to be relied on yet"


def _chart(snapshot: Snapshot, now: float) -> str:
    fit, usl, load = snapshot.fit(now), snapshot.usl, snapshot.current_load(now)
    if fit is None or usl.source is None or usl.concurrency is None or usl.throughput is None:
        return ""
    n = load.concurrency.get(usl.source) if load is not None else None
    place = (n, load.throughput) if load is not None and n is not None else None
    return chart(usl.concurrency, usl.throughput, fit, place)


def _missing(snapshot: Snapshot) -> str:
    lacks: dict[tuple[str, str], list[str]] = {}
    for feature in snapshot.health.features:
        if not feature.enabled:
            lacks.setdefault((feature.reason, feature.remedy), []).append(feature.name)
    items = "".join(
        f"<li>{escape(', '.join(names))}: {escape(reason)}"
        + (f"<br>remedy: <code>{escape(remedy)}</code>" if remedy else "")
        + "</li>"
        for (reason, remedy), names in lacks.items()
    )
    return f"<p>Not available:</p><ul>{items}</ul>" if items else ""


def _collectors(snapshot: Snapshot, now: float) -> str:
    rows = "".join(
        f"<tr><td>{escape(c.name)}</td><td>{_state(c.success)}</td>"
        f"<td>{'' if c.duration is None else f'{1000 * c.duration:.1f} ms'}</td>"
        f"<td>{'' if c.last_at is None else words(max(0.0, now - c.last_at)) + ' ago'}</td>"
        f"<td>{sum(c.failures.values())}</td><td>{c.skipped}</td><td>{escape(c.last_error)}</td></tr>"
        for c in snapshot.health.collectors
    )
    head = "".join(f"<th>{name}</th>" for name in COLLECTOR_COLUMNS)
    table = f"<table><tr>{head}</tr>{rows}</table>"
    return f"<details><summary>How reading fares</summary>{table}</details>"


def _state(success: bool | None) -> str:
    return {True: "reads", False: "fails", None: "–"}[success]
