"""Ctrl-C at any moment, also one at which Python itself turns it into another exception."""

import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress

import pocketflow
import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host.ctrl_c import CtrlC
from pflow_mcp_plugin.host.foreign_code import end_if_interrupted, foreign_code, interrupts_kept

WAITS = (threading.Condition.wait.__code__, Threads.submit.__code__)


@contextmanager
def ctrl_c_at(moment):
    """Raise KeyboardInterrupt at the line of that number among those that start a thread and wait for it."""
    before = sys.gettrace()
    lines = 0

    def trace(frame, event, _argument):
        nonlocal lines
        if event == "line" and frame.f_code in WAITS:
            lines += 1
            if lines == moment:
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def wrapped():
    """Raise what came of Ctrl-C."""
    try:
        signal.default_int_handler(signal.SIGINT, None)
    except BaseException as error:
        raise ValueError("stopped while it waited") from error


def test_ctrl_c_at_any_line_that_starts_a_thread_is_an_interruption(bench):
    bench.node("t-quick", ["n: int!"])(pocketflow.Node)
    node = step("b", "t-quick", {"n": "${item}"})
    workflow = flow(node | {"batch": {"items": [1, 2], "parallel": True}})
    ends = []
    for moment in range(1, 1_000):
        with ctrl_c_at(moment):
            outcome = bench.host.runner.run(workflow, {}, trace=False)
        if outcome.success:
            break
        ends.append(outcome.error.kind)
    assert outcome.success
    assert len(ends) > 10
    assert set(ends) == {"interrupted"}


@pytest.mark.parametrize("error_edge", [False, True])
def test_a_node_that_wraps_it_has_not_failed(bench, error_edge):
    ran = []
    bench.acts("t-wraps")(lambda shared, params: wrapped())
    bench.acts("t-after")(lambda shared, params: ran.append(True))
    nodes = [step("a", "t-wraps", retry={"max": 3}), step("z", "t-after")]
    outcome = bench.run(flow(*nodes, edges=[edge("a", "z", "error" if error_edge else "")]))
    assert outcome.error.message == "The run was interrupted at node a"
    assert outcome.exit_code == 130
    assert not ran


def test_a_chain_of_exceptions_that_leads_back_to_itself_ends():
    first, second = ValueError(), ValueError()
    first.__cause__, second.__context__ = second, first
    end_if_interrupted(first)


@pytest.mark.parametrize("block", [interrupts_kept(), foreign_code(lambda error: error)])
def test_a_block_that_ctrl_c_kept_from_being_left_ends_in_silence(monkeypatch, block):
    block.__enter__()
    monkeypatch.setattr("pflow_mcp_plugin.host.ctrl_c.interrupted", lambda: True)
    block.gen.close()


@pytest.fixture
def ctrl_c():
    """Ctrl-C is taken as programs take it, until the test ends."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    taken = CtrlC()
    taken.take()
    yield taken
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def module(tmp_path, monkeypatch):
    def write(name, text):
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
        return name

    monkeypatch.syspath_prepend(tmp_path)
    yield write
    for name in [name for name in sys.modules if name.startswith("t_imported_")]:
        del sys.modules[name]


def test_an_import_is_finished_before_it_comes_out(ctrl_c, module):
    name = module("t_imported_whole", "import signal; signal.raise_signal(signal.SIGINT); done = True")
    with pytest.raises(KeyboardInterrupt):
        imported_and_waited(name)
    assert sys.modules[name].done


def test_an_import_that_takes_long_is_broken_off(ctrl_c, module):
    text = "import signal, time; signal.raise_signal(signal.SIGINT); time.sleep(20)"
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        imported_and_waited(module("t_imported_slowly", text))
    assert 0.9 < time.monotonic() - begun < 10


def imported_and_waited(name):
    __import__(name)
    time.sleep(20)


def test_elsewhere_it_comes_out_at_once(ctrl_c):
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_error_that_took_its_place_without_a_trace_of_it_is_an_interruption(ctrl_c):
    with suppress(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_kept():
        raise TypeError("as C code would have it")


def test_a_program_that_ignores_it_goes_on_doing_so(python):
    code = """
import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)
from pflow_mcp_plugin.host.ctrl_c import CtrlC; CtrlC().take()
signal.raise_signal(signal.SIGINT); print('went on')"""
    assert python("-c", code).stdout == "went on\n"
