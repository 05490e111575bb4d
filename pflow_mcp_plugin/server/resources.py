"""The resources that pflow serves: the workflow format, a guide, saved workflows and traces."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import PflowError, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server.served_tool import ServedRequest, library_of, runner_of, shown
from pflow_mcp_plugin.server.tools import trace_tools

SCHEMA = "pflow://schema/workflow"
GUIDE = "pflow://guide"
_WORKFLOWS = "pflow://workflows/"
_TRACES = "pflow://traces/"
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A name in the URI of a resource: nothing that could be a path."""
_LATEST = 10
_GUIDE_FILE = Path(__file__).with_name("agent_guide.md")
_JSON = "application/json"


class PflowResources:
    """The resources of a pflow server; see `serving_options.Resources`."""

    def resources(self, request: ServedRequest) -> Sequence[JSONObject]:
        """Return the served resources: the two fixed ones, the saved workflows and the latest traces."""
        fixed = (
            _listed(GUIDE, "guide", "How to find, build, check, run and save workflows", "text/markdown"),
            _listed(SCHEMA, "workflow-schema", "The JSON Schema of workflows", "application/schema+json"),
        )
        return [*fixed, *map(_listed_workflow, _saved(request)), *_listed_traces(request)]

    def templates(self) -> Sequence[JSONObject]:
        """Return the templates of the served resources."""
        return [
            _template(f"{_WORKFLOWS}{{name}}", "workflow", "A saved workflow"),
            _template(f"{_TRACES}{{run_id}}", "trace", "What each step of a run did, shortened and redacted"),
        ]

    def read(self, request: ServedRequest, uri: str) -> Sequence[JSONObject]:
        """Return the contents of a served resource.

        Raises:
            PflowError: Kind `not_found`: there is no such resource.
        """
        if uri == GUIDE:
            return [_content(uri, _GUIDE_FILE.read_text(encoding="utf-8"), "text/markdown")]
        if uri == SCHEMA:
            return [_content(uri, _text(runner_of(request.host).schema()), "application/schema+json")]
        for prefix, read in _READERS.items():
            name = uri.removeprefix(prefix)
            if name != uri and _SEGMENT.fullmatch(name):
                return [_content(uri, _text(read(request, name)), _JSON)]
        known = f"{GUIDE}, {SCHEMA}, {_WORKFLOWS}NAME, {_TRACES}RUN_ID"
        hint = f"There are {known}"
        raise PflowError(f"There is no resource {shown(uri)}", kind="not_found", suggestions=(hint,))


def _workflow(request: ServedRequest, name: str) -> JSONObject:
    return library_of(request.host).get(name)


def _trace(request: ServedRequest, run_id: str) -> JSONObject:
    trace: Any = trace_tools.read(request, {"trace_file": run_id})["data"]
    if run_id not in ("latest", trace["run_id"]):  # it was found by the beginning of its id
        raise PflowError(f"There is no trace of run {run_id}", kind="not_found")
    return dict(trace)


_READERS: dict[str, Callable[[ServedRequest, str], JSONObject]] = {_WORKFLOWS: _workflow, _TRACES: _trace}


def _saved(request: ServedRequest) -> Sequence[SavedWorkflow]:
    library = request.host.library
    return [saved for saved in library.saved() if not saved.problem] if library is not None else ()


def _listed_workflow(saved: SavedWorkflow) -> dict[str, Any]:
    return _listed(f"{_WORKFLOWS}{saved.name}", saved.name, saved.description or "A saved workflow", _JSON)


def _listed_traces(request: ServedRequest) -> list[dict[str, Any]]:
    """Return the latest traces of the caller's own runs; files of other runs are not listed."""
    traces = request.host.traces
    if traces is None:
        return []
    found: list[dict[str, Any]] = []
    for path in traces.paths()[: 10 * _LATEST]:
        run_id = path.stem
        if len(found) == _LATEST or not _SEGMENT.fullmatch(run_id):
            break
        try:
            traces.find(run_id, owner=request.origin.owner)
        except PflowError:  # another owner's, or removed in the meantime
            continue
        found.append(_listed(f"{_TRACES}{run_id}", run_id, "The trace of a run", _JSON))
    return found


def _listed(uri: str, name: str, description: str, mime_type: str) -> dict[str, Any]:
    return {"uri": uri, "name": name, "description": description, "mimeType": mime_type}


def _template(uri: str, name: str, description: str) -> dict[str, Any]:
    return {"uriTemplate": uri, "name": name, "description": description, "mimeType": _JSON}


def _content(uri: str, text: str, mime_type: str) -> dict[str, Any]:
    return {"uri": uri, "mimeType": mime_type, "text": text}


def _text(value: JSONObject) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
