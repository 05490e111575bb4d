import json
import os
import signal
import subprocess
import sys

from workflow_parts import flow, step


def test_a_workflow_runs_from_its_file_with_inputs_from_the_command_line(pflow, tmp_path):
    workflow = flow(
        step("write", "write-file", {"file_path": "out.txt", "content": "${name}, ${times}"}),
        step("read", "read-file", {"file_path": "${write.file_path}"}),
        inputs={"name": {"type": "str"}, "times": {"type": "int", "default": 1}},
        outputs={"text": "${read.content}", "times": "${times}"},
    )
    (tmp_path / "wf.json").write_text(json.dumps(workflow))
    finished = pflow("run", "wf.json", "name=Ann", "times=2", "--json")
    assert finished.envelope["data"]["outputs"] == {"text": "Ann, 2", "times": 2}
    refused = pflow("run", "wf.json", "nam=Ann", "times=two", "--json")
    assert refused.exit_code == 2
    assert [problem["path"] for problem in refused.envelope["error"]["details"]["problems"]] == [
        "$.inputs.nam",
        "$.inputs.name",
        "$.inputs.times",
    ]


def test_ctrl_c_ends_a_run_with_130_and_a_trace(pflow_home, tmp_path, signalled):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    params = {"file_path": str(pipe), "special_files": True, "timeout": 600}
    workflow = flow(step("wait", "read-file", params))
    (tmp_path / "wf.json").write_text(json.dumps(workflow))
    with subprocess.Popen(
        [sys.executable, "-m", "pflow_mcp_plugin", "run", str(tmp_path / "wf.json"), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        writer = os.open(pipe, os.O_WRONLY)  # returns when the node has opened it to read
        stdout, stderr = signalled(program, signal.SIGINT)
        os.close(writer)
    assert program.returncode == 130
    envelope = json.loads(stdout)
    assert envelope["error"]["type"] == "interrupted"
    assert "Traceback" not in stderr
    [trace] = (pflow_home / "state" / "traces").glob("*.json")
    assert str(trace) == envelope["trace_path"]
    assert json.loads(trace.read_text())["steps"][0]["error"] == "interrupted"
