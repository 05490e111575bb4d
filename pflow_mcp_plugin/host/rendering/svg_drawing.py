"""A workflow as SVG drawings, with a line for each edge.

One runs downwards, for narrow windows; the others have rows, for wider ones. The window's width decides which
is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise

import attrs

from pflow_mcp_plugin.contract import FAILURES
from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.html_page import as_html, page
from pflow_mcp_plugin.host.trace_files import shown_type
from pflow_mcp_plugin.host.workflow.graph import Graph
from pflow_mcp_plugin.host.workflow.workflow_document import NodeSpec, split_route
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import ELLIPSIS, cut, text_width

_WIDTH, _HEIGHT = 210, 52
_ACROSS, _DOWN = 270, 118
_MARGIN = 70
_WIDE_ACROSS, _WIDE_DOWN, _BAND_GAP = 280, 84, 56
"""From box to box in a row, from box to box below it, and more between two rows of a wide drawing."""
_COLUMNS = (3, 4, 5, 6)
"""The number of boxes in a row of each wide drawing."""
_LONGEST, _END = 27, 9
"""The width of a label that fits a box, in cells, and that of the end of a longer one."""
_REM = 16
"""The usual size of text, in which the width of windows is measured."""
_SVG = 'xmlns="http://www.w3.org/2000/svg" role="img"'
_ARROW = """<defs><marker id="{}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8"
 markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor"/></marker></defs>"""
_STYLE = """
.drawing { overflow-x: auto; }
rect, polygon { fill: color-mix(in srgb, Canvas 93%, CanvasText); stroke: currentColor; rx: 6; }
text { fill: currentColor; font: 13px system-ui, sans-serif; text-anchor: middle; }
.type { font-size: 11px; opacity: .75; }
.edge { fill: none; stroke: currentColor; stroke-width: 1.3; }
.edge.way { stroke: var(--bad); stroke-dasharray: 5 3; }
.action.way { fill: var(--bad); }
.action { font-size: 11px; paint-order: stroke; stroke: Canvas; stroke-width: 4px; }
a rect { stroke-dasharray: 6 3; }
h2 { font-size: 1.05rem; margin: 1.5rem 0 .25rem; }
.far { opacity: .5; }
body { max-width: none; }
@media print { * { print-color-adjust: exact; } }
"""
_WHERE = """
.up-to-{most} .columns-{wide} {{ display: none; }}
@media (min-width: {width:g}rem) {{
  .up-to-{most} .columns-{narrow} {{ display: none; }} .up-to-{most} .columns-{wide} {{ display: block; }}
}}
"""
"""Shows a drawing in windows that are wide enough, instead of the next narrower one."""


@attrs.frozen
class _Spot:
    """Where a node is drawn: the top centre of its box, and its row.

    If rows run across, also its column, and the top of its row.
    """

    x: int
    y: int
    row: int
    column: int = 0
    top: int = 0


_Edge = tuple[str, str]
"""The line of an edge, and its label."""


def graph_page(name: str, drawn: DrawnWorkflow) -> str:
    """Return a workflow's SVG drawings, one for each width of a window, as a page with its title.

    The workflows that are written in its nodes follow, each with its title; the boxes link to them.
    """
    sections, rules = [], set()
    for path, part in (("", drawn), *drawn.every()):
        above = f"{path}/" if path else ""
        label = as_html(f"Drawing of {path or name}, scrolls")
        # A drawing for each width of a window, by the number of boxes in a row; 0 for downwards.
        layers = 1 + max(_layers(part.graph).values(), default=0)
        wide_ones = [it for it in _COLUMNS if layers > it - 1 or it == _COLUMNS[0]] if layers > 1 else []
        widths = [0, *wide_ones]
        drawings = "\n".join(
            f'<div class="columns-{columns}"><div class="drawing" tabindex="0" role="region" '
            f'aria-label="{label}">\n{svg(part, columns, above)}\n</div></div>'
            for columns in widths
        )
        title = f'<h2 id="{_anchor(path)}">{as_html(path)}</h2>' if path else f"<h1>{as_html(name)}</h1>"
        nodes = f"<p>{count_text(len(part.document.nodes), 'node')}</p>"
        sections.append(f'{title}\n{nodes}\n<div class="up-to-{widths[-1]}">\n{drawings}\n</div>')
        for narrow, wide in pairwise(widths):
            needed = _WIDTH + (wide - 1) * _WIDE_ACROSS + _MARGIN + 3 * _REM  # with margins, and a scroll bar
            rules.add(_WHERE.format(most=widths[-1], narrow=narrow, wide=wide, width=needed / _REM))
    body = "\n".join(sections)
    return page(name, f"<div>{body}</div>", "".join([_STYLE, *sorted(rules)]))


def svg(drawn: DrawnWorkflow, columns: int = 0, above: str = "") -> str:
    """Return the drawing of a workflow as an SVG element.

    Rows of `columns` boxes run across; with 0, the drawing runs downwards. `above` are the ids of the nodes
    that lead to it, each with a slash.
    """
    graph = drawn.graph
    spots = _wide_spots(graph, columns) if columns else _spots(graph)
    edge = partial(_wide_edge, columns) if columns else _edge
    margin = _MARGIN // 2 if columns else _MARGIN
    width = max(spot.x for spot in spots.values()) + _WIDTH // 2 + margin
    height = max(spot.y for spot in spots.values()) + _HEIGHT + _MARGIN // 2
    edges: list[_Edge] = []
    for source, routes in graph.successors.items():
        alike: Counter[str] = Counter()
        for number, (action, target) in enumerate(routes.items()):
            # Among the edges of its node, and among those to the same node: none is drawn over another.
            edges.append(edge(spots[source], spots[target], action, number, alike[target]))
            alike[target] += 1
    arrow = f"arrow-{_anchor(above)}{columns}"
    parts = [
        f'<svg {_SVG} width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        _ARROW.format(arrow),
        # Each drawing has its own arrow marker: that of a hidden drawing is not drawn.
        *(line.replace("url(#arrow)", f"url(#{arrow})") for line, _ in edges),
        *(label for _, label in edges if label),  # on top of all lines, which would cross it out
        *_boxes(drawn, spots, above),
        "</svg>",
    ]
    return "\n".join(parts)


def _boxes(drawn: DrawnWorkflow, spots: Mapping[str, _Spot], above: str) -> Iterator[str]:
    for node in drawn.document.nodes:
        spot = spots[node.id]
        kind = shown_type(node.type)
        words = node.constructs.words()
        about = f"{kind} ({', '.join(words)})" if words else kind
        left = spot.x - _WIDTH // 2
        reached = "" if node.id in drawn.graph.reachable else ' class="far"'
        box = (
            f"<g{reached}><title>{as_html(f'{node.id}: {about}')}</title>"
            f"{_outline(node, left, spot.y)}"
            f'<text x="{spot.x}" y="{spot.y + 22}">{as_html(_shortened(node.id))}</text>'
            f'<text class="type" x="{spot.x}" y="{spot.y + 40}">{as_html(cut(about, _LONGEST))}</text></g>'
        )
        target = _anchor(f"{above}{node.id}")
        yield f'<a href="#{target}">{box}</a>' if node.id in drawn.inside else box


def _anchor(path: str) -> str:
    return as_html(f"in-{path}")


def _layers(graph: Graph) -> dict[str, int]:
    """Return the layer to draw each node in: its distance from the start; the unreachable come last."""
    rows: dict[str, int] = {graph.start: 0} if graph.start else {}
    waiting = list(rows)
    for node_id in waiting:
        for target in graph.successors[node_id].values():
            if target not in rows:
                rows[target] = rows[node_id] + 1
                waiting.append(target)
    last = max(rows.values(), default=-1) + 1
    return rows | {node_id: last for node_id in graph.successors if node_id not in rows}


def _places(graph: Graph) -> Iterator[tuple[str, int, int]]:
    """Yield the nodes to draw as SVG, each with its layer, and its place in that."""
    taken: Counter[int] = Counter()
    for node_id, layer in _layers(graph).items():
        yield node_id, layer, taken[layer]
        taken[layer] += 1


def _wide_spots(graph: Graph, columns: int) -> dict[str, _Spot]:
    """Place the nodes of a wide drawing: layers run across, and continue in the next row."""
    counts = Counter(_layers(graph).values())
    tops, top = [], _MARGIN // 2
    for first in range(0, max(counts, default=0) + 1, columns):
        tops.append(top)
        highest = max(1, *(counts[layer] for layer in range(first, first + columns)))
        top += highest * _WIDE_DOWN + _BAND_GAP
    spots = {}
    for node_id, layer, place in _places(graph):
        row, column = divmod(layer, columns)
        x = _WIDTH // 2 + _MARGIN // 2 + column * _WIDE_ACROSS
        spots[node_id] = _Spot(x, tops[row] + place * _WIDE_DOWN, row, column, tops[row])
    return spots


def _spots(graph: Graph) -> dict[str, _Spot]:
    """Place the nodes of a narrow drawing: the row of each is its distance from the start."""
    left = _MARGIN + _WIDTH // 2
    return {
        node_id: _Spot(left + column * _ACROSS, _MARGIN // 2 + row * _DOWN, row)
        for node_id, row, column in _places(graph)
    }


def _edge(one: _Spot, other: _Spot, action: str, number: int, alike: int) -> _Edge:
    if other.row == one.row + 1:
        aside = 56 * alike  # from an edge to the next one between the same boxes
        begin, end = one.y + _HEIGHT, other.y
        middle = (begin + end) // 2
        ways = f"{one.x + aside} {middle} {other.x + aside} {middle}"
        path = f"M{one.x + aside} {begin}C{ways} {other.x + aside} {end}"
        return _line(path, (one.x + other.x) // 2 + aside, middle - 4, action)
    # Around the boxes between them: forwards on the left, back on the right.
    side = -1 if other.row > one.row else 1
    begin, end = one.x + side * _WIDTH // 2, other.x + side * _WIDTH // 2
    out = (min(begin, end) if side < 0 else max(begin, end)) + side * (34 + 9 * number)
    first, last = one.y + _HEIGHT * 2 // 3, other.y + _HEIGHT // 3
    path = f"M{begin} {first}C{out} {first} {out} {last} {end} {last}"
    return _line(path, out, (first + last) // 2, action)


def _wide_edge(columns: int, one: _Spot, other: _Spot, action: str, number: int, alike: int) -> _Edge:
    if (other.row, other.column) == (one.row, one.column + 1):
        begin, end = one.x + _WIDTH // 2, other.x - _WIDTH // 2
        first, last = (spot.y + 9 * alike + _HEIGHT // 2 for spot in (one, other))
        middle = (begin + end) // 2
        path = f"M{begin} {first}C{middle} {first} {middle} {last} {end} {last}"
        # The label is outside the edges.
        return _line(path, middle, (first + last) // 2 - 6 + 20 * bool(alike), action)
    if (other.row, other.column, one.column) == (one.row + 1, 0, columns - 1):
        # Between the rows, back to the left, and into the box from there.
        begin, level = one.x + 12 * number, other.top - _BAND_GAP // 2 - 9 * number
        left, end = _MARGIN // 4 - 5 * number, other.x - _WIDTH // 2
        path = f"M{begin} {one.y + _HEIGHT}V{level}H{left}V{other.y + _HEIGHT // 2}H{end}"
        return _line(path, (one.x + other.x) // 2 + 90 * number, level + (-4 if number else 13), action)
    if (other.row, other.column) == (one.row, one.column):  # one is below the other
        if other.y - one.y == _WIDE_DOWN:
            path = f"M{one.x} {one.y + _HEIGHT}V{other.y}"
            return _line(path, one.x + 40, other.y - 12, action)
        # Around on the right.
        side, out = one.x + _WIDTH // 2, one.x + _WIDTH // 2 + 30 + 8 * number
        first, last = one.y + _HEIGHT * 2 // 3, other.y + _HEIGHT // 3
        path = f"M{side} {first}C{out} {first} {out} {last} {side} {last}"
        return _line(path, out, (first + last) // 2, action)
    begin, end = one.x - 30 - 12 * number, other.x + 30
    if other.row == one.row:  # below the boxes between them
        first, last = one.y + _HEIGHT, other.y + _HEIGHT
        level = max(first, last) + 34 + 6 * number
        y = (first + last + 6 * level) // 8 + 4
    else:  # between the rows
        below = other.row > one.row
        first, last = (one.y + _HEIGHT, other.y) if below else (one.y, other.y + _HEIGHT)
        level = y = (first + last) // 2
    path = f"M{begin} {first}C{begin} {level} {end} {level} {end} {last}"
    return _line(path, (begin + end) // 2, y, action)


def _line(path: str, x: int, y: int, action: str) -> _Edge:
    way = " way" if split_route(action)[0] in FAILURES else ""
    shown = as_html(cut(action.removeprefix("default "), _LONGEST))
    named = f'<text class="action{way}" x="{x}" y="{y}">{shown}</text>'
    label = "" if action == "default" else named
    return f'<path class="edge{way}" marker-end="url(#arrow)" d="{path}"/>', label


def _outline(node: NodeSpec, left: int, top: int) -> str:
    """Return the box of a node in the drawing; the box of a branch has a point at each side."""
    if node.type != "branch":
        return f'<rect x="{left}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}"/>'
    right, middle, bottom = left + _WIDTH, top + _HEIGHT // 2, top + _HEIGHT
    inner = (left + _HEIGHT // 3, right - _HEIGHT // 3)
    points = f"{left},{middle} {inner[0]},{top} {inner[1]},{top} {right},{middle}"
    return f'<polygon points="{points} {inner[1]},{bottom} {inner[0]},{bottom}"/>'


def _shortened(name: str) -> str:
    """Leave out the middle of a long name in the drawing: such names often differ only at the end."""
    if text_width(name) <= _LONGEST:
        return name
    end = cut(name[::-1], _END + 1).rstrip(ELLIPSIS)[::-1]
    return cut(name, _LONGEST - text_width(end)) + end
