"""The prompt that pflow serves: it walks an agent through building a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server.served_tool import ServedRequest, shown

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
    """The prompts of a pflow server; see `serving_options.Prompts`."""

    def prompts(self) -> Sequence[JSONObject]:
        """Return the one served prompt."""
        task: JSONObject = {"name": "task", "description": "What the workflow is to do", "required": True}
        description = "Build, check, run and save a workflow for a task"
        return [{"name": BUILD, "title": "Build a workflow", "description": description, "arguments": [task]}]

    def get(self, request: ServedRequest, name: str, arguments: Mapping[str, str]) -> JSONObject:
        """Return the served prompt for a task.

        Raises:
            PflowError: There is no such prompt, or the task is missing or too long.
        """
        if name != BUILD:
            hint = f"There is {BUILD}"
            raise PflowError(f"There is no prompt {shown(name)}", kind="not_found", suggestions=(hint,))
        task = arguments.get("task", "").strip()
        if not task or len(task) > _LONGEST:
            said = f"must have at most {_LONGEST:,} characters" if task else "is missing"
            raise PflowError(f"The argument task {said}", kind="validation", suggestions=("Pass task",))
        content: dict[str, Any] = {"type": "text", "text": _STEPS.format(task=task)}
        return {
            "description": "Build, check, run and save a workflow",
            "messages": [{"role": "user", "content": content}],
        }
