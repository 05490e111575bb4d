import json
import os
import subprocess
import sys
import threading

import pytest
from special_paths import KINDS, special_path

from pflow_mcp_plugin.contract import NodeSource
from pflow_mcp_plugin.host.nodes.own_nodes import OwnNodes


def one(node_type, **params):
    return {"nodes": [{"id": "n", "type": node_type, "params": params}]}


def test_echo_passes_its_message_on_with_its_type(bench):
    assert bench.run(one("echo", message={"a": [1]})).outputs == {"message": {"a": [1]}}
    from_root = {"inputs": {"message": {}}, "nodes": [{"id": "echo"}]}
    assert bench.run(from_root, message="hi").outputs == {"message": "hi"}


def test_a_file_is_written_and_read_back_byte_for_byte(bench, tmp_path):
    path = tmp_path / "new" / "a.txt"
    text = "first\r\nsecond\n\u00e9"
    assert bench.run(one("write-file", file_path=str(path), content=text)).outputs == {
        "file_path": str(path),
        "size": 16,
    }
    assert bench.run(one("read-file", file_path=str(path))).outputs == {
        "content": text,
        "file_path": str(path),
    }


def test_a_file_can_be_appended_to(bench, tmp_path):
    path = tmp_path / "a.txt"
    for line in ("a\n", "b\n"):
        assert bench.run(one("write-file", file_path=str(path), content=line, append=True)).success
    assert path.read_text() == "a\nb\n"


def test_values_are_written_as_json(bench, tmp_path):
    path = tmp_path / "a.json"
    assert bench.run(one("write-file", file_path=str(path), content={"a": [1]})).success
    assert path.read_text() == '{\n  "a": [\n    1\n  ]\n}\n'


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"file_path": "{}/missing"}, "Cannot read {}/missing: No such file or directory"),
        ({"file_path": "{}"}, "Cannot read {}: Is a directory"),
        ({"file_path": "{}/latin"}, "Cannot read {}/latin: it is not utf-8 text"),
        ({"file_path": "{}/latin", "encoding": "utf-9"}, "Cannot read {}/latin: unknown encoding utf-9"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(bench, tmp_path, params, message):
    (tmp_path / "latin").write_bytes(b"\xe9")
    filled = {key: value.format(tmp_path) for key, value in params.items()}
    outcome = bench.run(one("read-file", **filled))
    assert outcome.error.message == f"Node n (read-file) failed: {message.format(tmp_path)}"
    assert outcome.error.details["file_path"] == filled["file_path"]


def test_a_file_that_cannot_be_written_is_named_with_the_reason(bench, tmp_path):
    (tmp_path / "file").write_text("")
    outcome = bench.run(one("write-file", file_path=str(tmp_path / "file" / "below"), content="x"))
    assert "Cannot write" in outcome.error.message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("node", "params"), [("read-file", {}), ("write-file", {"content": "x"})])
def test_what_is_no_regular_file_is_refused_unless_asked_for(bench, tmp_path, node, params, kind):
    with special_path(kind, tmp_path / "file") as path:
        refused = bench.run(one(node, file_path=str(path), **params)).error
    assert "file: it is a " in refused.message
    assert "not a regular file" in refused.message
    hint = "Name a regular file" if kind == "socket" else "Set special_files to true if it is meant"
    assert refused.suggestions == (hint,)


@pytest.mark.parametrize("kind", ["pipe", "pipe with a writer", "terminal"])
def test_a_special_file_is_read_for_as_long_as_the_timeout(bench, tmp_path, kind):
    with special_path(kind, tmp_path / "file") as path:
        failed = bench.run(one("read-file", file_path=str(path), special_files=True, timeout=0.1)).error
    assert "it took longer than 0.1 seconds" in failed.message


def test_an_endless_device_is_read_up_to_the_limit(bench):
    workflow = one("read-file", file_path="/dev/zero", special_files=True, max_mb=2)
    failed = bench.run(workflow).error
    assert "Cannot read /dev/zero: it is larger than 2 MiB" in failed.message
    assert failed.suggestions == ("Raise max_mb if it is meant",)


@pytest.mark.parametrize("params", [{"max_mb": 0}, {"timeout": -1}])
def test_a_limit_of_nothing_is_refused(bench, tmp_path, params):
    message = bench.run(one("read-file", file_path=str(tmp_path), **params)).error.message
    assert f"parameter {next(iter(params))} must be more than 0" in message


def test_pipes_are_read_and_written_where_asked_for(bench, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=("text",))
    writing.start()
    workflow = one("read-file", file_path=str(pipe), special_files=True)
    assert bench.run(workflow).outputs["content"] == "text"
    writing.join(10)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    workflow = one("write-file", file_path=str(pipe), content="more", special_files=True)
    assert bench.run(workflow).outputs["size"] == 4
    assert os.read(reader, 10) == b"more"
    os.close(reader)


@pytest.mark.parametrize(("append", "retries"), [(False, 2), (True, None)])
def test_writing_is_tried_again_where_asked_for_but_not_appending(bench, tmp_path, append, retries):
    (tmp_path / "file").write_text("")
    workflow = one("write-file", file_path=str(tmp_path / "file" / "below"), content="x", append=append)
    workflow["nodes"][0]["retry"] = {"max": 2, "wait": 0}
    [step] = json.loads(bench.run(workflow).trace_path.read_text())["steps"]
    assert step["details"].get("retries") == retries


def test_a_retry_of_a_command_is_warned_of(bench):
    workflow = one("shell", command=["true"])
    workflow["nodes"][0]["retry"] = {"max": 1}
    assert [problem.path for problem in bench.host.runner.validate(workflow)] == ["$.nodes[0].retry"]
    assert bench.host.registry.get("shell").to_dict()["retryable"] is False


def test_every_entry_fits_its_class(bench):
    source = OwnNodes()
    assert isinstance(source, NodeSource)
    for entry in source.entries():
        assert source.get(entry.node) is entry
        assert bench.host.registry.get(entry.node) == entry
        module = __import__(entry.module, fromlist=[entry.class_name])
        assert getattr(module, entry.class_name)().max_retries == 1
    assert source.fingerprint() == OwnNodes().fingerprint()


def test_listing_the_entries_imports_no_node():
    script = """
import sys
from pflow_mcp_plugin.host.nodes import pflow_register_nodes
[source] = pflow_register_nodes(None)
known = [entry.node for entry in source.entries()]
assert len(known) == len({*known}) > 10
assert not {"pocketflow", "asyncio", "jmespath"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
