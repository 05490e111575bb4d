from __future__ import annotations

import ast


def test_the_classes_are_written_to_a_file_or_printed(pflow, tmp_path):
    assert pflow("mcp", "demo").exit_code == 0
    target = tmp_path / "typings" / "nodes.pyi"
    done = pflow("mcp", "stubs", "--output", target, "--json")
    assert done.envelope["data"] == {"classes": 6, "path": str(target)}
    classes = [item.name for item in ast.parse(target.read_text()).body if isinstance(item, ast.ClassDef)]
    assert "McpDemoWordCountNode" in classes
    assert pflow("mcp", "stubs").stdout.strip() == target.read_text().strip()


def test_a_file_that_cannot_be_written_is_told(pflow, tmp_path):
    (tmp_path / "file").touch()
    done = pflow("mcp", "stubs", "--output", tmp_path / "file" / "nodes.pyi")
    assert done.exit_code == 2
    assert "nodes.pyi" in done.stderr
