import os
import threading

import pytest
from special_paths import KINDS, special_path
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.contract import NodeSource
from pflow_mcp_plugin.host.nodes.own_nodes import OwnNodes


def test_echo_passes_its_message_on_with_its_type(bench, one):
    assert one("echo", message={"a": [1]}).outputs == {"message": {"a": [1]}}
    from_root = {"inputs": {"message": {}}, "nodes": [{"id": "echo"}]}
    assert bench.run(from_root, message="hi").outputs == {"message": "hi"}


def test_a_file_is_written_and_read_back_byte_for_byte(bench, one, tmp_path):
    assert not bench.host.registry.get("read-file").cacheable  # the file may be another one each time
    path, text = tmp_path / "new" / "a.txt", "first\r\nsecond\n\u00e9"
    written = one("write-file", file_path=path, content=text).outputs
    assert written == {"file_path": str(path), "size": 16}
    assert one("read-file", file_path=path).outputs == {"content": text, "file_path": str(path)}


def test_values_are_written_as_json_and_a_file_can_be_appended_to(one, tmp_path):
    for content in ({"a": [1]}, "b\n"):
        assert one("write-file", file_path=tmp_path / "a.json", content=content, append=True).success
    assert (tmp_path / "a.json").read_text() == '{\n  "a": [\n    1\n  ]\n}\nb\n'


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("/missing", {}, "No such file or directory"),
        ("", {}, "Is a directory"),
        ("/latin", {}, "it is not utf-8 text"),
        ("/latin", {"encoding": "utf-9"}, "unknown encoding utf-9"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(refused, tmp_path, name, params, message):
    (tmp_path / "latin").write_bytes(b"\xe9")
    error = refused("read-file", file_path=f"{tmp_path}{name}", **params)
    assert error.message == f"Node n (read-file) failed: Cannot read {tmp_path}{name}: {message}"
    assert error.details["file_path"] == f"{tmp_path}{name}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("node", "params"), [("read-file", {}), ("write-file", {"content": "x"})])
def test_what_is_no_regular_file_is_refused_unless_asked_for(refused, tmp_path, node, params, kind):
    with special_path(kind, tmp_path / "file") as path:
        error = refused(node, file_path=path, **params)
    assert "file: it is a " in error.message
    assert "not a regular file" in error.message
    hint = "Name a regular file" if kind == "socket" else "Set special_files to true if this is intended"
    assert error.suggestions == (hint,)


@pytest.mark.parametrize("kind", ["pipe", "pipe with a writer", "terminal"])
def test_a_special_file_is_read_for_as_long_as_the_timeout(refused, tmp_path, kind):
    with special_path(kind, tmp_path / "file") as path:
        error = refused("read-file", file_path=path, special_files=True, timeout=0.1)
    assert "it took longer than 0.1 seconds" in error.message


def test_an_endless_device_is_read_up_to_the_limit(refused):
    error = refused("read-file", file_path="/dev/zero", special_files=True, max_mb=2)
    assert "Cannot read /dev/zero: it is larger than 2 MiB" in error.message
    assert error.suggestions == ("Raise max_mb if this is intended",)


@pytest.mark.parametrize("params", [{"max_mb": 0}, {"timeout": -1}])
def test_a_limit_of_nothing_is_refused(bench, tmp_path, params):
    [(key, value)] = params.items()
    late = step("late", "transform", {"expression": f"`{value}`"})
    reads = step("n", "read-file", {"file_path": str(tmp_path), key: value})
    assert f"{key} of node n must be more than 0" in bench.host.runner.validate(flow(reads))[0].message
    reads["params"][key] = "${late.result}"
    assert f"parameter {key} must be more than 0" in bench.run(flow(late, reads)).error.message


def test_pipes_are_read_and_written_where_asked_for(one, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writing = threading.Thread(target=pipe.write_text, args=("text",))
    writing.start()
    assert one("read-file", file_path=pipe, special_files=True).outputs["content"] == "text"
    writing.join(10)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert one("write-file", file_path=pipe, content="more", special_files=True).outputs["size"] == 4
    assert os.read(reader, 10) == b"more"
    os.close(reader)


@pytest.mark.parametrize(("append", "retries"), [(False, 2), (True, None)])
def test_writing_is_tried_again_where_asked_for_but_not_appending(bench, tmp_path, append, retries):
    (tmp_path / "file").write_text("")
    params = {"file_path": str(tmp_path / "file" / "below"), "content": "x", "append": append}
    outcome = bench.run(flow(step("n", "write-file", params, retry={"max": 2, "wait": 0})))
    assert "Cannot write" in outcome.error.message
    assert trace_of(outcome)["steps"][0]["details"].get("retries") == retries


def test_a_retry_of_a_command_is_warned_of(bench):
    workflow = flow(step("n", "shell", {"command": ["true"]}, retry={"max": 1}))
    assert [problem.path for problem in bench.host.runner.validate(workflow)] == ["$.nodes[0].retry"]
    assert bench.host.registry.get("shell").to_dict()["retryable"] is False


def test_every_entry_fits_its_class(bench):
    source = OwnNodes()
    assert isinstance(source, NodeSource)
    for entry in source.entries():
        assert source.get(entry.node) is entry
        assert bench.host.registry.get(entry.node) == entry
        module = __import__(entry.module, fromlist=[entry.class_name])
        made = getattr(module, entry.class_name)()
        assert getattr(made, "max_retries", 1) == 1
    assert source.fingerprint() == OwnNodes().fingerprint()
