"""`pflow config check | path`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from pflow_mcp_plugin.contract import Paths, PflowError, Problem, Report
from pflow_mcp_plugin.host.cli.output import counted, problem_lines
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.flow_policy import POLICY_FILE
from pflow_mcp_plugin.host.registry.node_sources import asked
from pflow_mcp_plugin.terminal.tables import Column, Table


@click.command()
@click.pass_obj
def check(host: EmbeddedHost) -> Report:
    """Check the config files of pflow and its plugins, and list every problem."""
    found = host.plugins.collect("pflow_validate_config", Problem)
    return findings_report([problem for _, problems in found for problem in problems])


@click.command()
@click.pass_obj
def path(host: EmbeddedHost) -> Report:
    """List the config and other files and folders that pflow uses, and what each one is for."""
    rows = list(files(host.paths, files_of_sources(host)))
    data = [{"path": str(place), "role": role, "exists": place.exists()} for place, role in rows]
    cells = [(role, "yes" if place.exists() else "no", str(place)) for place, role in rows]
    columns = (
        Column(title="ROLE"),
        Column(title="EXISTS", whole=True, spare=True),
        Column(title="PATH", whole=True),
    )
    return Report(data=data, text=lambda: (Table(columns=columns, rows=cells),))


def findings_report(problems: list[Problem]) -> Report:
    """Return the report of `config check` on the problems found."""
    if any(problem.severity == "error" for problem in problems):
        return Report(
            error=PflowError(f"The config has {counted(problems)}", problems=tuple(problems), kind="config")
        )
    data = [problem.to_dict() for problem in problems]
    return Report(data=data, text="\n".join(["The config is valid", *problem_lines(tuple(problems))]))


def files_of_sources(host: EmbeddedHost) -> dict[Path, str]:
    """Return what the config command `config path` lists for plugins: their sources' files, with roles."""
    found: dict[Path, str] = {}
    for origin in host.registry.sources:
        found |= asked(origin.files, host.report) or {}
    return found


def files(paths: Paths, of_sources: Mapping[Path, str]) -> Iterator[tuple[Path, str]]:
    """Yield for `config path` every file and folder with its role: the known ones, then any others."""
    known = {
        paths.config / "settings.json": "settings",
        paths.config / POLICY_FILE: "policy on data flows",
        paths.data / "registry.json": "saved nodes",
        paths.data / "workflows": "saved workflows",
        paths.state / "traces": "traces of runs",
        paths.state / "artifacts": "results of runs that are in files",
        paths.state / "sources.json": "node sources seen",
        paths.cache / "results": "results kept for later runs",
        **of_sources,
    }
    yield from known.items()
    folders = {"config": paths.config, "data": paths.data, "state": paths.state, "cache": paths.cache}
    for role, folder in folders.items():
        for place in sorted(folder.glob("*")):
            if place not in known and not place.name.startswith("."):
                yield place, _role(place, role)


def _role(place: Path, folder: str) -> str:
    if place.suffix == ".lock":
        return "lock"
    if folder == "cache":
        return "derived, may be deleted"
    return f"{folder} of a plugin"
