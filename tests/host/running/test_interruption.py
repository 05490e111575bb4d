"""Ctrl-C at any moment, also one at which Python itself turns it into another exception."""

import signal
import sys
import threading
from contextlib import contextmanager

import pocketflow
import pytest
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.daemon_threads import Threads
from pflow_mcp_plugin.host import ctrl_c
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
    monkeypatch.setattr(ctrl_c, "interrupted", lambda: True)
    block.gen.close()
