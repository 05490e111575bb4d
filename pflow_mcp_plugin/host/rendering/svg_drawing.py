"""A workflow as an SVG drawing: rows from the start downwards, and a line for each edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs

from pflow_mcp_plugin.host.rendering.html_page import as_html, page
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, WorkflowDocument

_WIDTH, _HEIGHT = 210, 52
_ACROSS, _DOWN = 270, 118
_MARGIN = 70
_LONGEST = 27
"""Characters of a label that fit a box of the drawing."""
_SVG = 'xmlns="http://www.w3.org/2000/svg" role="img"'
_ARROW = """<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"
 markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor"/></marker></defs>"""
_STYLE = """
.drawing { overflow-x: auto; }
rect { fill: var(--soft); stroke: currentColor; rx: 6; }
text { fill: currentColor; font: 13px system-ui, sans-serif; text-anchor: middle; }
.type { font-size: 11px; opacity: .75; }
.edge { fill: none; stroke: currentColor; stroke-width: 1.3; }
.way { stroke: var(--bad); stroke-dasharray: 5 3; }
.action { fill: var(--bad); font-size: 11px; paint-order: stroke; stroke: Canvas; stroke-width: 4px; }
.far { opacity: .5; }
"""


@attrs.frozen
class _Spot:
    """The position of a node: the top centre of its box, and its row."""

    x: int
    y: int
    row: int


def graph_page(name: str, document: WorkflowDocument, graph: Graph) -> str:
    """Return the SVG drawing of a workflow with its title, as a file that a browser can open.

    Args:
        name: The title of the page.
        document: The workflow.
        graph: Its edges.
    """
    count = len(document.nodes)
    body = f"<h1>{as_html(name)}</h1>\n<p>{count} node{'' if count == 1 else 's'}</p>"
    body += f'\n<div class="drawing" tabindex="0">\n{svg(document, graph)}\n</div>'
    return page(name, body, _STYLE)


def svg(document: WorkflowDocument, graph: Graph) -> str:
    """Return the drawing of a workflow as an SVG element."""
    spots = _spots(graph)
    width = max(spot.x for spot in spots.values()) + _WIDTH // 2 + _MARGIN
    height = max(spot.y for spot in spots.values()) + _HEIGHT + _MARGIN // 2
    parts = [
        f'<svg {_SVG} width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        _ARROW,
        *_edges(graph, spots),
        *(_box(node, spots[node.id], far=node.id not in graph.reachable) for node in document.nodes),
        "</svg>",
    ]
    return "\n".join(parts)


def _spots(graph: Graph) -> dict[str, _Spot]:
    """Return a position for each node; its row is its distance from the start."""
    rows: dict[str, int] = {graph.start: 0} if graph.start else {}
    waiting = list(rows)
    for node_id in waiting:
        for target in graph.successors[node_id].values():
            if target not in rows:
                rows[target] = rows[node_id] + 1
                waiting.append(target)
    last = max(rows.values(), default=-1) + 1
    rows |= {node_id: last for node_id in graph.successors if node_id not in rows}
    taken: dict[int, int] = {}
    spots = {}
    for node_id, row in rows.items():
        column = taken[row] = taken.get(row, -1) + 1
        x = _MARGIN + _WIDTH // 2 + column * _ACROSS
        spots[node_id] = _Spot(x, _MARGIN // 2 + row * _DOWN, row)
    return spots


def _edges(graph: Graph, spots: Mapping[str, _Spot]) -> Iterator[str]:
    for source, routes in graph.successors.items():
        for number, (action, target) in enumerate(routes.items()):
            yield _edge(spots[source], spots[target], action, number)


def _edge(one: _Spot, other: _Spot, action: str, number: int) -> str:
    if other.row == one.row + 1:
        path, x, y = _downwards(one, other)
    else:
        path, x, y = _around(one, other, number)
    way = "" if action == "default" else " way"
    label = f'<text class="action" x="{x}" y="{y}">{as_html(_short(action))}</text>' if way else ""
    return f'<path class="edge{way}" marker-end="url(#arrow)" d="{path}"/>{label}'


def _downwards(one: _Spot, other: _Spot) -> tuple[str, int, int]:
    begin, end = one.y + _HEIGHT, other.y
    middle = (begin + end) // 2
    path = f"M{one.x} {begin}C{one.x} {middle} {other.x} {middle} {other.x} {end}"
    return path, (one.x + other.x) // 2, middle - 4


def _around(one: _Spot, other: _Spot, number: int) -> tuple[str, int, int]:
    """Return a path around the boxes between two nodes: forwards on the left, back on the right."""
    side = -1 if other.row > one.row else 1
    begin, end = one.x + side * _WIDTH // 2, other.x + side * _WIDTH // 2
    out = (min(begin, end) if side < 0 else max(begin, end)) + side * (34 + 9 * number)
    first, last = one.y + _HEIGHT * 2 // 3, other.y + _HEIGHT // 3
    path = f"M{begin} {first}C{out} {first} {out} {last} {end} {last}"
    return path, out, (first + last) // 2


def _box(node: NodeSpec, spot: _Spot, *, far: bool) -> str:
    about = node.type if node.batch is None else f"{node.type} (for each item)"
    left = spot.x - _WIDTH // 2
    reached = ' class="far"' if far else ""
    return (
        f"<g{reached}><title>{as_html(f'{node.id}: {about}')}</title>"
        f'<rect x="{left}" y="{spot.y}" width="{_WIDTH}" height="{_HEIGHT}"/>'
        f'<text x="{spot.x}" y="{spot.y + 22}">{as_html(_short(node.id))}</text>'
        f'<text class="type" x="{spot.x}" y="{spot.y + 40}">{as_html(_short(about))}</text></g>'
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
