import threading
from contextlib import nullcontext

import pytest

from pflow_mcp_plugin.contract import PflowError, RunControl, RunOptions


def test_what_is_registered_is_stopped_once_and_what_comes_later_at_once():
    control, stopped = RunControl(), []
    control.on_cancel(lambda: stopped.append("a"))
    assert (control.cancelled, stopped) == (False, [])
    control.cancel()
    control.cancel()
    control.on_cancel(lambda: stopped.append("b"))
    assert (control.cancelled, stopped) == (True, ["a", "b"])


def test_who_waits_learns_of_the_cancellation():
    control = RunControl()
    assert not control.wait(0)
    threading.Timer(0.01, control.cancel).start()
    assert control.wait(30)


def test_the_secrets_of_a_run_are_collected():
    control = RunControl()
    control.add_secrets(["a", "b"])
    control.add_secrets(iter(["b", "c"]))
    assert control.secrets == {"a", "b", "c"}
    assert RunControl().secrets == frozenset()


@pytest.mark.parametrize(
    ("cache", "no_cache", "accepted"), [(60, True, False), (60, False, True), (None, True, True)]
)
def test_results_are_reused_or_not(cache, no_cache, accepted):
    with nullcontext() if accepted else pytest.raises(PflowError, match="exclude each other"):
        RunOptions(cache=cache, no_cache=no_cache)
