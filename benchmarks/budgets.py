"""The budgets: each line of the table compares two measurements against a limit."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median

import attrs

from benchmarks.paired_runs import Comparison, compare, in_turn, run
from pflow_mcp_plugin.contract.json_types import JSONObject

_HERE = Path(__file__).resolve().parent
_STEPS = 10
_TOOLS = 100
_SERVED_CALLS = 100
_RECORDED_CALLS = 3_000
_ROWS = 100_000


@attrs.frozen(kw_only=True)
class Line:
    """One line of the table.

    Attributes:
        name: The quantity measured.
        measured: The value, with its unit.
        limit: The budget, with its unit.
        kept: Whether the value is within the budget.
        details: The raw numbers, for the JSON file.
    """

    name: str
    measured: str
    limit: str
    kept: bool
    details: object = None


@attrs.frozen(kw_only=True)
class Bench:
    """A `$PFLOW_HOME` with servers, and the number of runs.

    Attributes:
        folder: Temporary folder that contains `$PFLOW_HOME`.
        pairs: Number of pairs in each comparison.
    """

    folder: Path
    pairs: int

    @property
    def env(self) -> dict[str, str]:
        """Environment variables of the measured programs; both sides may write bytecode."""
        return {"PFLOW_HOME": str(self.folder / "home"), "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}

    def pflow(self, *arguments: str) -> list[str]:
        """Return the command of the installed program."""
        return [str(Path(sys.executable).parent / "pflow-mcp"), *arguments]

    def add(self, name: str, command: Sequence[str]) -> None:
        """Configure a server and sync its tools."""
        run(self.pflow("mcp", "add", name, "--", *command), self.env, self.folder)
        run(self.pflow("mcp", "sync", name), self.env, self.folder)

    def add_large(self, name: str, tools: int) -> None:
        """Configure and sync a server with many tools, which is slow to start."""
        program = {"command": sys.executable, "args": [str(_HERE / "many_tools.py"), str(tools)]}
        table = {**program, "startup_timeout": 110, "list_timeout": 60}
        run(self.pflow("mcp", "add", name, json.dumps(table)), self.env, self.folder)
        run(self.pflow("mcp", "sync", name), self.env, self.folder)

    def against(self, name: str, limit: float, ours: Sequence[str], theirs: Sequence[str]) -> Line:
        """Compare two commands.

        Args:
            name: What the line is about.
            limit: Limit of the ratio of their times.
            ours: Our command.
            theirs: The command it is compared with.
        """
        found = compare(ours, theirs, self.pairs, self.env, self.folder)
        return _ratio(name, found, limit)


def listings(bench: Bench) -> Iterator[Line]:
    """Compare the listing commands, with 100 tools, with a Python that imports the libraries they need."""
    bench.add("many", [sys.executable, str(_HERE / "many_tools.py"), str(_TOOLS)])
    libraries = "attrs, click, pluggy, platformdirs, json, tomllib"
    imports = [sys.executable, "-c", f"import {libraries}"]
    for words, limit in ((("mcp", "list"), 1.25), (("registry", "list"), 1.2)):
        name = f"`pflow {' '.join(words)}` ({_TOOLS} tools) / `import {libraries}`"
        yield bench.against(name, limit, bench.pflow(*words), imports)


def cold_run_demo(bench: Bench) -> Iterator[Line]:
    """Compare a cold run of ten steps on the demo server with the bare SDK's ten calls."""
    command = [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"]
    yield _cold_run(bench, "demo", command, ("add", {"a": 1, "b": 2}))


def cold_run_time(bench: Bench) -> Iterator[Line]:
    """Compare a cold run on `mcp-server-time`, as installed by the tests."""
    sys.path.insert(0, str(_HERE.parent / "tests" / "servers"))
    from real_servers import local_time

    yield _cold_run(bench, "time", local_time(), ("get_current_time", {"timezone": "UTC"}))


def _cold_run(bench: Bench, server: str, command: list[str], call: tuple[str, dict[str, object]]) -> Line:
    tool, arguments = call
    bench.add(server, command)
    node = f"mcp-{server}-{tool.replace('_', '-')}"
    nodes = [{"id": f"step{number}", "type": node, "params": arguments} for number in range(_STEPS)]
    workflow = bench.folder / f"{server}.json"
    workflow.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
    ours = bench.pflow("run", str(workflow))
    theirs = [sys.executable, str(_HERE / "bare_sdk.py"), str(_STEPS), tool, json.dumps(arguments), *command]
    return bench.against(
        f"cold run of {_STEPS} steps ({server} server) / bare SDK script", 0.70, ours, theirs
    )


def warm_call(bench: Bench) -> Iterator[Line]:
    """Compare a call through a warm pool with the bare SDK's, one after the other."""
    found = _calls(bench, calls=100, in_flight=1)
    yield _ratio("call through a warm pool / `Client.call_tool`", found, 1.10)


def parallel_calls(bench: Bench) -> Iterator[Line]:
    """Compare 1,000 calls with 32 in flight, as throughput."""
    found = _calls(bench, calls=1000, in_flight=32)
    yield _throughput("1,000 calls, 32 in flight: throughput / bare SDK's", found)


def _throughput(name: str, found: Comparison) -> Line:
    ratio = 1 / found.ratio
    details = attrs.asdict(found)
    return Line(name=name, measured=f"{ratio:.2f} ×", limit="≥ 0.95 ×", kept=ratio >= 0.95, details=details)


def batch(bench: Bench) -> Iterator[Line]:
    """Compare a batch of 1,000 items, 32 at once, with the bare SDK's calls, and its memory with 10,000.

    Neither side counts the connection and the first call.
    """
    bench.add("demo", [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"])
    ours = bench.pflow("run", _batch_workflow(bench, 1000), "--json")
    theirs = [sys.executable, str(_HERE / "bare_parallel.py"), "1000", "32"]
    found = in_turn(
        lambda: _batch_seconds(bench, ours),
        lambda: float(run(theirs, bench.env, bench.folder).stdout),
        bench.pairs,
    )
    yield _throughput("batch of 1,000 items, 32 at once: throughput / bare SDK's", found)
    many, few = (_batch_memory(bench, _batch_workflow(bench, items)) for items in (10_000, 1000))
    yield Line(
        name="memory of a batch of 10,000 items / of 1,000",
        measured=f"{many / few:.2f} ×",
        limit="≤ 2 ×",
        kept=many / few <= 2,
        details={"mb": [many, few]},
    )


def batch_workflow(bench: Bench) -> Iterator[Line]:
    """Compare a batch through a sub-workflow of one step with a plain batch of that step, and its memory."""
    bench.add("demo", [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"])
    through, plain = (
        bench.pflow("run", _batch_workflow(bench, 1000, through=through), "--json")
        for through in (True, False)
    )
    found = in_turn(lambda: _batch_seconds(bench, through), lambda: _batch_seconds(bench, plain), bench.pairs)
    ratio = 1 / found.ratio
    yield Line(
        name="batch through a workflow of one step: throughput / plain batch's",
        measured=f"{ratio:.2f} ×",
        limit="≥ 0.90 ×",
        kept=ratio >= 0.9,
        details=attrs.asdict(found),
    )
    many, few = (_batch_memory(bench, _batch_workflow(bench, n, through=True)) for n in (10_000, 1000))
    yield Line(
        name="memory of such a batch of 10,000 items / of 1,000",
        measured=f"{many / few:.2f} ×",
        limit="≤ 2 ×",
        kept=many / few <= 2,
        details={"mb": [many, few]},
    )


def _batch_workflow(bench: Bench, count: int, *, through: bool = False) -> str:
    items = {"items": list(range(count)), "as": "n", "parallel": True, "max_concurrent": 32}
    add = {"type": "mcp-demo-add", "params": {"a": "${n}", "b": 1}}
    if through:
        inner = {"inputs": {"n": {"type": "int"}}, "nodes": [{"id": "add", **add}]}
        add = {"type": "workflow", "params": {"workflow": inner, "n": "${n}"}}
    add["batch"] = items
    first = {"id": "first", "type": "mcp-demo-add", "params": {"a": 0, "b": 1}}
    workflow = bench.folder / f"batch-{count}{'-through' if through else ''}.json"
    workflow.write_text(json.dumps({"nodes": [first, {"id": "all", **add}]}), encoding="utf-8")
    return str(workflow)


def _batch_memory(bench: Bench, workflow: str) -> float:
    command = [sys.executable, str(_HERE / "own_memory.py"), "run", workflow, "--json"]
    return float(run(command, bench.env, bench.folder).stderr)


def _batch_seconds(bench: Bench, command: Sequence[str]) -> float:
    envelope = json.loads(run(command, bench.env, bench.folder).stdout)
    trace = json.loads(Path(envelope["trace_path"]).read_text(encoding="utf-8"))
    return float(trace["steps"][-1]["milliseconds"]) / 1000


def _calls(bench: Bench, *, calls: int, in_flight: int) -> Comparison:
    command = [sys.executable, str(_HERE / "warm_calls.py"), str(bench.pairs), str(calls), str(in_flight)]
    times = json.loads(run(command, bench.env, bench.folder).stdout)
    return Comparison(ours=tuple(times["ours"]), theirs=tuple(times["theirs"]))


def _ratio(name: str, found: Comparison, limit: float) -> Line:
    return Line(
        name=name,
        measured=f"{found.ratio:.2f} ×",
        limit=f"≤ {limit:.2f} ×",
        kept=found.ratio <= limit,
        details=attrs.asdict(found),
    )


def sync(bench: Bench) -> Iterator[Line]:
    """Compare a sync of eight servers that each take a second to start with a sync of one."""
    one, eight = (Bench(folder=bench.folder / name, pairs=bench.pairs) for name in ("one", "eight"))
    slow = [sys.executable, str(_HERE / "plain_server.py"), "1"]
    for home, count in ((one, 1), (eight, 8)):
        home.folder.mkdir()
        for number in range(count):
            run(home.pflow("mcp", "add", f"slow-{number}", "--", *slow), home.env, bench.folder)
    found = in_turn(
        lambda: run(eight.pflow("mcp", "sync"), eight.env, bench.folder).seconds,
        lambda: run(one.pflow("mcp", "sync"), one.env, bench.folder).seconds,
        bench.pairs,
    )
    yield _ratio("sync of 8 servers that take 1 s to start / of one", found, 1.5)


def served_calls(bench: Bench) -> Iterator[Line]:
    """Compare calls of tools that pflow serves with those of a bare SDK server's that answers as much."""
    run(bench.pflow("settings", "set", "region", "north"), bench.env, bench.folder)
    found = _served(bench, "settings_get", {"key": "region"})
    yield _ratio("`settings_get` served by pflow / a tool of a bare SDK server", found, 1.25)
    echo = _served(bench, "registry_run", {"node_type": "echo", "parameters": {"message": "hello"}})
    measured = f"{echo.ratio:.2f} ×, {median(echo.ours) / _SERVED_CALLS * 1000:.1f} ms"
    name = "`registry_run` of `echo`, with its trace / the same"
    yield Line(name=name, measured=measured, limit="none", kept=True, details=attrs.asdict(echo))


def _served(bench: Bench, tool: str, arguments: dict[str, object]) -> Comparison:
    command = [sys.executable, str(_HERE / "served_calls.py"), str(bench.pairs), str(_SERVED_CALLS)]
    call = [tool, json.dumps(arguments), *bench.pflow("mcp", "serve")]
    times = json.loads(run([*command, *call], bench.env, bench.folder).stdout)
    return Comparison(ours=tuple(times["ours"]), theirs=tuple(times["theirs"]))


def serve_start(bench: Bench) -> Iterator[Line]:
    """Compare the time from the start of a server to its first answered `tools/list`."""
    served = bench.pflow("mcp", "serve")
    bare = [sys.executable, str(_HERE / "bare_server.py")]
    _first_list(bench, served)
    _first_list(bench, bare)
    found = in_turn(lambda: _first_list(bench, served), lambda: _first_list(bench, bare), bench.pairs)
    yield _ratio("start of `pflow mcp serve` to its list of tools / bare SDK server with 13", found, 1.10)


def _first_list(bench: Bench, server: Sequence[str]) -> float:
    command = [sys.executable, str(_HERE / "first_list.py"), *server]
    return float(run(command, bench.env, bench.folder).stdout)


def long_line(bench: Bench) -> Iterator[Line]:
    """Compare a result of 100 MB in one line with one of 10 MB, each read in its own process; then use it."""
    peaks: list[float] = []

    def read(megabytes: int) -> float:
        command = [sys.executable, str(_HERE / "long_line.py"), str(megabytes)]
        found = json.loads(run(command, bench.env, bench.folder).stdout)
        peaks.append(found["peak_mb"] / megabytes)
        return float(found["seconds"])

    times = in_turn(lambda: read(100), lambda: read(10), bench.pairs)
    yield _ratio("100 MB result line / 10 MB one", times, 12)
    memory = max(peaks)
    yield Line(name="its memory / its size", measured=f"{memory:.1f} ×", limit="≤ 6 ×", kept=memory <= 6)
    yield _long_text(bench, 100)


def _long_text(bench: Bench, megabytes: int) -> Line:
    """Measure the memory of pflow in a run of three nodes over one text, which its trace names in a file."""
    bench.add("plain", [sys.executable, str(_HERE / "plain_server.py"), "0"])
    bench.add("demo", [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"])
    nodes = [
        {"id": "text", "type": "mcp-plain-text", "params": {"length": megabytes * 1_000_000}},
        {"id": "pass", "type": "echo", "params": {"message": "${text.result}"}},
        {"id": "count", "type": "mcp-demo-word-count", "params": {"text": "${pass.message}"}},
    ]
    workflow = bench.folder / "long-text.json"
    outputs = {"characters": "${count.characters}"}
    workflow.write_text(json.dumps({"nodes": nodes, "outputs": outputs}), encoding="utf-8")
    command = [sys.executable, str(_HERE / "own_memory.py"), "run", str(workflow)]
    done = run(command, bench.env, bench.folder)
    memory = float(done.stderr) / megabytes
    return Line(
        name=f"memory of a run of three nodes over one text of {megabytes} MB / its size",
        measured=f"{memory:.1f} ×",
        limit="≤ 6 ×",
        kept=memory <= 6 and int(done.stdout) == megabytes * 1_000_000,
    )


def many_rows(bench: Bench) -> Iterator[Line]:
    """Compare three steps over a large table with the bare SDK's three calls."""
    program = [sys.executable, str(_HERE / "many_rows.py")]
    bench.add("rows", program)
    counted = {"type": "mcp-rows-count", "params": {"rows": "${table.rows}"}}
    nodes = [{"id": "table", "type": "mcp-rows-table", "params": {"rows": _ROWS}}]
    nodes += [{"id": name, **counted} for name in ("first", "second")]
    workflow = bench.folder / "rows.json"
    content = {"nodes": nodes, "outputs": {"count": "${second.count}"}}
    workflow.write_text(json.dumps(content), encoding="utf-8")
    ours = bench.pflow("run", str(workflow))
    name = f"three steps over a table of {_ROWS:,} rows / bare SDK script"
    yield bench.against(name, 1.30, ours, [*program, str(_ROWS)])


def trust(bench: Bench) -> Iterator[Line]:
    """Measure what the checks of approvals and pins cost a run of ten nodes of a pinned server, and listings.

    They are measured inside the process, as they take less time than two runs differ by.
    """
    bench.add("pinned", [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"])
    nodes = [{"id": f"n{at}", "type": "mcp-pinned-add", "params": {"a": at, "b": 1}} for at in range(_STEPS)]
    workflow = bench.folder / "pinned.json"
    workflow.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
    yield _approvals(bench, f"a run of {_STEPS} steps", 20, _STEPS, "run", str(workflow))
    yield _approvals(bench, "`pflow mcp list`", 2, 0, "mcp", "list")
    yield _approvals(bench, "`pflow registry list`", 2, 0, "registry", "list")


def _approvals(bench: Bench, what: str, limit: int, least: int, *words: str) -> Line:
    """Measure the checks in a new process several times.

    Args:
        bench: The servers, and how often to measure.
        what: What the line is about.
        limit: Limit of their time in milliseconds.
        least: The fewest calls of a check that are credible: with fewer, they were not measured.
        words: The arguments of pflow.
    """
    command = [sys.executable, "-P", str(_HERE / "approval_cost.py"), *words]
    run(command, bench.env, bench.folder)  # compiles the modules
    outputs = (run(command, bench.env, bench.folder).stderr for _ in range(bench.pairs))
    found = [json.loads(text.splitlines()[-1]) for text in outputs]
    milliseconds = median(each["ms"] for each in found)
    calls = min(each["calls"] for each in found)
    return Line(
        name=f"what checks of approvals and pins cost {what}",
        measured=f"{milliseconds:.1f} ms in {calls} calls",
        limit=f"≤ {limit} ms",
        kept=milliseconds <= limit and calls >= least,
        details=found,
    )


def records(bench: Bench) -> Iterator[Line]:
    """Compare the processor time of runs with that of the same runs without a record."""
    bench.add("recorded", [sys.executable, "-m", "pflow_mcp_plugin.server.demo_server"])
    add = {"type": "mcp-recorded-add", "params": {"a": 1, "b": 2}}
    steps = {"nodes": [{**add, "id": f"n{at}"} for at in range(_STEPS)]}
    items = {"items": list(range(_RECORDED_CALLS)), "parallel": True, "max_concurrent": 32}
    count = {"outputs": {"done": "${all.succeeded}"}}
    calls = {"nodes": [{**add, "id": "all", "batch": items}], **count}
    yield _recorded(bench, f"a cold run of {_STEPS} steps", 1.04, steps)
    yield _recorded(bench, f"{_RECORDED_CALLS:,} calls, 32 at a time", 1.08, calls)


def _recorded(bench: Bench, what: str, limit: float, workflow: JSONObject) -> Line:
    path = bench.folder / "recorded.json"
    path.write_text(json.dumps(workflow), encoding="utf-8")
    program = [sys.executable, "-P", str(_HERE / "record_cost.py")]
    ours, theirs = ([*program, record, "run", str(path)] for record in ("with", "without"))

    def processor(command: Sequence[str]) -> float:
        return run(command, bench.env, bench.folder).processor

    for command in (ours, theirs):
        processor(command)  # compiles the modules
    found = in_turn(lambda: processor(ours), lambda: processor(theirs), bench.pairs)
    return _ratio(f"processor time of {what}, with a record / without", found, limit)


def validation(bench: Bench) -> Iterator[Line]:
    """Compare the validation of a chain of 2,000 nodes with one of 1,000."""
    many, few = (bench.pflow("validate", _chain(bench, count)) for count in (2000, 1000))
    yield bench.against("`pflow validate` of 2,000 nodes / of 1,000", 2.5, many, few)


def _chain(bench: Bench, count: int) -> str:
    messages = ["x", *(f"${{n{number}.message}}" for number in range(count - 1))]
    nodes = [{"id": f"n{at}", "type": "echo", "params": {"message": it}} for at, it in enumerate(messages)]
    workflow = bench.folder / f"chain-{count}.json"
    workflow.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
    return str(workflow)


def large_registry(bench: Bench) -> Iterator[Line]:
    """Compare a lookup and a search among 10,000 tools with a start without tools."""
    none = _home(bench, "none")
    for name, servers in (("20 servers", 20), ("one server", 1)):
        many = _home(bench, f"many-{servers}")
        for number in range(servers):
            many.add_large(f"large-{number}", 10_000 // servers)
        node = ("registry", "describe", "mcp-large-0-tool-250")
        among = f"among 10,000 tools of {name}"
        yield _beyond(f"one lookup {among}", 4, many, none, node, ("registry", "describe", "echo"))
        words = ("registry", "search", "department 250")
        yield _beyond(f"a search {among}", 8, many, none, words, words)
        if servers > 1:
            yield _first_search(f"the first search after a sync {among}", many, words)


def _home(bench: Bench, name: str) -> Bench:
    home = Bench(folder=bench.folder / name, pairs=bench.pairs)
    home.folder.mkdir()
    run(home.pflow("registry", "search", "department"), home.env, bench.folder)  # builds the index
    return home


def _first_search(name: str, many: Bench, words: Sequence[str]) -> Line:
    def after_a_sync() -> float:
        run(many.pflow("mcp", "sync", "large-0"), many.env, many.folder)
        return run(many.pflow(*words), many.env, many.folder).seconds

    return _extra(f"{name}, beyond a later one", 1, many, after_a_sync, many.pflow(*words))


def _beyond(
    name: str, limit: int, many: Bench, none: Bench, ours: Sequence[str], theirs: Sequence[str]
) -> Line:
    def among_many() -> float:
        return run(many.pflow(*ours), many.env, many.folder).seconds

    return _extra(f"{name}, beyond a start with none", limit, none, among_many, none.pflow(*theirs))


def _extra(name: str, limit: int, bench: Bench, ours: Callable[[], float], theirs: Sequence[str]) -> Line:
    """Compare the extra time of one command over another with a Python that does nothing."""
    starts: list[float] = []

    def start_and_theirs() -> float:
        starts.append(run([sys.executable, "-c", "pass"], bench.env, bench.folder).seconds)
        return run(theirs, bench.env, bench.folder).seconds

    found = in_turn(ours, start_and_theirs, bench.pairs)
    ratio = found.difference / median(starts)
    return Line(
        name=f"{name} / `python -c pass`",
        measured=f"{ratio:.1f} ×",
        limit=f"≤ {limit} ×",
        kept=ratio <= limit,
        details={**attrs.asdict(found), "starts": starts},
    )


def completion(bench: Bench) -> Iterator[Line]:
    """Compare completions, with 10,000 tools, with a Python that does nothing."""
    nothing = [sys.executable, "-c", "pass"]
    bench.folder.joinpath("home").mkdir(exist_ok=True)
    for number in range(20):
        bench.add_large(f"large-{number}", 500)
    asked = {
        "a command": ["reg"],
        "node types by server": ["mcp-"],
        "a node type": ["mcp-large-0-tool-25"],
        "a flag of a node": ["mcp-large-0-tool-250", "--"],
        "a tool": ["mcp", "call", "large-0", "tool_25"],
        "a flag of a tool": ["mcp", "call", "large-0", "tool_250", "--"],
        "a server": ["mcp", "sync", "large-"],
    }
    run(bench.pflow("registry", "list"), bench.env, bench.folder)  # builds the index
    for what, words in asked.items():
        command = bench.pflow("__complete", "zsh", *words)
        assert run(command, bench.env, bench.folder).stdout
        yield bench.against(
            f"completion of {what} among 10,000 tools / `python -c pass`", 12, command, nothing
        )


def installed(bench: Bench) -> Iterator[Line]:
    """Install the package into a new environment and measure its size."""
    python = bench.folder / "venv" / "bin" / "python"
    run([sys.executable, "-m", "venv", str(bench.folder / "venv")], {}, bench.folder)
    run([str(python), "-m", "pip", "install", "--quiet", str(_HERE.parent)], {}, bench.folder)
    weight = json.loads(run([str(python), str(_HERE / "installed_size.py")], {}, bench.folder).stdout)
    kept = weight["mb"] <= 90 and weight["packages"] <= 45
    measured = f"{weight['mb']} MB, {weight['packages']} packages"
    yield Line(
        name="installed size", measured=measured, limit="≤ 90 MB, ≤ 45 packages", kept=kept, details=weight
    )


LINES = {
    "listings": listings,
    "cold-run-demo": cold_run_demo,
    "cold-run-time": cold_run_time,
    "warm-call": warm_call,
    "parallel-calls": parallel_calls,
    "batch": batch,
    "batch-workflow": batch_workflow,
    "sync": sync,
    "served-call": served_calls,
    "serve-start": serve_start,
    "long-line": long_line,
    "many-rows": many_rows,
    "trust": trust,
    "records": records,
    "validation": validation,
    "large-registry": large_registry,
    "completion": completion,
    "installed": installed,
}
"""The values of `--only`."""
