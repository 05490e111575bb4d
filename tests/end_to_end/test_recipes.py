"""The presets of real servers find out about some calls whether they happened, and nobody is asked."""

import json
import signal

import pytest
from kill_trials import killed_at
from workflow_parts import step

from pflow_mcp_plugin.presets.builtin_servers import PRESETS

pytestmark = [pytest.mark.servers, pytest.mark.usefixtures("no_leftovers")]


@pytest.fixture
def killed(started, workflow):
    """Run a workflow until it is killed before or after its first call."""

    def run(*nodes, happened):
        program = killed_at("ended", "before", 1) if happened else killed_at("sent", "after", 1)
        process = started("run", workflow(*nodes), program=program)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL

    return run


@pytest.fixture
def found_out(pflow):
    """Resume a run without anybody who decides; return its outputs."""

    def resume(said):
        ended = pflow("resume", "--json")
        assert ended.exit_code == 0, ended.stderr
        assert said in ended.stderr
        return ended.envelope["data"]["outputs"]

    return resume


@pytest.fixture
def files(configured, filesystem_command):
    configured("fs", as_preset("filesystem", filesystem_command))


def as_preset(name, command, **table):
    preset = next(it for it in PRESETS if it.name == name)
    program, *args = command
    return {"command": program, "args": args, "verify": preset.verify, "trust_readonly": True, **table}


def writing(path):
    return step("write", "mcp-fs-write-file", {"path": str(path), "content": "one\r\ntwo"})


@pytest.mark.parametrize("happened", [True, False])
def test_a_file_that_was_written_is_not_written_again(files, killed, found_out, tmp_path, happened):
    path = tmp_path / "files" / "a.txt"
    killed(writing(path), happened=happened)
    assert path.exists() == happened
    outputs = found_out(f"write {'happened' if happened else 'did not happen'}, by mcp-fs-read-text-file")
    assert outputs["content"] == f"Successfully wrote to {path}"
    assert path.read_bytes() == b"one\r\ntwo"


def test_a_file_with_another_content_is_left_to_the_user(files, killed, pflow, tmp_path):
    path = tmp_path / "files" / "a.txt"
    killed(writing(path), happened=True)
    path.write_text("before")
    asked = pflow("resume", "--json")
    assert asked.exit_code == 4
    (left,) = json.loads(asked.stdout)["error"]["details"]["undecided"]
    assert "mcp-fs-read-text-file leaves it open: its result fits neither case" in left["error"]
    assert path.read_text() == "before"


def test_a_folder_that_was_created_is_not_created_again(files, killed, found_out, tmp_path):
    path = tmp_path / "files" / "new"
    killed(step("make", "mcp-fs-create-directory", {"path": str(path)}), happened=True)
    outputs = found_out("make happened, by")
    assert outputs["content"] == f"Successfully created directory {path}"
    assert path.is_dir()


def test_entities_that_are_there_are_not_created_again(
    configured, memory_command, killed, found_out, tmp_path
):
    file = tmp_path / "memory.jsonl"
    configured("memory", as_preset("memory", memory_command, env={"MEMORY_FILE_PATH": str(file)}))
    entities = [{"name": it, "entityType": "person", "observations": ["tall"]} for it in ("Ada", "Bob")]
    killed(step("make", "mcp-memory-create-entities", {"entities": entities}), happened=True)
    outputs = found_out("make happened, by")
    assert outputs["entities"] == entities
    assert len(file.read_text().splitlines()) == 2
