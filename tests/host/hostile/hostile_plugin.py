"""A plugin that does at one place what the variable HOSTILE says: `place how`.

Copied into a distribution by the tests, which run it in many processes.
"""

import asyncio
import os
import sys
from contextlib import contextmanager

import click

from pflow_mcp_plugin.contract import (
    Command,
    Entry,
    Interface,
    NodeSource,
    PflowError,
    Problem,
    Report,
    hookimpl,
)

PLACE, _, HOW = os.environ.get("HOSTILE", "").partition(" ")


class Own(BaseException):
    """Derives from what nobody is expected to catch."""


class Speechless(Exception):
    """Cannot be formatted."""

    def __str__(self):
        raise RuntimeError("no words")


class Unpresentable(Exception):
    """Cannot be represented."""

    def __repr__(self):
        raise RuntimeError("no words")


class Withheld(PflowError):
    """A failure for the user that cannot be read."""

    def __str__(self):
        raise SystemExit(9)

    def to_dict(self):
        raise Own("no fields")


class Exiting:
    """A value that ends the program when it is read."""

    def __str__(self):
        raise SystemExit(5)

    __repr__ = __str__


class Endless(dict):
    """An object that cannot be read."""

    def items(self):
        raise Own("no items")

    __iter__ = keys = values = items


def deep(count=0):
    return deep(count + 1)


RAISED = {
    "CancelledError": asyncio.CancelledError,
    "GeneratorExit": GeneratorExit,
    "BaseExceptionGroup": lambda: BaseExceptionGroup("several", [Own("one"), SystemExit(4)]),
    "ExceptionGroup": lambda: ExceptionGroup("several", [ValueError("one")]),
    "SystemExit(7)": lambda: SystemExit(7),
    "SystemExit(0)": lambda: SystemExit(0),
    "SystemExit(text)": lambda: SystemExit("enough"),
    "SystemExit(Exiting)": lambda: SystemExit(Exiting()),
    "Own": lambda: Own("mine"),
    "Speechless": Speechless,
    "Unpresentable": lambda: Unpresentable("words"),
    "Withheld": lambda: Withheld("withheld"),
    "Details": lambda: PflowError("hostile-details", details={"value": Exiting(), "more": Endless(a=1)}),
    "StopIteration": lambda: StopIteration(3),
    "StopAsyncIteration": StopAsyncIteration,
    "EOFError": EOFError,
    "BrokenPipeError": lambda: BrokenPipeError(32, "Broken pipe"),
    "MemoryError": MemoryError,
    "KeyboardInterrupt": KeyboardInterrupt,
    "KeyboardInterruptGroup": lambda: BaseExceptionGroup("several", [Own(), KeyboardInterrupt()]),
}
VALUES = {
    "exiting": Exiting,
    "endless": lambda: {"deep": [Endless(a=1)]},
    "raising-key": lambda: {Exiting(): 1},
}


done = []


def at(place):
    """Do what is asked for at this place, if this is the place; raise each time, anything else once."""
    if place != PLACE or (done and HOW not in RAISED):
        return
    done.append(place)
    if HOW in RAISED:
        exception = RAISED[HOW]()
        raise exception
    if HOW == "RecursionError":
        deep()
    elif HOW == "sys.stdout.close()":
        sys.stdout.close()
    elif HOW == "os.close(1)":
        os.close(1)
    elif HOW == "sys.stderr.close()":
        sys.stderr.close()
    elif HOW == "sys.stdout = None":
        sys.stdout = None
    elif HOW == "print":
        print("printed by the hostile plugin")
        os.write(1, b"written to the descriptor by the hostile plugin\n")


at("import")


@hookimpl
def pflow_addhooks(manager):
    at("addhooks")


@hookimpl
def pflow_configure(host):
    at("configure")


@hookimpl
def pflow_unconfigure(host):
    at("unconfigure")


@hookimpl
def pflow_register_nodes(host):
    at("register_nodes")
    yield Source()
    at("register_nodes_late")


@hookimpl
def pflow_inject_params(node):
    at("inject_params")
    return {"__volume__": Exiting()} if PLACE == "injected" else None


@hookimpl
def pflow_register_commands(host):
    at("register_commands")
    yield Command(path=("hostile", "do"), help="Do it.", load=f"{__name__}:do")
    yield Command(path=("hostile", "parse"), help="Do it.", load=f"{__name__}:Parsing")
    if PLACE == "invalid_command":
        yield Exiting()


@hookimpl
def pflow_validate_config(host):
    at("validate_config")
    return [5] if PLACE == "invalid_problem" else [Problem(message="soft", severity="warning")]


@hookimpl
def pflow_check_lock(check):
    at("check_lock")
    yield Problem(message="soft", severity="warning")
    at("check_lock_late")


@hookimpl
def pflow_run_context(run):
    at("run_context")
    if PLACE == "invalid_context":
        return 5
    return Context() if PLACE.startswith("context_of_class") else context()


@contextmanager
def context():
    at("context_enter")
    yield
    at("context_exit")


class Context:
    """A context manager that is no generator."""

    def __enter__(self):
        at("context_of_class_enter")

    def __exit__(self, *error):
        at("context_of_class_exit")


class Source(NodeSource):
    """Two node types."""

    name = "hostile"

    @property
    def prefixes(self):
        at("source_prefixes")
        return ("hostile-",)

    @property
    def files(self):
        at("source_files")
        return {}

    def fingerprint(self):
        at("source_fingerprint")
        return f"{HOW} {os.getpid()}"  # the index is built anew in each process

    def get(self, node_type):
        at("source_get")
        return next((entry for entry in self._all() if entry.node == node_type), None)

    def entries(self):
        yield from self._all()
        at("source_entries")

    def sketches(self):
        at("source_sketches")
        yield from super().sketches()

    def missing(self, node_type):
        at("source_missing")
        return 5 if PLACE == "invalid_missing" else None

    def unmet(self, uses):
        at("source_unmet")
        return ()

    def check_use(self, use):
        at("source_check_use")
        return ()

    def upgrade(self, node):
        at("source_upgrade")
        return 5 if PLACE == "invalid_upgrade" else None

    def _all(self):
        anything = Interface(open=True, open_outputs=True)
        for node, name in (("hostile-node", "Hostile"), ("hostile-async", "HostileAsync")):
            extra = {"own": Exiting()} if PLACE == "entry_extra" else {}
            yield Entry(node=node, class_name=name, module="hostile_nodes", interface=anything, extra=extra)


@click.command()
@click.option("--json", is_flag=True, expose_value=False)
@click.pass_context
def do(ctx):
    """Do it."""
    at("command")
    if PLACE == "command_returns":
        return {"3": 3, "0": 0, "True": True, "object": Exiting(), "exit(7)": 7}[HOW]
    if PLACE == "command_exits":
        ctx.exit(int(HOW))
    if PLACE == "report_data":
        return Report(data={"fine": 1, "rows": [VALUES[HOW]()]}, text="fine")
    if PLACE == "report_beside":
        return Report(data=1, text="fine", beside={"more": VALUES[HOW]()})
    if PLACE == "report_error":
        return Report(error=PflowError("it failed", details={"rows": VALUES[HOW]()}, problems=(5,)))
    return Report(data={"done": True}, text=lambda: at("report_text") or (5 if HOW == "number" else "done"))


class Parsing:
    """A command that parses with argparse."""

    @staticmethod
    def main(args, prog_name, **extra):
        import argparse

        at("parsing")
        parser = argparse.ArgumentParser(prog_name)
        parser.add_argument("--json", action="store_true")
        parser.parse_args(args)
        return Report(data=1, text="parsed")
