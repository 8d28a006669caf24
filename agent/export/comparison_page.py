"""The comparison around a time as a page: the rows of `compare`, each verdict beside its name."""

from collections.abc import Sequence
from html import escape

from agent.compare.comparison import Compared, Comparison
from agent.export.comparison_rows import HEADER, known_rows, notes, period_text, row_cells
from agent.export.page import STYLE
from agent.export.table_html import html_table

HEADINGS = ("estimate", *HEADER[1:-1], "verdict")


def comparison_page(comparison: Comparison, json_path: str) -> str:
    """Return the whole page as HTML; `json_path` leads from it to the comparison as JSON."""
    sides = (("before", comparison.before), ("after", comparison.after))
    periods = "".join(f"<li>{name}: {escape(period_text(side))}</li>" for name, side in sides)
    rows = "".join(map(_row, known_rows(comparison)))
    label = f"{comparison.target} before and after"
    table = html_table(label, _verdict_second(HEADINGS), rows, "numbers compared")
    remarks = "".join(
        f"<p>{escape(note)}</p>" for note in (*notes(comparison), *comparison.source_notes)
    )
    return _document(
        f"<section><header><h2>{escape(comparison.target)}</h2></header><ul>{periods}</ul>{remarks}"
        f"{table}</section>"
        f'<p class="grey"><a href="./">all targets</a>, <a href="{escape(json_path)}">the same</a>'
        " as JSON</p>"
    )


def refusal_page(why: str) -> str:
    """Return a page that says why nothing is compared."""
    return _document(
        f'<p class="lead">Not compared: {escape(why)}.</p>'
        '<p class="grey"><a href="./">all targets</a></p>'
    )


def _document(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>mysql-headroom: before and after</title><style>{STYLE}</style></head><body>"
        f"<h1>mysql-headroom: before and after</h1>{body}</body></html>"
    )


def _row(row: Compared) -> str:
    *known, verdict = map(escape, row_cells(row))
    if row.has_changed:
        verdict = f'<span class="badge fair">{verdict}</span>'
    cells = _verdict_second((*known, verdict))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _verdict_second(cells: Sequence[str]) -> tuple[str, ...]:
    """Return the verdict, the last cell, beside the name: a narrow window shows it too."""
    name, *numbers, verdict = cells
    return (name, verdict, *numbers)
