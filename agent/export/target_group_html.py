"""The groups on the page: a sentence, a row for each node, and how the group scales."""

from collections.abc import Iterable
from html import escape

from agent.export.number_formats import format_number, whole_percent
from agent.export.table_html import html_table
from agent.groups.group_monitor import GroupState
from models.group.node_time_split import Layer, shares_by_layer
from models.group.ntp_clock_filter import ClockOffset
from models.group.summary import GroupReason, GroupSummary, Node
from models.group.usl_over_nodes import NodeScaling

LAYERS = {layer: f"{layer} threads" for layer in Layer}
COLUMNS = (
    "node",
    "queries/s",
    "capacity",
    "used",
    "headroom",
    "trust",
    *LAYERS.values(),
    "clock",
    "lost intervals",
)


def groups_section(states: Iterable[GroupState], now: float) -> str:
    """Return an HTML section for each group; empty if there is none."""
    return "".join(_group_section(state, now) for state in states)


def _group_section(state: GroupState, now: float) -> str:
    summary = state.current(now)
    title = f"<header><h2>Group {escape(state.name)}</h2></header>"
    if summary is None:
        return f'<section>{title}<p class="lead">No interval of its targets yet.</p></section>'
    reasons = "".join(f"<li>{escape(reason.sentence)}</li>" for reason in summary.reasons)
    rows = "".join(_row(node, state) for node in summary.nodes)
    table = html_table(f"nodes of group {state.name}", COLUMNS, rows, "numbers")
    lead = escape(group_sentences(summary) + layer_sentences(state))
    return (
        f'<section>{title}<p class="lead">{lead}</p>'
        + (f"<ul>{reasons}</ul>" if reasons else "")
        + table
        + (
            f'<p class="grey">{escape(scaling_sentence(state.scaling))}</p>'
            if state.scaling
            else ""
        )
        + "</section>"
    )


def group_sentences(summary: GroupSummary) -> str:
    """Describe the group in a few sentences, with the name of its bottleneck."""
    is_partial = GroupReason.CAPACITY_UNKNOWN in summary.reasons
    read = len(summary.nodes) - len(summary.lost)
    count = f"{read} of {len(summary.nodes)} nodes {'serves' if read == 1 else 'serve'}"
    text = f"{count} {format_number(summary.throughput or 0.0)} queries/s."
    if summary.bottleneck is not None:
        text += " Of the nodes whose capacity is known," if is_partial else ""
        text += f" {summary.bottleneck} has the least headroom"
        text += f" and limits the growth first{_growth_clause(summary)}."
    if summary.balanced_headroom is not None and not is_partial:
        headroom = summary.balanced_headroom
        unused = whole_percent(headroom) if headroom > 0 else "nothing"
        text += f" With the load divided in proportion to capacity, {unused} would be unused."
    return text


def layer_sentences(state: GroupState) -> str:
    """Describe the layers' shares of the nodes' time, and the loss by uneven load."""
    shares = shares_by_layer(list(state.layers.values()))
    parts = ", ".join(f"{layer} {whole_percent(share)}" for layer, share in shares.items())
    loss = state.summary.imbalance_loss if state.summary else None
    text = f" Shares of the time: {parts}." if parts else ""
    if loss is not None:
        unused = f"{whole_percent(loss)} of the nodes' time"
        text += f" Uneven load leaves {unused} unused when the first is full."
    return text


def _growth_clause(summary: GroupSummary) -> str:
    growth = summary.growth_to_bottleneck
    if growth is None:
        return ""
    return (
        ": it has reached its capacity"
        if growth <= 0
        else f": with {whole_percent(growth)} more load, divided as now"
    )


def scaling_sentence(scaling: NodeScaling) -> str:
    """Describe how throughput scales with the number of nodes, or why that is not known."""
    if scaling.fit is None:
        return f"Scaling over nodes: {scaling.reason.sentence if scaling.reason else 'not known'}."
    law = scaling.fit.law
    peak = f"; most throughput with {scaling.fit.n_max:.1f} nodes" if scaling.fit.n_max else ""
    trust = scaling.trust.value.replace("_", " ")
    sigma, kappa = f"{100 * law.sigma:.1f} %", f"{100 * law.kappa:.2f} %"
    parts = f"contention {sigma}, coherency {kappa} of a node's work{peak}"
    return f"Scaling over nodes: {parts} ({trust})."


def clock_offset_text(clock: ClockOffset | None) -> str:
    """Format a clock's offset from the agent's in milliseconds; empty if not known."""
    if clock is None:
        return ""
    return f"{1000 * clock.seconds:+z.1f} ± {1000 * clock.uncertainty:.1f} ms"


def _row(node: Node, state: GroupState) -> str:
    lost, threads = state.lost.get(node.name, 0), state.layers.get(node.name, {})
    cells = (
        node.name,
        "lost" if node.throughput is None else format_number(node.throughput),
        "" if node.capacity is None else format_number(node.capacity),
        "" if node.used_share is None else whole_percent(node.used_share),
        "" if node.headroom is None else whole_percent(node.headroom),
        "" if node.capacity is None else node.trust.value.replace("_", " "),
        *(f"{threads[layer]:.2f}" if layer in threads else "" for layer in LAYERS),
        clock_offset_text(state.clocks.get(node.name)),
        str(lost) if lost else "",
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
