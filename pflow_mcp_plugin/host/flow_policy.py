"""The user's policy on data flows: which nodes must not get data from which.

    # pflow.toml
    [flows]
    deny = [
        { from = "untrusted_output", to = "destructive" },
        { from = "inputs", to = "slack-*" },
    ]
    allow = [{ from = "wiki-*", to = "write-file" }]

Everything in the file is checked strictly: a policy without effect is worse than none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, get_args

import attrs

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.entries import Effect
from pflow_mcp_plugin.contract.problems import fault, refused
from pflow_mcp_plugin.storage import StoreError, read_regular
from pflow_mcp_plugin.terminal.similar_names import closest, did_you_mean

POLICY_FILE = "pflow.toml"
"""The name of the policy's file in the user's config folder."""
INPUTS = "inputs"
"""The word that stands for the inputs of a run where a flow begins."""
_EFFECTS: tuple[str, ...] = get_args(Effect)
RESERVED = (*_EFFECTS, INPUTS)
"""The words of the policy that are not globs."""
_EXAMPLE = 'Write { from = "untrusted_output", to = "destructive" }'
_CLASS = re.compile(r"\[!?\]?[^\]]*\]")
_STRAY = re.compile(r"[\s\[\]{}|,!]")
"""Characters that have a meaning in other programs' globs, and that node types do not contain."""


@attrs.frozen(kw_only=True)
class FlowRule:
    """A rule of the policy: where a denied or allowed flow begins and ends, and the rule's place in the file.

    Both ends are globs over node types or names of effects; `begin` may be `inputs`.
    """

    begin: str
    end: str
    path: str


@attrs.frozen(kw_only=True)
class FlowPolicy:
    """The policy: a flow is denied if a rule of `deny` matches it and none of `allow` does."""

    deny: tuple[FlowRule, ...] = ()
    allow: tuple[FlowRule, ...] = ()


def matches(word: str, types: Iterable[str], effects: Iterable[str]) -> bool:
    """Return whether one end of a rule matches a node."""
    if word in _EFFECTS:
        return word in effects
    return word != INPUTS and any(fnmatchcase(spelled, word) for spelled in types)


def read_policy(config: Path) -> FlowPolicy | None:
    """Read the policy on data flows; one error lists every mistake in it. A missing file costs one `stat`."""
    path = config / POLICY_FILE
    document = read_toml(path)
    if document is None:
        return None
    problems = [attrs.evolve(problem, source=str(path)) for problem in _check(document)]
    if problems:
        raise refused(str(path), problems, "config")
    flows = document.get("flows", {})
    rules = {
        key: tuple(
            FlowRule(begin=rule["from"], end=rule["to"], path=f"flows.{key}[{index}]")
            for index, rule in enumerate(flows.get(key, []))
        )
        for key in ("deny", "allow")
    }
    return FlowPolicy(**rules)


def read_toml(path: Path) -> Mapping[str, Any] | None:
    """Read the file of the policy on data flows, `pflow.toml`, with its other tables; None without one."""
    try:
        os.lstat(path)  # not `stat`: a dangling link must not count as having no policy
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(path, error.strerror or str(error)) from error
    from pflow_mcp_plugin.storage.json_and_toml import decode_toml

    try:
        return decode_toml(path, read_regular(path, own=True))
    except OSError as error:
        raise StoreError(path, error.strerror or str(error)) from error


def policy_table(config: Path, name: str) -> Any:
    """Return a table of `pflow.toml`, the policy's file, whatever is written there; empty if nothing is."""
    return (read_toml(config / POLICY_FILE) or {}).get(name, {})


def _check(document: Mapping[str, Any]) -> Iterator[Problem]:
    yield from _unknown(document, ("flows", "limits", "traces"), "")  # others check the latter
    flows = document.get("flows", {"deny": []})
    if not isinstance(flows, dict):
        yield fault("flows", "Must be a table", f"Write [flows]. {_EXAMPLE}")
        return
    yield from _unknown(flows, ("deny", "allow"), "flows")
    if "deny" not in flows:
        yield fault("flows", "deny is missing", f"Write deny = [...]. {_EXAMPLE}")
    for key in ("deny", "allow"):
        rules = flows.get(key, [])
        if not isinstance(rules, list):
            yield fault(f"flows.{key}", "Must be a list", _EXAMPLE)
            continue
        for index, rule in enumerate(rules):
            yield from _check_rule(rule, f"flows.{key}[{index}]")


def _check_rule(rule: object, path: str) -> Iterator[Problem]:
    if not isinstance(rule, dict):
        yield fault(path, "Must be a table", _EXAMPLE)
        return
    yield from _unknown(rule, ("from", "to"), path)
    for key in ("from", "to"):
        where = f"{path}.{key}"
        if key not in rule:
            yield fault(path, f"{key} is missing", _EXAMPLE)
        elif not isinstance(rule[key], str):
            yield fault(where, "Must be a string", _EXAMPLE)
        else:
            yield from _check_word(rule[key], where, key)


def _check_word(word: str, path: str, key: str) -> Iterator[Problem]:
    step = f"Write a node type, a glob over node types such as files-*, or {' or '.join(RESERVED)}"
    if not word.strip():
        yield fault(path, "Is empty", step)
    elif word == INPUTS and key == "to":
        yield fault(path, "Data cannot flow to the inputs of a run", step)
    elif stray := _STRAY.search(_CLASS.sub("", word)):
        step = "Globs have only *, ? and [...]; write one rule for each node type"
        yield fault(path, f"{word!r} contains {stray[0]!r}, so it would match nothing", step)
    elif word not in RESERVED and not set(word) & set("*?["):
        # It would be taken as a node type, and the rule would never match: it is misspelt, or only part of a
        # word.
        spelt = word.lower().replace("-", "_")
        within = (known for known in RESERVED if set(spelt.split("_")) <= set(known.split("_")))
        if meant := next(within, "") or next(iter(closest(spelt, RESERVED, 0.8)), ""):
            spelled = f"[{word[0]}]{word[1:]}"
            step = f"Did you mean {meant}? For a node type of that name write {spelled}"
            yield fault(path, f"Unknown word {word}", step)


def _unknown(table: Mapping[str, Any], known: tuple[str, ...], path: str) -> Iterator[Problem]:
    for key in table:
        if key not in known:
            step = did_you_mean(key, known, f"Known here: {', '.join(known)}", cutoff=0.8)
            yield fault(f"{path}.{key}" if path else key, f"Unknown key {key}", step)
