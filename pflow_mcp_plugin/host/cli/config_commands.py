"""`pflow settings`, `pflow config`, `pflow plugins` and `pflow cache`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from pflow_mcp_plugin.contract import PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.problems import advice, fault, problem_of
from pflow_mcp_plugin.host.cli.command_line import PROGRAM, build_cli, leaves
from pflow_mcp_plugin.host.cli.command_parameters import seconds, setting_names
from pflow_mcp_plugin.host.cli.output import findings_report, table_report
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.flow_policy import POLICY_FILE, RESERVED, matches, read_policy
from pflow_mcp_plugin.host.plugins import entry_points, is_own_script, own_distribution
from pflow_mcp_plugin.host.registry.node_sources import SavedEntries, asked
from pflow_mcp_plugin.host.standard_streams import input_text
from pflow_mcp_plugin.secret_detection import mask
from pflow_mcp_plugin.terminal.human_units import age_text, count_text
from pflow_mcp_plugin.terminal.looks import Column
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.result_cache import ResultCache, Usage

_COLUMNS = (Column(title="KEY", whole=True), Column(title="VALUE"), Column(title="PLACE"))


@click.command()
@click.argument("key", shell_complete=setting_names)
@click.argument("value", required=False)
@click.option("--keyring", is_flag=True, help="Store the value in the keyring of the operating system.")
@click.option("--plain", is_flag=True, help="The value is not a secret: show it, to agents too.")
@click.option(
    "--from-command",
    metavar="COMMAND",
    help="Save the command that prints the value, as in --from-command 'op read op://Private/GitHub/token'. "
    "No shell runs it. It runs once, when the value is first needed, and has 30 seconds.",
)
@click.pass_obj
def set_value(
    host: EmbeddedHost, key: str, value: str | None, *, keyring: bool, plain: bool, from_command: str | None
) -> Report:
    """Save VALUE as the setting KEY; `-` reads it from standard input, which keeps it out of shell history.

    A VALUE that begins with a hyphen is given after `--`.
    """
    if plain and (keyring or from_command is not None):
        raise click.UsageError("--plain is for a value in the settings file")
    if from_command is not None:
        from pflow_mcp_plugin.host.stored_settings import command_words

        if keyring or value is not None:
            raise click.UsageError("--from-command cannot be used with a VALUE or --keyring")
        program, *_ = words = command_words(from_command)
        host.settings.set_command(key, words)
        text = f"{key} comes from the command {program}, which runs when the value is first needed"
        return Report(data={"key": key, "place": "command", "program": program}, text=text)
    if value is None:
        if "=" in key:
            name = key.partition("=")[0]
            raise click.UsageError(f"Write the value as a word of its own: pflow settings set {name} VALUE")
        raise click.UsageError("Give a VALUE, - to read it from standard input, or --from-command")
    if value == "-":
        value = input_text().removesuffix("\n").removesuffix("\r")
        if not value:
            step = "Pipe it in: ... | pflow settings set KEY -"
            raise PflowError("Standard input is empty", suggestions=(step,), kind="usage")
    host.settings.set(key, value, keyring=keyring, plain=plain)
    place = "keyring" if keyring else "settings file"
    return Report(
        data={"key": key, "place": "keyring" if keyring else "file"}, text=f"{key} is stored in the {place}"
    )


@click.command()
@click.argument("key", shell_complete=setting_names)
@click.option("--show", is_flag=True, help="Show a secret in full.")
@click.pass_obj
def get(host: EmbeddedHost, key: str, *, show: bool) -> Report:
    """Show the value of the setting KEY; masked unless it was set with --plain, or --show is given."""
    value = host.settings.get(key)
    if value is None:
        raise _not_set(host, key, f"Set it: pflow settings set {key} VALUE")
    shown = value if show or key in host.settings.plain() else mask(value)
    return Report(data={"key": key, "value": shown, "masked": shown != value}, text=shown, is_data=True)


@click.command()
@click.pass_obj
def list_keys(host: EmbeddedHost) -> Report:
    """List the saved settings and where each value is stored; values are masked unless set with --plain."""
    plain = host.settings.plain()
    values, programs = host.settings.values(), host.settings.programs()
    data, rows = [], []
    for key, place in host.settings.names().items():
        shown = values[key] if key in plain and key in values else mask(values.get(key, "****"))
        program = {"program": programs[key]} if key in programs else {}
        data.append({"key": key, "value": shown, "place": place, **program})
        rows.append((key, shown, f"{place} ({programs[key]})" if program else place))
    return table_report(data, _COLUMNS, rows, "Nothing is set")


@click.command()
@click.argument("key", shell_complete=setting_names)
@click.pass_obj
def unset(host: EmbeddedHost, key: str) -> Report:
    """Delete the setting KEY."""
    if not host.settings.unset(key):
        raise _not_set(host, key, "See: pflow settings list")
    return Report(data={"key": key}, text=f"{key} is deleted")


def _not_set(host: EmbeddedHost, key: str, otherwise: str) -> PflowError:
    hint = did_you_mean(key, host.settings.names(), otherwise)
    return PflowError(f"{key} is not set", suggestions=(hint,), kind="not_found")


@click.command()
@click.pass_obj
def check(host: EmbeddedHost) -> Report:
    """Check the config files of pflow and its plugins, and list every problem."""
    found = host.plugins.collect("pflow_validate_config", Problem)
    problems = [problem for _, listed in found for problem in listed]
    return findings_report("The config", problems, "The config is valid")


@click.command()
@click.pass_obj
def path(host: EmbeddedHost) -> Report:
    """List the config and other files and folders that pflow uses, and what each one is for."""
    paths = host.paths
    known = {
        paths.config / "settings.json": "settings",
        paths.config / POLICY_FILE: "policy on data flows",
        paths.data / "registry.json": "saved nodes",
        paths.data / "workflows": "saved workflows",
        paths.state / "traces": "traces of runs",
        paths.state / "artifacts": "results of runs that are in files",
        paths.state / "sources.json": "node sources seen",
        paths.cache / "results": "results kept for later runs",
    }
    for origin in host.registry.sources:
        known |= asked(origin.files, host.report) or {}
    rows = [*known.items()]
    for name in ("config", "data", "state", "cache"):
        role = "derived, may be deleted" if name == "cache" else f"{name} of a plugin"
        places = sorted(getattr(paths, name).glob("*"))
        others = (it for it in places if it not in known and not it.name.startswith("."))
        rows += [(it, "lock" if it.suffix == ".lock" else role) for it in others]
    data = [{"path": str(place), "role": role, "exists": place.exists()} for place, role in rows]
    cells = [(role, "yes" if place.exists() else "no", str(place)) for place, role in rows]
    columns = (
        Column(title="ROLE"),
        Column(title="EXISTS", whole=True, spare=True),
        Column(title="PATH", whole=True),
    )
    return table_report(data, columns, cells, "")


@click.command()
@click.pass_obj
def plugins(host: EmbeddedHost) -> Report:
    """List plugins: where each comes from, what it provides, and why any were not loaded."""
    commands = list(leaves(build_cli(host)))
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for plugin in host.plugins.all:
        sources = (origin for origin in host.registry.sources if origin.plugin is plugin)
        callers = host.plugins.manager.get_hookcallers(plugin.module) if plugin.status == "loaded" else None
        row: dict[str, Any] = {
            "name": plugin.name,
            "distribution": plugin.distribution,
            "version": plugin.version,
            "own": plugin.own,
            "status": plugin.status,
            "reason": plugin.reason,
            "sources": [{"name": origin.name, "prefixes": list(origin.prefixes)} for origin in sources],
            "commands": [" ".join(leaf.announced.path) for leaf in commands if leaf.plugin is plugin],
            "hooks": sorted(caller.name for caller in callers or ()),
        }
        rows.append(row)
        origin_words = f"{plugin.distribution} {plugin.version}".strip() or "registered by hand"
        reason = f": {plugin.reason}" if plugin.reason else ""
        lines.append(f"{plugin.name}  {origin_words}  {plugin.status}{reason}")
        lines += [
            f"  nodes     {', '.join(source['prefixes'])} (source {source['name']})"
            for source in row["sources"]
        ]
        lines += [f"  {title:<9} {', '.join(row[title])}" for title in ("commands", "hooks") if row[title]]
    return Report(data=rows, text="\n".join(lines))


_MB = 1 << 20


@click.command()
@click.pass_obj
def info(host: EmbeddedHost) -> Report:
    """Show how many results are kept for `pflow run --cache`, their size, the limit and the folder."""
    cache = _cache(host)
    usage = cache.usage()
    data: dict[str, JSON] = {**_counted(usage), "limit": cache.limit, "folder": str(cache.folder)}
    lines = [
        f"Results  {usage.entries:,}",
        f"Size     {usage.size / _MB:,.1f} MB of at most {cache.limit / _MB:,.0f} MB",
        f"Oldest   {age_text(str(data['oldest'])) if data['oldest'] else 'none'}",
        f"Folder   {cache.folder}",
    ]
    return Report(data=data, text="\n".join(lines))


@click.command()
@click.option(
    "--older-than",
    callback=seconds,
    default="0",
    metavar="TIME",
    help="Only results older than this, such as 90s, 15m, 1h or 2d.",
)
@click.pass_obj
def clear(host: EmbeddedHost, older_than: float) -> Report:
    """Remove the results that are kept for `pflow run --cache`."""
    gone = _cache(host).clear(older_than)
    words = count_text(gone.entries, "result")
    return Report(data=_counted(gone), text=f"Removed {words}, {gone.size / _MB:,.1f} MB")


def _cache(host: EmbeddedHost) -> ResultCache:
    from pflow_mcp_plugin.host.running.result_cache import open_cache

    return open_cache(host.paths.cache, host.settings.get, host.report)


def _counted(usage: Usage) -> dict[str, JSON]:
    oldest = None
    if usage.oldest is not None:
        oldest = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(usage.oldest))
    return {"entries": usage.entries, "size": usage.size, "oldest": oldest}


def check_own_config(host: EmbeddedHost) -> list[Problem]:
    """Return what `pflow config check` finds in the host: settings, saved registry, installed scripts."""
    from pflow_mcp_plugin.host.retention import check_retention
    from pflow_mcp_plugin.host.run_limits import check_limits
    from pflow_mcp_plugin.host.stored_settings import StoredSettings

    paths = host.paths
    found = StoredSettings(paths.config / "settings.json").check()
    saved = SavedEntries(paths.data / "registry.json", found.append)
    try:
        list(saved.entries())
    except PflowError as error:
        found.append(fault("", error.message, source=str(saved.store.path)))
    known = [row.node for row in host.registry.rows("")]
    tables = (*check_retention(paths.config, host.settings.get), *check_limits(paths.config, known))
    return [*found, *_policy_mistakes(host, known), *tables, *_script_clashes()]


def _policy_mistakes(host: EmbeddedHost, known: Sequence[str]) -> Iterator[Problem]:
    try:
        policy = read_policy(host.paths.config)
    except PflowError as error:
        yield from error.problems or (problem_of(error, kind="config"),)
        return
    if policy is None:
        return
    for rule in (*policy.deny, *policy.allow):
        for key, word in (("from", rule.begin), ("to", rule.end)):
            if not (word in RESERVED or matches(word, known, ())):
                message = f"{word} matches no node type, so the rule has no effect"
                source = str(host.paths.config / POLICY_FILE)
                yield advice(f"{rule.path}.{key}", message, "See: pflow registry list", source=source)


def _script_clashes() -> Iterator[Problem]:
    mine = own_distribution()
    for script in entry_points("console_scripts"):
        if script.name == PROGRAM and mine and not is_own_script(script):
            other = f"{script.distribution.name} {script.distribution.version}"
            message = f"{other} and {mine.name} {mine.version} both install a script `{PROGRAM}`"
            step = f"Install them in separate environments, or start this one as `{mine.name}`"
            yield advice("", message, step, source=script.distribution.name)
