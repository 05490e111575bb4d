import threading

from pflow_mcp_plugin.contract import THE_USER, Progress, RunControl, RunOrigin


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


def test_progress_reaches_who_asked_for_it():
    seen: list[Progress] = []
    RunControl(seen.append).report(Progress(done=1, total=2))
    RunControl().report(Progress(done=1))
    assert [(progress.done, progress.total) for progress in seen] == [(1, 2)]


def test_the_secrets_of_a_run_are_collected():
    control = RunControl()
    control.add_secrets(["a", "b"])
    control.add_secrets(iter(["b", "c"]))
    assert control.secrets == {"a", "b", "c"}
    assert RunControl().secrets == frozenset()


def test_the_user_has_no_name_and_nothing_above():
    assert RunOrigin() == THE_USER
    assert (THE_USER.owner, THE_USER.above, THE_USER.trace_parent) == ("", (), "")
    assert RunOrigin(above=["a"]).above == ("a",)
