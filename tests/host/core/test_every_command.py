from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.discovery.servers import catalog, server_store
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.host.cli.command_parameters import seconds, time_limit
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.types import ServerInfo, Tool

NAMED = {
    "CLIENT": "cursor",
    "FOLDER": "x",
    "KEY": "API_TOKEN",
    "NODE": "mcp-demo-add",
    "PRESET": "filesystem",
    "RUN": "latest",
    "SERVER": "demo",
    "WORKFLOW": "daily",
}
"""By what a parameter is called in the help: a name that there is, and that its completion offers."""
WITHOUT_OWN_NAME = {
    ("mcp", "NAME"): "SERVER",
    ("workflow", "NAME"): "WORKFLOW",
    ("mcp", "NAME_OR_FILE"): "WORKFLOW",
}
"""By the group and what the parameter is called there: what it names."""
OF_NEW_THINGS = {"mcp new-preset", "mcp serve"}
"""Commands that are given a name which nothing has yet."""
BOUNDS = {
    "grace": ("-1 inf", "0"),
    "keep": ("-1", "0"),
    "limit": ("0", "1"),
    "max_calls": ("-1", "0"),
    "max_request_size": ("1023", "1024"),
    "max_requests": ("0", "1"),
    "max_rounds": ("0 11", "1 10"),
    "max_writes": ("-1", "0"),
    "request_timeout": ("0 inf nan", "0.001"),
    "startup_timeout": ("0 86400.1 inf nan", "0.001 86400"),
    "version": ("0", "1"),
}
"""By the name of an option that takes a number: those at its limits that make no sense, and those that do."""


@contextmanager
def host_at(home):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PFLOW_HOME", str(home))
        with open_host() as host:
            yield host


def parameters():
    with TemporaryDirectory() as home, host_at(Path(home)) as host:
        announced = [it for some in host.hook.pflow_register_commands(host=host) for it in some]
    for each in announced:
        module, _, name = each.load.partition(":")
        command = getattr(import_module(module), name)
        for parameter in getattr(command, "params", ()):
            yield " ".join(each.path), command, parameter


PARAMETERS = list(parameters())


def _called(command, parameter):
    """Return what a parameter is called in the help: `SERVER` for `[SERVER]...`."""
    return parameter.make_metavar(click.Context(command)).strip("[].").partition("|")[0].strip()


def _named(words, command, parameter):
    called = _called(command, parameter)
    group = words.partition(" ")[0]
    is_new = words in OF_NEW_THINGS
    return NAMED.get(called if is_new else WITHOUT_OWN_NAME.get((group, called), called))


NAMING = [
    pytest.param(command, parameter, named, id=f"{words} {parameter.name}")
    for words, command, parameter in PARAMETERS
    if (named := _named(words, command, parameter))
]
RANGED = [
    pytest.param(command, parameter, id=f"{words} {parameter.name}")
    for words, command, parameter in PARAMETERS
    if isinstance(parameter.type, click.IntRange | click.FloatRange) or parameter.name in BOUNDS
]
TIMES = [
    pytest.param(command, parameter, id=f"{words} {parameter.name}")
    for words, command, parameter in PARAMETERS
    if parameter.callback in (seconds, time_limit)
]


@pytest.fixture(scope="module")
def host(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    config = home / "config" / "mcp-servers.toml"
    config.parent.mkdir()
    config.write_text('[mcpServers.demo]\ncommand = "python"\n')
    with host_at(home) as host:
        workflow = flow(step("a", "echo", {"message": "x"}))
        host.library.save("daily", workflow)
        host.settings.set("API_TOKEN", "x")
        host.runner.run(workflow, {}, name="daily")
        listing = Listing(info=ServerInfo(name="demo"), tools=(Tool(name="add"),))
        catalog(host).save("demo", listing, server_store(host).fingerprint("demo"))
        host.refresh("mcp")
        yield host


@pytest.mark.parametrize(("command", "parameter", "named"), NAMING)
def test_whatever_names_something_is_completed(host, command, parameter, named):
    context = click.Context(command, obj=host, resilient_parsing=True)
    offered = parameter.shell_complete(context, "x" if named == "x" else named[:2])
    assert named in [it.value for it in offered]


@pytest.mark.parametrize(("command", "parameter"), RANGED)
def test_an_option_refuses_a_number_that_makes_no_sense_and_takes_one_that_does(command, parameter):
    context = click.Context(command)
    refused, taken = map(str.split, BOUNDS[parameter.name])
    assert [parameter.type_cast_value(context, number) for number in taken] == list(map(float, taken))
    for number in refused:
        with pytest.raises(click.BadParameter):
            parameter.type_cast_value(context, number)


@pytest.mark.parametrize(("command", "parameter"), TIMES)
def test_a_time_has_a_unit_and_is_at_most_a_year(command, parameter):
    context = click.Context(command)
    taken = {"0.5": 0.5, "90": 90, "90s": 90, "15m": 900, "1.5h": 5_400, "365d": 31_536_000}
    assert {word: parameter.process_value(context, word) for word in taken} == taken
    of_nothing = ["0", "0s"] if parameter.callback is time_limit else []
    for word in ["", "-1", "nan", "inf", "1e3", "5x", "5 s", "365.1d", "31536001", *of_nothing]:
        with pytest.raises(click.BadParameter):
            parameter.process_value(context, word)


def test_every_option_says_what_it_is_for_and_has_the_default_that_its_help_shows():
    options = [it for _, _, it in PARAMETERS if isinstance(it, click.Option)]
    assert len(options) > 100
    assert [it.opts for it in options if not it.hidden and not (it.help or "").endswith(".")] == []
    shown = [(it.opts, it.default) for it in options if it.show_default]
    assert len(shown) > 5
    assert [words for words, default in shown if not isinstance(default, str | int | float)] == []
