"""What a pflow server offers: the tools that the user chose, with resources and prompts."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Host, PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server import registry_tools, settings_tools, workflow_tools
from pflow_mcp_plugin.server.client_notifications import Changed, ListChanges, watched
from pflow_mcp_plugin.server.pflow_server import INSTRUCTIONS, ServingOptions
from pflow_mcp_plugin.server.saved_workflow_tools import SavedWorkflowTools
from pflow_mcp_plugin.server.served_tool import (
    ServedRequest,
    ServedTool,
    library_of,
    matching,
    runner_of,
    selected,
    shown,
    without,
)

ALL_TOOLS: tuple[ServedTool, ...] = (
    workflow_tools.DISCOVER,
    registry_tools.DISCOVER,
    registry_tools.RUN,
    workflow_tools.EXECUTE,
    workflow_tools.VALIDATE,
    workflow_tools.SAVE,
    registry_tools.DESCRIBE,
    registry_tools.SEARCH,
    workflow_tools.LIST,
    settings_tools.SET,
    settings_tools.GET,
    registry_tools.LIST,
    workflow_tools.READ_TRACE,
)

SCHEMA = "pflow://schema/workflow"
GUIDE = "pflow://guide"
_WORKFLOWS = "pflow://workflows/"
_TRACES = "pflow://traces/"
_TOOLS = {_WORKFLOWS: workflow_tools.LIST, _TRACES: workflow_tools.READ_TRACE}
"""The tool that has to be served for such resources to be."""
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""A name in the URI of a resource: nothing that could be a path."""
_LATEST = 10
_GUIDE_FILE = Path(__file__).with_name("agent_guide.md")
_JSON = "application/json"


@attrs.frozen
class PflowResources:
    """What is offered as resources besides the tools: guide, workflow schema, saved workflows and traces.

    Workflows and traces are not offered where the tool that lists or reads them is `hidden`.
    """

    hidden: Collection[str] = ()

    def resources(self, request: ServedRequest) -> Sequence[JSONObject]:
        fixed = (
            _listed(GUIDE, "guide", "How to find, build, check, run and save workflows", "text/markdown"),
            _listed(SCHEMA, "workflow-schema", "The JSON Schema of workflows", "application/schema+json"),
        )
        library = request.host.library
        workflows = [
            _listed(f"{_WORKFLOWS}{it.name}", it.name, it.description or "A saved workflow", _JSON)
            for it in (library.saved() if library is not None and self._has(_WORKFLOWS) else ())
            if not it.problem
        ]
        return [*fixed, *workflows, *(_listed_traces(request) if self._has(_TRACES) else ())]

    def templates(self) -> Sequence[JSONObject]:
        found = {
            _WORKFLOWS: _template(f"{_WORKFLOWS}{{name}}", "workflow", "A saved workflow"),
            _TRACES: _template(
                f"{_TRACES}{{run_id}}", "trace", "What each step of a run did, shortened and redacted"
            ),
        }
        return [template for prefix, template in found.items() if self._has(prefix)]

    def _has(self, prefix: str) -> bool:
        return prefix in _TOOLS and _TOOLS[prefix].name not in self.hidden

    def read(self, request: ServedRequest, uri: str) -> Sequence[JSONObject]:
        if uri == GUIDE:
            lacking = f"This server does not serve {', '.join(request.hidden)}.\n\n" if request.hidden else ""
            return [_content(uri, lacking + _GUIDE_FILE.read_text(encoding="utf-8"), "text/markdown")]
        if uri == SCHEMA:
            return [_content(uri, runner_of(request.host).schema(), "application/schema+json")]
        start = uri.rfind("/") + 1
        prefix, name = uri[:start], uri[start:]
        is_name = self._has(prefix) and _SEGMENT.fullmatch(name)
        if prefix == _WORKFLOWS and is_name:
            return [_content(uri, library_of(request.host).get(name), _JSON)]
        if prefix == _TRACES and is_name:
            trace: Any = workflow_tools.read_trace(request, {"trace_file": name})["data"]
            if name in ("latest", trace["run_id"]):  # not one found by a part of its id
                return [_content(uri, trace, _JSON)]
            raise PflowError(f"There is no trace of run {name}", kind="not_found")
        known = {_WORKFLOWS: f"{_WORKFLOWS}NAME", _TRACES: f"{_TRACES}RUN_ID"}
        hint = f"There are {', '.join([GUIDE, SCHEMA, *(known[it] for it in known if self._has(it))])}"
        raise PflowError(f"There is no resource {shown(uri)}", kind="not_found", suggestions=(hint,))


def _listed_traces(request: ServedRequest) -> list[dict[str, Any]]:
    traces = request.host.traces
    if traces is None:
        return []
    found: list[dict[str, Any]] = []
    for path in traces.paths()[: 10 * _LATEST]:
        run_id = path.stem
        if len(found) == _LATEST:
            break
        if _SEGMENT.fullmatch(run_id):
            with suppress(PflowError):  # another owner's, or removed in the meantime
                traces.find(run_id, owner=request.origin.owner)
                found.append(_listed(f"{_TRACES}{run_id}", run_id, "The trace of a run", _JSON))
    return found


def _listed(uri: str, name: str, description: str, mime_type: str) -> dict[str, Any]:
    return {"uri": uri, "name": name, "description": description, "mimeType": mime_type}


def _template(uri: str, name: str, description: str) -> dict[str, Any]:
    return {"uriTemplate": uri, "name": name, "description": description, "mimeType": _JSON}


def _content(uri: str, text: str | JSONObject, mime_type: str) -> dict[str, Any]:
    return {"uri": uri, "mimeType": mime_type, "text": text}


BUILD = "build-workflow"
_LONGEST = 10_000
"""Characters of a task."""

_STEPS = """\
Build a pflow workflow for this task:

{task}

Work through these steps, one tool call at a time:

1. workflow_discover with the task. If a saved workflow already does it, run it with workflow_execute, report
   its outputs, and stop.
2. registry_discover with the task, to find the nodes. Use registry_describe and registry_search for more.
3. registry_run for each node whose outputs you have to refer to, with harmless params, and note the paths of
   its real output. Ask before you run a node that changes or sends something.
4. Write the workflow as a JSON object with inputs, nodes and outputs. The resource pflow://guide has the
   format and an example.
5. workflow_validate, and correct what it reports, until it is valid.
6. workflow_execute with realistic parameters. If it fails, read the error, its suggestions and the
   checkpoint, and trace_read for the steps; change the workflow and return to step 5.
7. Compare the outputs with the task. If they are right, workflow_save under a short name in lower case
   with hyphens, with a description by which others will find it.

At the end, report the name, the inputs and the outputs of the workflow."""


class PflowPrompts:
    """What is offered as a prompt, besides the tools: to build a workflow for a task."""

    def prompts(self) -> Sequence[JSONObject]:
        task: JSONObject = {"name": "task", "description": "What the workflow is to do", "required": True}
        description = "Build, check, run and save a workflow for a task"
        return [{"name": BUILD, "title": "Build a workflow", "description": description, "arguments": [task]}]

    def get(self, request: ServedRequest, name: str, arguments: Mapping[str, str]) -> JSONObject:
        if name != BUILD:
            message = f"There is no prompt {shown(name)}"
            raise PflowError(message, kind="not_found", suggestions=(f"There is {BUILD}",))
        task = arguments.get("task", "").strip()
        if not task or len(task) > _LONGEST:
            said = f"must have at most {_LONGEST:,} characters" if task else "is missing"
            raise PflowError(f"The argument task {said}", kind="validation", suggestions=("Pass task",))
        content: dict[str, Any] = {"type": "text", "text": _STEPS.format(task=task)}
        return {
            "description": "Build, check, run and save a workflow",
            "messages": [{"role": "user", "content": content}],
        }


def _naming_only_served(tool: ServedTool, hidden: Collection[str]) -> ServedTool:
    def cleaned(schema: Any) -> Any:
        if isinstance(schema, Mapping):
            return {
                key: without(hidden, it) if key == "description" and isinstance(it, str) else cleaned(it)
                for key, it in schema.items()
            }
        return [*map(cleaned, schema)] if isinstance(schema, list) else schema

    return attrs.evolve(
        tool,
        description=without(hidden, tool.description),
        input_schema=cleaned(tool.input_schema),
        output_schema=cleaned(tool.output_schema),
    )


class Offer:
    """What a pflow server offers: the tools that the user chose, resources and prompts.

    `patterns` are names of tools, or patterns of them; without any, all are served. `workflows` are names of
    saved workflows that are tools of their own, or patterns. With `read_only`, no tool changes anything.
    A pattern that matches no tool is refused with `PflowError` of kind `usage`.
    """

    def __init__(
        self,
        host: Host,
        patterns: Sequence[str] = (),
        workflows: Sequence[str] = (),
        *,
        read_only: bool = False,
    ) -> None:
        self._host = host
        self._patterns = patterns
        self._read_only = read_only
        choose = matching if workflows else selected  # a workflow that is saved later may match a pattern
        own = choose(ALL_TOOLS, patterns, read_only=read_only)
        self._hidden = tuple(tool.name for tool in ALL_TOOLS if tool not in own)
        self._own = tuple(_naming_only_served(tool, self._hidden) for tool in own)
        names = [tool.name for tool in ALL_TOOLS]
        self._saved = SavedWorkflowTools(host, workflows, names) if workflows else None

    def tools(self) -> tuple[ServedTool, ...]:
        """Return the tools on offer now: those for saved workflows come and go."""
        if self._saved is None:
            return self._own
        return (*self._own, *matching(self._saved(), self._patterns, read_only=self._read_only))

    def options(self) -> ServingOptions:
        changes = ListChanges()
        lists: list[Changed] = ["resources"] if self._saved is None else ["tools", "resources"]
        return ServingOptions(
            resources=PflowResources(self._hidden),
            prompts=None if any(name in _STEPS for name in self._hidden) else PflowPrompts(),
            changes=changes,
            instructions=without(self._hidden, INSTRUCTIONS),
            hidden=self._hidden,
            background=partial(watched, self._host.library, changes, lists),
        )
