"""A trace as an HTML page: its outputs, when each node ran, and with which inputs and outputs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.rendering.html_page import as_html, page
from pflow_mcp_plugin.host.trace_files import (
    MARKS,
    StepState,
    TracedStep,
    objects_in,
    run_state,
    shown_type,
    step_words,
    traced_steps,
)
from pflow_mcp_plugin.schemas.schema_reader import list_of
from pflow_mcp_plugin.terminal.human_units import count_text, duration_text

_BUSY, _LOST = "86 139 205", "204 51 51"
"""The colours of that row: of items, and of those that failed."""
_HINT = "A bar shows when its step ran. Open a row to see what went in and came out."
_DENSITY = " The bar of a batch is darker where more items ran at a time; red marks show where some failed."
_BINS = 80
"""The number of parts of the row that shows how many items of a batch ran at a time."""

_MARKS = {state: "" if state == "ok" else f"{mark} " for state, (mark, _) in MARKS.items()}
_STYLE = """
:root { --warn: #8f5b00; --good: #1f7a33; --start: #8a8a8a; }
@media (prefers-color-scheme: dark) { :root { --warn: #e5a93c; --good: #7ac68a; --bar: #6f9fdc; } }
body { max-width: 100rem; --names: clamp(17rem, 26vw, 30rem); }
.good { color: var(--good); }
.message { white-space: pre-line; }
.axis, .step > summary, div.item, .item > summary { display: grid; gap: .75rem; align-items: center; }
.axis, .step > summary, div.item, .item > summary {
  grid-template-columns: calc(var(--names) - var(--in, 0rem)) minmax(0, 1fr) 6rem;
}
.axis { font-size: 11px; opacity: .75; margin-top: 1.25rem; }
.ticks { position: relative; height: 1.2rem; }
.ticks > span { position: absolute; transform: translateX(-50%); white-space: nowrap; }
.ticks > .first { transform: none; }
.ticks > .last { transform: translateX(-100%); }
details { border-top: 1px solid var(--line); }
summary { cursor: pointer; padding: .3rem 0; list-style: none; }
summary::-webkit-details-marker { display: none; }
.opener::before { content: "▸"; opacity: .6; margin-right: .25rem; }
.name.opener::before { margin: 0; }
[open] > summary .opener::before { content: "▾"; }
summary:hover { background: var(--soft); }
summary:focus-visible { outline: 2px solid var(--bar); outline-offset: 2px; }
.name { display: flex; gap: .35rem; align-items: baseline; white-space: nowrap; min-width: 0; }
.name > * { overflow: hidden; text-overflow: ellipsis; min-width: 0; }
.name > .type { flex-shrink: 99; }
.name > .note { flex-shrink: 0; }
.name > :first-child { flex-shrink: 0; max-width: 75%; }
[open] > summary > .name { flex-wrap: wrap; white-space: normal; }
[open] > summary > .name > :first-child { max-width: 100%; }
.type { opacity: .65; font-size: 12px; }
.track { position: relative; height: 1.1rem; background: var(--soft); border-radius: 3px; }
.track > * { position: absolute; top: 0; bottom: 0; }
.bar { min-width: 3px; background: var(--bar); border-radius: 3px; }
.waited { border-top: 1px dashed; top: 50%; opacity: .5; }
.start .bar { background: repeating-linear-gradient(135deg, var(--start) 0 4px, transparent 4px 7px); }
.failed > summary .bar, div.item.failed .bar { background: var(--bad); }
.failed > summary .name, div.item.failed .name { color: var(--bad); }
:is(.failed, .handled, .interrupted) > summary .type { color: CanvasText; }
.handled > summary .bar { background: var(--warn); }
.handled > summary .name, .warn { color: var(--warn); }
.interrupted > summary .bar {
  background: repeating-linear-gradient(90deg, var(--warn) 0 6px, transparent 6px 9px);
}
.interrupted > summary .name { color: var(--warn); }
.skipped > summary .name { opacity: .65; }
.time { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.given { margin-top: .75rem; }
.inside { padding: .25rem 0 1rem 1rem; --in: 1rem; }
.inside .inside { --in: 2rem; }
.inside .inside .inside { --in: 3rem; }
.inside .inside .inside .inside { --in: 4rem; }
.items { margin-top: .5rem; }
.item { font-size: 12px; padding: .1rem 0; }
div.item .track, .item > summary .track { height: .6rem; }
h3 { font-size: 12px; margin: .75rem 0 .25rem; opacity: .7; }
pre { margin: 0; padding: .5rem .75rem; background: var(--soft); overflow: auto; max-height: 26rem; }
pre { white-space: pre-wrap; }
@media (max-width: 45rem) {
  .axis, .step > summary, div.item, .item > summary { gap: .1rem .75rem; }
  .axis, .step > summary, div.item, .item > summary { grid-template-columns: minmax(0, 1fr) auto; }
  .ticks, .track { grid-column: 1 / -1; grid-row: 2; }
  .ticks > :nth-child(even):not(.last) { display: none; }
}
@media print {
  * { print-color-adjust: exact; }
  body { max-width: none; margin: 0; }
  pre { max-height: none; }
  summary { break-after: avoid; }
  .hint { display: none; }
}
"""


def trace_page(trace: Mapping[str, Any]) -> str:
    """Return a trace as an HTML timeline; a click on a node opens it. It works without scripts."""
    steps = traced_steps(trace)
    starts = objects_in(trace.get("preparations"))
    spans = [*starts, *(it.content for step in steps for it in step.with_inner())]
    ends = (_number(span.get("offset")) + _took(span) for span in spans)
    length = max([_number(trace.get("milliseconds")), *ends, 0.001])
    title = f"{trace.get('workflow')}: run {trace.get('run_id')}"
    lost: StepState = "interrupted" if run_state(trace) == "interrupted" else "failed"
    rows = [_start_row(start, length, lost if start.get("error") else "ok") for start in starts]
    rows += [_row(step, length) for step in steps]
    hint = _HINT + (_DENSITY if any('class="bar density"' in row for row in rows) else "")
    marks = []
    for place, text in ticks(length):
        edge = ' class="first"' if not place else ' class="last"' if place > 0.95 else ""
        marks.append(f'<span{edge} style="left:{100 * place:.2f}%">{text}</span>')
    axis = f'<div class="axis"><span></span><span class="ticks">{"".join(marks)}</span><span></span></div>'
    parts = [*_heading(trace, len(steps)), f'<p class="type hint">{hint}</p>', axis, *rows]
    return page(title, "\n".join(parts), _STYLE)


_MOST_TICKS = 5
"""Ticks of the time axis after the first, at 0."""
_MINUTE, _HOUR, _DAY = 60_000.0, 3_600_000.0, 86_400_000.0
_DISTANCES = (
    *(digit * 10.0**power for power in range(-3, 4) for digit in (1, 2, 5)),
    *(10_000.0, 15_000.0, 30_000.0),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
)
"""The distances between ticks, in milliseconds: round numbers in the unit in which they are shown."""


def ticks(length: float) -> list[tuple[float, str]]:
    """Return the ticks of a timeline of some milliseconds: where each is, from 0 to 1, and its text."""
    step = next((it for it in _DISTANCES if length / it <= _MOST_TICKS), 0.0)
    if not step:
        days = length / _DAY
        step = _DAY * max(1, -(-days // _MOST_TICKS))
    count = int(length / step * (1 + 1e-9))
    return [(number * step / length, _tick_text(number * step, step)) for number in range(count + 1)]


def _tick_text(milliseconds: float, step: float) -> str:
    if not milliseconds:
        return "0"
    if step < 1:
        return f"{milliseconds:g} ms"
    if 1_000 <= milliseconds < _MINUTE:
        return f"{milliseconds / 1_000:g} s"
    return duration_text(milliseconds)


def _heading(trace: JSONObject, count: int) -> Iterator[str]:
    yield f"<h1>{as_html(trace.get('workflow'))}</h1>"
    state = run_state(trace)
    looks = {"ok": '<span class="good">✓ succeeded</span>', "failed": '<span class="bad">✗ failed</span>'}
    ended = looks.get(state, '<span class="warn">■ interrupted</span>')
    took = duration_text(_number(trace.get("milliseconds")))
    run, started = as_html(trace.get("run_id")), as_html(str(trace.get("started"))[:19].replace("T", " "))
    yield f"<p>{ended}, {count_text(count, 'step')}, {took}</p>"
    yield f'<p class="type">Run {run}, {started} UTC</p>'
    error = trace.get("error")
    if isinstance(error, Mapping):
        look = "warn" if state == "interrupted" else "bad"
        yield f'<p class="{look} message">{as_html(error.get("message"))}</p>'
        yield from (f"<p>→ {as_html(suggestion)}</p>" for suggestion in list_of(error.get("suggestions")))
    for name, key, opened in (("Outputs", "outputs", " open"), ("Inputs of the run", "inputs", "")):
        if trace.get(key):
            summary = f'<summary><span class="opener">{name}</span></summary>'
            yield f'<details class="given"{opened}>{summary}{_pre(trace[key])}</details>'


def _start_row(start: JSONObject, length: float, state: StepState) -> str:
    """Return the timeline's row for something that nodes waited for, such as the start of a program."""
    took = duration_text(_took(start))
    inside = f"<p>It took {took}; the nodes that need it waited.</p>"
    if state != "ok":
        inside += f"<h3>Error</h3>{_pre(start.get('error'))}"
    bar = _span("bar", _number(start.get("offset")), _took(start), length)
    name = f'<span>{_MARKS[state]}start</span> <span class="type">{as_html(start.get("label"))}</span>'
    return _details(f"step start {state}", name, bar, took, inside)


def _row(step: TracedStep, length: float) -> str:
    content, state = step.content, step.state
    waited = _number(content.get("waited"))
    offset, took = _number(content.get("offset")), max(_took(content) - waited, 0.0)
    bars = _span("waited", offset, waited, length) if waited else ""
    # Of the items whose times are in the trace: number, offset, milliseconds, success. They begin when the
    # step had what it waited for.
    times = []
    for it in list_of(step.batch.get("times")):
        if isinstance(it, Sequence) and not isinstance(it, str) and len(it) == 4:
            end = _number(it[1]) + _number(it[2])
            begin = min(max(_number(it[1]), offset + waited), end)
            times.append((int(_number(it[0])), begin, end - begin, it[3] is not False))
    bars += _density(times, length) if len(times) > 1 else _span("bar", offset + waited, took, length)
    told = state if state in ("handled", "interrupted") else ""
    words = ", ".join(filter(None, (told, step_words(content))))
    notes = f' <span class="type note">{as_html(words)}</span>' if words else ""
    items = ""
    if step.batch:
        lost, many = step.batch.get("failed"), as_html(step.batch.get("count"))
        items = f' <span class="type note">{many} items</span>'
        if lost:  # which does not always fail the batch
            items = f' <span class="warn note">{as_html(lost)} of {many} failed</span>'
    name = (
        f"<span>{_MARKS[state]}<bdi>{as_html(step.name)}</bdi></span> "
        f'<span class="type">{as_html(shown_type(content.get("type")))}</span>{items}{notes}'
    )
    look = f"step {'fine' if state == 'ok' else state}"
    inside = "".join(_inside(step, times, length))
    # The step that ended the run is open, since people look for it; failures handled by an edge are not.
    opened = state in ("failed", "interrupted") and not step.items
    if state == "skipped":
        return _details(look, name, "", "", inside)
    return _details(look, name, bars, duration_text(took), inside, opened=opened)


def _details(look: str, name: str, bars: str, time: str, inside: str, *, opened: bool = False) -> str:
    plain = re.sub("<[^>]*>", "", name)  # shown where there is no room for the whole name
    return (
        f'<details class="{look}"{" open" if opened else ""}>\n'
        f'<summary><span class="name opener" title="{plain}">{name}</span>'
        f'<span class="track">{bars}</span>'
        f'<span class="time">{time}</span></summary>\n<div class="inside">{inside}</div></details>'
    )


def _density(times: Sequence[tuple[int, float, float, bool]], length: float) -> str:
    """Return a batch's bar in the timeline: darker where more items ran at a time, red where some failed."""
    first = min(offset for _, offset, _, _ in times)
    last = max(offset + took for _, offset, took, _ in times)
    width = max(last - first, 0.001) / _BINS
    busy, lost = [0.0] * _BINS, [False] * _BINS
    for _, offset, took, fine in times:
        begin, end = offset - first, offset - first + took
        for number in range(int(begin / width), min(int(end / width) + 1, _BINS)):
            busy[number] += max(min(end, (number + 1) * width) - max(begin, number * width), 0.0) / width
        lost[min(int(end / width), _BINS - 1)] |= not fine
    most = max(*busy, 0.001)
    style = f"background:{_gradient([f'{_BUSY} / {0.15 + 0.85 * share / most:.2f}' for share in busy])}"
    if any(lost):
        marks = _gradient([_LOST if it else "0 0 0 / 0" for it in lost])
        style = f"background:{marks} bottom/100% 35% no-repeat,{style.partition(':')[2]}"
    return _span("bar density", first, last - first, length, style)


def _gradient(colours: Sequence[str]) -> str:
    """Return the CSS background of a bar in the timeline: parts of equal width, each in its colour."""
    share = 100 / len(colours)
    stops = (f"rgb({it}) {share * place:g}% {share * (place + 1):g}%" for place, it in enumerate(colours))
    return f"linear-gradient(90deg,{','.join(stops)})"


def _span(look: str, offset: float, took: float, length: float, style: str = "") -> str:
    left = min(100 * offset / length, 99.5)
    width = min(100 * took / length, 100 - left)
    more = f";{style}" if style else ""
    return f'<span class="{look}" style="left:{left:.2f}%;width:{width:.2f}%{more}"></span>'


def _inside(
    step: TracedStep, times: Sequence[tuple[int, float, float, bool]], length: float
) -> Iterator[str]:
    content = step.content
    waited = _number(content.get("waited"))
    if waited:
        yield f"<p>It waited {duration_text(waited)} for what was started.</p>"
    yield from (_row(inner, length) for inner in step.steps)
    if times:
        yield from _items(step, times, length)
    details = content.get("details")
    if isinstance(details, Mapping) and step.batch:
        details = {**details, "batch": {key: it for key, it in step.batch.items() if key != "times"}}
    error, outputs = content.get("error"), content.get("outputs")
    said = error is not None
    usual = ("default", "error") if said else ("default",)
    parts = {
        "Error": error,
        "Action": None if content.get("action") in usual else content.get("action"),
        "Inputs": content.get("params"),
        "Outputs": None if said and outputs == {"error": error} else outputs,
        "Details": details,
    }
    yield _parts(parts)


def _items(step: TracedStep, times: Sequence[tuple[int, float, float, bool]], length: float) -> Iterator[str]:
    """Yield the timeline of a batch's items; those that the trace has separately open on a click."""
    batch, count = step.batch, step.batch.get("count")
    inner = {_number(item.get("index")): item for item in step.batch_items}
    errors = {_number(it.get("index")): it for it in objects_in(batch.get("errors"))}
    own = as_html(step.name.rpartition("/")[2])
    # First come the failed ones, and those that open.
    chosen = sorted(sorted(times, key=lambda it: (it[3], it[0] not in inner, it[0]))[:250])
    some = "" if len(chosen) == count else f" ({len(chosen)} of {as_html(count)})"
    yield f'<details class="items"><summary><span class="opener">Items{some}</span></summary>'
    for index, offset, took, fine in chosen:
        look, mark = ("item", "") if fine else ("item failed", "✗ ")
        name, bar = f"<span>{mark}{own}[{index}]</span>", _span("bar", offset, took, length)
        kept, error = inner.get(index, {}), errors.get(index, {})
        inside = "".join(_row(each, length) for each in step.steps_for(kept))
        if not inside:
            params = kept.get("params")
            known = error.get("item") if params is None else None
            given = {
                "Error": error.get("error"),
                "Item": known,
                "Inputs": params,
                "Outputs": kept.get("outputs"),
                "Details": kept.get("details"),
            }
            inside = _parts(given)
        if inside:
            yield _details(look, name, bar, duration_text(took), inside)
            continue
        yield (
            f'<div class="{look}"><span class="name">{name}</span><span class="track">{bar}</span>'
            f'<span class="time">{duration_text(took)}</span></div>'
        )
    yield "</details>"


def _parts(parts: Mapping[str, object]) -> str:
    shown = {name: value for name, value in parts.items() if value not in (None, {})}
    return "".join(f"<h3>{name}</h3>{_pre(value)}" for name, value in shown.items())


def _took(span: JSONObject) -> float:
    return _number(span.get("milliseconds"))


def _pre(value: object) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return f"<pre>{as_html(shown)}</pre>"


def _number(value: object) -> float:
    # Absurd times must not break the page: NaN fails the comparison, and a huge integer has no float.
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e300 else 0.0
