"""A table of the page: it scrolls by itself where it is too wide, also from the keyboard."""

from collections.abc import Iterable
from html import escape


def html_table(label: str, columns: Iterable[str], rows: str, kind: str = "") -> str:
    """Return a table of these rows, which are HTML; `label` names it for a screen reader.

    `kind` is a class of its style. A region with a name and a place in the order of the Tab key is
    what WAI-ARIA asks of an area that scrolls.
    """
    style = f' class="{kind}"' if kind else ""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table{style}><tr>{head}</tr>{rows}</table></div>"
    )
