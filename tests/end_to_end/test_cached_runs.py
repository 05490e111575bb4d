"""Runs whose results are kept for later ones, with real servers that note their starts."""

import json
from pathlib import Path

import pytest
import stdio_server
from planted_secrets import remains
from programs import script_server

pytestmark = pytest.mark.usefixtures("no_leftovers")
SECRET = "Zq7xK2mP9wL4vB8nT3cR6yH1jF5dG0sA7eU2iO9p"


def look(id_, text, **node):
    return {"id": id_, "type": "mcp-books-look", "params": {"text": text}, **node}


class World:
    """A server whose tools claim to be read-only, and a workflow of ten of their nodes."""

    def __init__(self, pflow, tmp_path, home):
        self.pflow, self.folder, self.cache = pflow, tmp_path, home / "cache" / "results"
        self.tools, self.log, self.file = (tmp_path / name for name in ("tools.json", "log", "ten.json"))
        self.offer("First it was this")

    def offer(self, description):
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        tool = {"description": description, "inputSchema": schema, "annotations": {"readOnlyHint": True}}
        self.tools.write_text(json.dumps([{"name": name, **tool} for name in ("look", "token")]))

    def add(self, **table):
        env = {"TOOLS": str(self.tools), "LOG": str(self.log), **table.pop("env", {})}
        server = script_server(stdio_server.__file__, "Reads", env=env, **table)
        assert self.pflow("mcp", "add", json.dumps({"books": server})).exit_code == 0
        self.sync()

    def sync(self):
        synced = self.pflow("mcp", "sync", "books")
        assert synced.exit_code == 0, synced.stderr
        self.log.unlink()

    def write(self, *nodes, **more):
        self.file.write_text(json.dumps({"nodes": nodes, **more}))

    def ten(self):
        texts = ["${subject}", *(f"{at} ${{n{at - 1}.value}}" for at in range(1, 10))]
        nodes = [look(f"n{at}", text) for at, text in enumerate(texts)]
        outputs = {f"o{at}": f"${{n{at}.result}}" for at in range(10)}
        self.write(*nodes, inputs={"subject": {"type": "str"}}, outputs=outputs)

    def run(self, *arguments, **options):
        """Run the workflow; return its outputs, the steps of its trace, and what the server noted."""
        ran = self.pflow("run", self.file, *arguments, "--json", **options)
        assert ran.exit_code == 0, ran.stdout
        trace = json.loads(Path(ran.envelope["trace_path"]).read_text())
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        noted = [line.split()[0] for line in lines if line.startswith(("start", "call "))]
        self.log.unlink(missing_ok=True)
        return ran.envelope["data"]["outputs"], trace["steps"], noted

    def entries(self):
        return self.pflow("cache", "info", "--json").envelope["data"]["entries"]


@pytest.fixture
def world(pflow, tmp_path, pflow_home):
    return World(pflow, tmp_path, pflow_home)


def kept(steps):
    return [
        {key: value for key, value in step["details"].get("cache", {}).items() if key != "age"}
        for step in steps
    ]


def test_a_cached_run_of_ten_nodes_starts_no_server_and_returns_the_same(world):
    world.add(trust_readonly=True)
    world.ten()
    first, steps, noted = world.run("--cache", "subject=whales")
    assert noted == ["start", *["call"] * 10]
    assert kept(steps) == [{"kept": 1}] * 10
    again, steps, noted = world.run("--cache=1h", "subject=whales")
    assert noted == []
    assert again == first
    assert kept(steps) == [{"cached": 1}] * 10
    plain, steps, noted = world.run("subject=whales")
    assert len(noted) == 11
    assert kept(steps) == [{}] * 10
    assert plain != first  # another process has answered


def test_a_changed_tool_is_a_miss(world):
    world.add(trust_readonly=True, trust="auto")
    world.ten()
    world.run("--cache", "subject=whales")
    world.offer("First it was this.")
    world.sync()
    assert len(world.run("--cache", "subject=whales")[2]) == 11
    assert world.run("--cache", "subject=whales")[2] == []


def test_another_account_or_config_of_the_server_is_a_miss(world):
    world.add(trust_readonly=True, env={"TOKEN": "${TOKEN}", "PLACE": "north"})
    world.write(look("a", "a", cache=True))
    ours, theirs = {"env": {"TOKEN": "token-of-ours"}}, {"env": {"TOKEN": "token-of-theirs"}}
    assert len(world.run(**ours)[2]) == 2
    assert world.run(**ours)[2] == []
    assert len(world.run(**theirs)[2]) == 2
    assert world.run(**ours)[2] == []
    config = next(world.cache.parents[1].glob("config/mcp-servers.toml"))
    config.write_text(config.read_text().replace("north", "south"))
    assert len(world.run(**ours)[2]) == 2


@pytest.mark.parametrize("variable", ["HOME", "TZ"])
def test_another_environment_of_the_server_is_a_miss(world, variable):
    world.add(trust_readonly=True)
    world.write(look("a", "a", cache=True))
    one, other = ({"env": {variable: str(world.folder / name)}} for name in ("one", "other"))
    for known in (2, 0):
        assert [len(world.run(**changed)[2]) for changed in (one, other)] == [known] * 2
    assert world.run(env={**one["env"], "EDITOR": "ed"})[2] == []  # no server gets it


def test_a_server_is_started_early_only_for_nodes_that_certainly_need_it(world):
    world.add(trust_readonly=True)
    world.write(look("a", "a", cache=True), look("b", "b", cache=False))
    assert world.run("--cache")[2] == ["start", "call", "call"]
    _, steps, noted = world.run("--cache")
    assert noted == ["start", "call"]
    assert kept(steps) == [{"cached": 1}, {}]
    assert world.run("--no-cache")[2] == ["start", "call", "call"]


def test_two_programs_that_fill_it_at_once_lose_nothing(world, started):
    world.add(trust_readonly=True)
    items = [f"item {number}" for number in range(40)]
    batch = {"items": "${items}", "parallel": True}
    world.write(look("n", "${item}", cache=True, batch=batch), inputs={"items": {"type": "list"}})
    # Each keeps ten results that the other does not, and both keep the rest.
    parts = (items[:30], items[:9:-1])
    both = [started("run", world.file, "--json", f"items={json.dumps(part)}") for part in parts]
    for program in both:
        stdout, _ = program.communicate(timeout=90)
        assert json.loads(stdout)["success"]
    world.log.unlink()
    outputs, steps, noted = world.run(f"items={json.dumps(items)}")
    assert noted == []
    assert kept(steps) == [{"cached": 40}]
    assert [result["value"]["text"] for result in outputs["results"]] == items
    assert world.entries() == 40


def test_row_37_no_secret_is_found_in_kept_results(world):
    world.add(trust_readonly=True, env={"TOKEN": "${TOKEN}"})
    world.write(
        look("a", "plain", cache=True),
        {"id": "b", "type": "mcp-books-token", "cache": True},
        look("c", "${b.result}", cache=True),
        look("d", "again", cache=True),
    )
    for known in ({"kept": 1}, {"cached": 1}):
        _, steps, _ = world.run(env={"TOKEN": SECRET})
        lost = {"not_kept": 1, "why": "it contains a secret"}
        assert kept(steps) == [known, lost, lost, known]
    assert world.entries() == 2
    assert remains(SECRET, [], world.cache) == []


def test_what_is_kept_is_shown_and_cleared(world):
    world.add(trust_readonly=True)
    world.ten()
    world.run("--cache", "subject=whales")
    shown = world.pflow("cache", "info", "--json").envelope["data"]
    assert (shown["entries"], shown["folder"]) == (10, str(world.cache))
    assert shown["size"] % 4096 == 0 < shown["size"] < 1 << 20
    assert shown["oldest"].endswith("Z")
    assert shown["limit"] == 256 << 20
    assert "Results  10" in world.pflow("cache", "info").stdout
    assert world.pflow("cache", "clear").stdout == "Removed 10 results, 0.0 MB\n"
    assert world.entries() == 0
