"""Fields with secrets in them, or with what is too large to read, are in no `repr` and in no traceback."""

import importlib
import inspect
import pkgutil
import traceback

import attrs
import pytest

pytest.importorskip("mcp")

import pflow_mcp_plugin

PLANTED = "planted-4711"
SECRET = {
    "client.oauth.authorization_requests.Answer": {"content"},
    "client.oauth.sign_in_state.Registration": {"client_secret"},
    "client.oauth.sign_in_state.Tokens": {"access", "refresh"},
    "client.oauth.sign_in_store.SignInKey": {"server_url"},
    "config.server_input.Fitted": {"tables"},
    "config.interchange.transfer_plans.PlannedServer": {"table"},
    "config.interchange.transfer_plans.LiteralSecret": {"value"},
    "config.server_input.Flags": {"env", "headers", "bearer"},
    "contract.run_requests.Outcome": {"checkpoint"},
    "contract.runs.LockCheck": {"host"},
    "contract.runs.NodeRef": {"entry", "host", "params", "injected"},
    "exchange.Launch": {"secrets", "report", "redactor"},
    "host.nodes.child_processes.ChildCommand": {"env"},
    "host.nodes.http_request.HttpEndpoint": {"url"},
    "presets.collection.InputValues": {"secrets"},
    "server.http.request_tokens.BearerToken": {"value"},
    "types.Server": {"args", "env", "url", "headers", "auth"},
}
"""The fields in which a secret can be, or the parts of a run that has one. A new one has to be listed too."""
WHOLE = {
    *("host.direct.direct_run.DirectRun", "host.running.attempts.Attempts", "host.running.batch._Tally"),
    *("host.nodes.http_request.HttpAnswer", "host.nodes.http_request.HttpCall"),
    *(
        "host.running.recorded_run.StepOfRun",
        "host.running.result_reuse.WatchedStore",
        "host.running.shared_store.Values",
    ),
    *("host.running.trace_recorder.Preparation", "host.running.trace_recorder.Step"),
    *("host.workflow.compilation.Compiled", "host.workflow.compilation.PlannedNode"),
}
"""The classes of which nothing is shown, as they hold the values of a run."""


def classes():
    """Yield the name and class of each class of the package that attrs made."""
    for module in pkgutil.walk_packages(pflow_mcp_plugin.__path__, "pflow_mcp_plugin."):
        if not module.name.endswith("__main__"):
            for name, member in vars(importlib.import_module(module.name)).items():
                if inspect.isclass(member) and attrs.has(member) and member.__module__ == module.name:
                    yield f"{module.name}.{name}".removeprefix("pflow_mcp_plugin."), member


CLASSES = dict(classes())


def hidden(kind):
    """Return the fields of a class that its `repr` leaves out."""
    nothing_shown = kind.__repr__ is object.__repr__
    return {field.name for field in attrs.fields(kind) if nothing_shown or field.repr is False}


def test_a_field_with_secrets_is_not_shown_and_a_class_with_values_shows_none():
    assert {name: hidden(CLASSES[name]) & fields for name, fields in SECRET.items()} == SECRET
    assert {name for name in WHOLE if CLASSES[name].__repr__ is not object.__repr__} == set()


class Told:
    """A value that is told wherever its text is."""

    def __repr__(self):
        return PLANTED


def fail(*arguments):
    """Raise an error about these arguments."""
    raise ValueError(*arguments)


@pytest.mark.parametrize("name", sorted(name for name, kind in CLASSES.items() if hidden(kind)))
def test_what_a_field_hides_is_in_no_repr_and_in_no_traceback(name):
    kind = CLASSES[name]
    instance = object.__new__(kind)
    for field in attrs.fields(kind):
        object.__setattr__(instance, field.name, Told() if field.name in hidden(kind) else "shown")
    holder = {"held": [instance]}
    with pytest.raises(ValueError, match="cannot use") as failure:
        fail(f"cannot use {instance}", instance, holder)
    told = "".join(traceback.TracebackException.from_exception(failure.value, capture_locals=True).format())
    assert PLANTED not in f"{instance!r} {instance} {holder} {told}"
    shown = [field.name for field in attrs.fields(kind) if field.name not in hidden(kind) and field.repr]
    assert not shown or kind.__repr__ is object.__repr__ or "shown" in repr(instance)


BORDER = ("catalog.", "contract.", "exchange.", "server_preset.", "types.")
MANY = 5
"""Fields from which on a value is made by the names of its fields."""
INSIDE = {
    *("config.interchange.server_translation.FormatField", "host.direct.direct_run.DirectRun"),
    *("host.planning.offline_plan.Step", "host.running.shared_store.NodeAwareSharedStore"),
    *("host.running.trace_recorder.Preparation", "host.running.trace_recorder.Step"),
    *("host.running.value_excerpt.Excerpt", "host.workflow.expressions.shapes.Reading"),
}
"""Classes with as many whose objects are made in one place."""


def test_what_rooms_and_plugins_share_is_made_by_the_names_of_its_fields():
    made = {name: [field for field in attrs.fields(kind) if field.init] for name, kind in CLASSES.items()}
    shared = {
        name
        for name, fields in made.items()
        if fields and name.startswith(BORDER) and "conformance" not in name
    }
    many = {name for name, fields in made.items() if len(fields) >= MANY and "._" not in name}
    by_position = {name for name in shared | many if not all(field.kw_only for field in made[name])}
    assert by_position - INSIDE == set()
    assert len(shared) > 30
