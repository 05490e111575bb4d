"""A trace as an HTML page: when each node ran, its inputs and its outputs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.rendering.html_page import as_html, page
from pflow_mcp_plugin.host.trace_files import cached_words

_TICKS = 4
_STYLE = """
.message { white-space: pre-line; }
.axis, .step > summary { display: grid; gap: .75rem; }
.axis, .step > summary { grid-template-columns: 17rem minmax(0, 1fr) 6rem; align-items: center; }
.axis { font-size: 11px; opacity: .7; margin-top: 1.25rem; }
.ticks { display: flex; justify-content: space-between; }
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; padding: .3rem 0; list-style: none; }
.opener::before { content: "▸ "; opacity: .6; }
[open] > summary .opener::before { content: "▾ "; }
summary:hover { background: var(--soft); }
.name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.type { opacity: .65; font-size: 12px; }
.track { position: relative; height: 1.1rem; background: var(--soft); border-radius: 3px; }
.bar { position: absolute; top: 0; bottom: 0; min-width: 3px; background: var(--bar); border-radius: 3px; }
.failed .bar { background: var(--bad); }
.failed .name { color: var(--bad); }
.failed .type { color: CanvasText; }
.time { text-align: right; font-variant-numeric: tabular-nums; }
.given { margin-top: .75rem; }
.inside { padding: .25rem 0 1rem 1rem; }
h3 { font-size: 12px; margin: .75rem 0 .25rem; opacity: .7; }
pre { margin: 0; padding: .5rem .75rem; background: var(--soft); overflow: auto; max-height: 26rem; }
@media (max-width: 45rem) {
  .axis, .step > summary { grid-template-columns: minmax(0, 1fr) auto; gap: .1rem .75rem; }
  .ticks, .track { grid-column: 1 / -1; grid-row: 2; }
  .ticks > :nth-child(even) { display: none; }
}
"""


def trace_page(trace: Mapping[str, Any]) -> str:
    """Return a trace as an HTML timeline; a click on a node opens it. It works without scripts."""
    steps = trace["steps"]
    length = max([_number(trace.get("milliseconds")), *(_end(step) for step in steps), 0.001])
    title = f"{trace.get('workflow')}: run {trace.get('run_id')}"
    # The failure that ended the run is open, since people look for it; failures routed by an edge are not.
    end = None if trace.get("success") else len(steps) - 1
    rows = [_row(step, length, opened=place == end and _failed(step)) for place, step in enumerate(steps)]
    body = "\n".join([*_heading(trace, len(steps)), _axis(length), *rows])
    return page(title, body, _STYLE)


def _heading(trace: JSONObject, count: int) -> Iterator[str]:
    yield f"<h1>{as_html(trace.get('workflow'))}</h1>"
    ended = "succeeded" if trace.get("success") else '<span class="bad">failed</span>'
    took = _duration(_number(trace.get("milliseconds")))
    steps = "1 step" if count == 1 else f"{count} steps"
    run, started = as_html(trace.get("run_id")), as_html(trace.get("started"))
    yield f"<p>Run {run}, {started}: {ended}, {steps}, {took}</p>"
    error = trace.get("error")
    if isinstance(error, Mapping):
        yield f'<p class="bad message">{as_html(error.get("message"))}</p>'
        suggestions = error.get("suggestions")
        for suggestion in suggestions if isinstance(suggestions, list) else ():
            yield f"<p>→ {as_html(suggestion)}</p>"
    if trace.get("inputs"):
        summary = '<summary><span class="opener">Inputs of the run</span></summary>'
        yield f'<details class="given">{summary}{_pre(trace["inputs"])}</details>'
    yield '<p class="type">A bar shows when its step ran. Click a row to see what went in and came out.</p>'


def _axis(length: float) -> str:
    ticks = "".join(f"<span>{_duration(length * tick / _TICKS)}</span>" for tick in range(_TICKS + 1))
    return f'<div class="axis"><span></span><span class="ticks">{ticks}</span><span></span></div>'


def _row(step: JSONObject, length: float, *, opened: bool) -> str:
    failed = _failed(step)
    return (
        f'<details class="step {"failed" if failed else "fine"}"{" open" if opened else ""}>\n'
        f'<summary><span class="name opener">{"✗ " if failed else ""}{as_html(step.get("id"))} '
        f'<span class="type">{as_html(step.get("type"))}</span>{_failed_items(step)}{_cached(step)}</span>'
        f'<span class="track">{_bar(step, length)}</span>'
        f'<span class="time">{_duration(_number(step.get("milliseconds")))}</span></summary>\n'
        f'<div class="inside">{"".join(_inside(step))}</div></details>'
    )


def _failed(step: JSONObject) -> bool:
    return step.get("error") is not None


def _failed_items(step: JSONObject) -> str:
    """Return the number of failed items of a batch as HTML; they do not always fail the batch."""
    details = step.get("details")
    batch = details.get("batch") if isinstance(details, Mapping) else None
    if not isinstance(batch, Mapping) or not batch.get("failed"):
        return ""
    return f' <span class="bad">{as_html(batch["failed"])} of {as_html(batch.get("count"))} failed</span>'


def _cached(step: JSONObject) -> str:
    words = cached_words(step)
    return f' <span class="type">{as_html(words)}</span>' if words else ""


def _bar(step: JSONObject, length: float) -> str:
    left = min(100 * _number(step.get("offset")) / length, 99.5)
    width = min(100 * _number(step.get("milliseconds")) / length, 100 - left)
    return f'<span class="bar" style="left:{left:.2f}%;width:{width:.2f}%"></span>'


def _inside(step: JSONObject) -> Iterator[str]:
    parts = {
        "Error": step.get("error"),
        "Action": step.get("action"),
        "Inputs": step.get("params"),
        "Outputs": step.get("outputs"),
        "Details": step.get("details"),
    }
    for name, value in parts.items():
        if value not in (None, {}, "default"):
            yield f"<h3>{name}</h3>{_pre(value)}"


def _end(step: JSONObject) -> float:
    return _number(step.get("offset")) + _number(step.get("milliseconds"))


def _pre(value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return f"<pre>{as_html(shown)}</pre>"


def _number(value: object) -> float:
    # Absurd times must not break the page: NaN fails the comparison, and a huge integer has no float.
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e300 else 0.0


def _duration(milliseconds: float) -> str:
    if milliseconds >= 10_000:
        return f"{milliseconds / 1000:,.1f} s"
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 or not milliseconds else f"{milliseconds:.1f} ms"
