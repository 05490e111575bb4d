"""What a host does with saved workflows; passed by a host without a library."""

from __future__ import annotations

from pflow_mcp_plugin.contract.conformance.assertions import node, raised
from pflow_mcp_plugin.contract.conformance.sample_plugins import poetry
from pflow_mcp_plugin.contract.conformance.trial import Trial
from pflow_mcp_plugin.contract.json_types import JSONObject

_NAME = "conformance-ballad"
_PURPOSE = "Recite a ballad to the harbour master"


def a_saved_workflow_is_listed_filtered_and_found(trial: Trial) -> None:
    """Library check: `saved` and `discover` return what `save_workflow` saved, `delete` removes it."""
    with trial.open(poetry=poetry()) as subject:
        library = subject.host.library
        if library is None:
            return
        wanted: JSONObject = {"inputs": {"town": {"type": "str", "default": "x"}}, "nodes": [node()]}
        saved, _ = subject.host.save_workflow(wanted, _NAME, _PURPOSE)
        assert (saved.name, saved.description, saved.problem) == (_NAME, _PURPOSE, "")
        assert _NAME in [item.name for item in library.saved()]
        assert [item.name for item in library.saved("HARBOUR MASTER")] == [_NAME]
        assert not library.saved("no such workflow at all")
        best = library.discover(_PURPOSE).matches[0]
        assert (best.item.name, best.confidence > 0.9) == (_NAME, True), f"{_PURPOSE!r} found {best}"
        library.delete(_NAME)
        assert _NAME not in [item.name for item in library.saved()]


def the_fingerprint_of_a_library_changes_with_what_is_saved(trial: Trial) -> None:
    """Library check: `fingerprint` changes when a workflow is saved or deleted, and at no other time."""
    with trial.open(poetry=poetry()) as subject:
        library = subject.host.library
        if library is None:
            return
        seen = [library.fingerprint()]
        library.save(_NAME, {"nodes": [node()]}, _PURPOSE)
        seen.append(library.fingerprint())
        assert library.fingerprint() == seen[-1]
        library.save(_NAME, {"nodes": [node(town="Bergen")]}, _PURPOSE)
        seen.append(library.fingerprint())
        library.delete(_NAME)
        assert len({*seen[1:], library.fingerprint()}) == len(seen), f"it did not change: {seen}"


def a_workflow_with_mistakes_is_not_saved(trial: Trial) -> None:
    """Library check: `save_workflow` raises kind `validation` with the problems, and saves nothing."""
    with trial.open(poetry=poetry()) as subject:
        library = subject.host.library
        if library is None or subject.host.runner is None:
            return
        save = subject.host.save_workflow
        error = raised(lambda: save({"nodes": [node(), node()]}, _NAME))
        assert error.kind == "validation"
        assert error.problems
        assert _NAME not in library.names()


CHECKS = (
    a_saved_workflow_is_listed_filtered_and_found,
    the_fingerprint_of_a_library_changes_with_what_is_saved,
    a_workflow_with_mistakes_is_not_saved,
)
