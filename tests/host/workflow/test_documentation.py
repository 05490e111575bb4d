"""The workflows in the documentation are sound."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from pflow_mcp_plugin.host.workflow.document_reader import SCHEMA_FILE

TEXT = (Path(__file__).parents[3] / "docs" / "workflows.md").read_text(encoding="utf-8")
WORKFLOWS = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL)]
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_documented_workflow_has_no_problems(bench, workflow):
    jsonschema.validate(workflow, SCHEMA)
    assert bench.host.runner.validate(workflow) == ()


def test_there_are_workflows_in_the_documentation():
    assert len(WORKFLOWS) == 5
