"""Ctrl-C as programs take it: not in the middle of an import, and never lost."""

import signal
import sys
import time
from contextlib import suppress

import pytest

from pflow_mcp_plugin.host.ctrl_c import CtrlC
from pflow_mcp_plugin.host.foreign_code import interrupts_kept


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
