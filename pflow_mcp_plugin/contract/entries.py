"""Entries, each of which describes a node type to any host, and their use in a workflow."""

from __future__ import annotations

from collections.abc import Container, Mapping, MutableMapping
from enum import Enum
from types import NoneType
from typing import Any, Literal, Protocol, get_args

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import Problem
from pflow_mcp_plugin.contract.validators import each, each_of, flag, is_a, items, one_of, text, valid_name
from pflow_mcp_plugin.terminal.looks import abbreviated

_BRIEF = 200
"""Characters of a description where an entry is shown in brief."""
_ALWAYS_SHOWN = ("class_name", "module", "file_path", "type", "source", "description", "interface", "purity")
_SHOWN_WHEN_SET = (
    *("labels", "family", "local_name", "claimed_purity", "effects", "may_run_code", "fingerprint"),
    *("python_class", "idempotency_argument"),
)

Effect = Literal["untrusted_output", "destructive", "sends_data"]
"""What an entry's node does to data beyond its outputs; see `Entry.effects`."""

FAILURES = frozenset({"error", "rate_limited", "auth_failed", "resource_missing", "timeout"})
"""The actions of an entry's failed nodes; a run fails if the workflow does not route the action."""


@attrs.frozen(kw_only=True)
class Field:
    """A parameter or an output of a node, in the interface of its entry.

    Attributes:
        key: Its name; also its key in the shared store.
        type: A friendly type: `str`, `int`, `float`, `bool`, `list`, `dict`, `None`, `any`,
            or several joined as in `str | None`.
        required: Whether the node fails without it.
        description: One or a few sentences for people.
        schema: The JSON Schema it was derived from, unchanged, if there is one.
        shell_line: Whether a string is a command line for a shell; the host then quotes the values of
            its templates.
        source_code: Whether it is code in a language, of which no value may become a part: the host refuses
            templates in it, and reads `$${` as `${`.

    Raises:
        ValueError: A field is of the wrong type.
    """

    key: str = attrs.field(validator=text)
    type: str = attrs.field(default="any", validator=valid_name)
    required: bool = attrs.field(default=False, validator=flag)
    description: str = attrs.field(default="", validator=text)
    schema: JSONObject | bool | None = attrs.field(default=None, validator=is_a(Mapping, bool, NoneType))
    shell_line: bool = attrs.field(default=False, validator=flag)
    source_code: bool = attrs.field(default=False, validator=flag)

    @property
    def is_code(self) -> bool:
        """Whether an entry says that a field is code, so that only the workflow's author may set it."""
        return self.shell_line or self.source_code

    @property
    def types(self) -> tuple[str, ...]:
        """The alternatives in the `type` of this field, a param or output in the entry of a node type."""
        return tuple(part.strip() for part in self.type.split("|"))

    @property
    def has_default(self) -> bool:
        """Whether the schema of this field of an entry, such as a param, names a default."""
        return isinstance(self.schema, Mapping) and "default" in self.schema

    @property
    def needs_value(self) -> bool:
        """Whether an entry's field must be given a value: it is required and has no default."""
        return self.required and not self.has_default

    @property
    def choices(self) -> tuple[JSON, ...]:
        """The values that the schema of an entry's field allows; empty if it does not list them."""
        listed = self.schema.get("enum") if isinstance(self.schema, Mapping) else None
        return tuple(listed) if isinstance(listed, list) else ()

    def to_dict(self) -> dict[str, JSON]:
        """Return the JSON form of an entry's field: `key`, `type`, and everything else that is set."""
        data: dict[str, JSON] = {"key": self.key, "type": self.type}
        data |= {name: value for name in ("required", "description") if (value := getattr(self, name))}
        data |= {} if self.schema is None else {"schema": self.schema}
        return data | {name: True for name in ("shell_line", "source_code") if getattr(self, name)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Field:
        """Return the field of an entry from its JSON form; unknown keys are ignored."""
        return cls(**{each.name: data[each.name] for each in attrs.fields(cls) if each.name in data})


@attrs.frozen(kw_only=True)
class Interface:
    """The parameters, outputs and actions of a node, as its entry declares them to hosts.

    Attributes:
        params: Every parameter that it takes.
        outputs: Every key that it writes.
        actions: The actions that it may return.
        inputs: The keys that it reads from the root of the shared store if the param is not set.
        hidden: Parameters of which nothing is shown: no list, help, message or completion names them, and the
            JSON form lacks them. It takes them as well, or in place of the one of the same key in `params`.
        open: Whether it takes parameters beyond these.
        open_outputs: Whether it may write keys beyond `outputs`: a workflow may then name them, and
            whether they exist is seen when it runs. None if that is unknown: validation then warns
            about such a key but accepts it. The JSON form contains True only.
        result: The output that stands for all where a single value is wanted, as in a chain of nodes; see
            `result_key` for what an empty string means.
        piped: The parameter that takes what is piped into the node; see `piped_key` for what an empty
            string means.

    Raises:
        ValueError: A field is of the wrong type, or `result` or `piped` names no field.
    """

    params: tuple[Field, ...] = attrs.field(default=(), converter=items, validator=each(Field))
    outputs: tuple[Field, ...] = attrs.field(default=(), converter=items, validator=each(Field))
    actions: tuple[str, ...] = attrs.field(default=("default", "error"), converter=items, validator=each(str))
    inputs: tuple[str, ...] = attrs.field(default=(), converter=items, validator=each(str))
    hidden: tuple[Field, ...] = attrs.field(default=(), converter=items, validator=each(Field), repr=False)
    open: bool = attrs.field(default=False, validator=flag)
    open_outputs: bool | None = attrs.field(default=False, validator=is_a(bool, type(None)))
    result: str = attrs.field(default="", validator=text)
    piped: str = attrs.field(default="", validator=text)

    @result.validator
    @piped.validator
    def _check_names_a_field(self, attribute: attrs.Attribute[str], value: str) -> None:
        fields = self.outputs if attribute.name == "result" else self.params
        if value and all(field.key != value for field in fields):
            raise ValueError(f"Interface.{attribute.name} names no field: {value!r}")

    @property
    def fields(self) -> Mapping[str, Field]:
        """Every parameter in an entry's interface by its key, the hidden ones included."""
        return {field.key: field for field in (*self.params, *self.hidden)}

    @property
    def reads(self) -> tuple[str, ...]:
        """The `inputs` in an entry's interface, and its hidden parameters, which are read likewise."""
        return tuple(dict.fromkeys((*self.inputs, *(field.key for field in self.hidden))))

    @property
    def result_key(self) -> str:
        """The key of the output that stands for all in an entry's interface; empty if none does.

        It is `result` of the interface, else the output named `result`, else the only output.
        """
        keys = [field.key for field in self.outputs]
        named = self.result or ("result" if "result" in keys else "")
        return named or (keys[0] if len(keys) == 1 else "")

    def piped_key(self, given: Container[str]) -> str:
        """Return the param of an entry's interface that piped text sets; empty if none does.

        It is the only required parameter for text that has no value yet, else `piped` of the interface. Code
        and command lines for a shell are never taken from a pipe.

        Args:
            given: The parameters that have a value.
        """
        lacking = [field for field in self.params if field.required and field.key not in given]
        texts = [it.key for it in lacking if {"str", "any"} & set(it.types) and not it.is_code]
        if len(texts) == 1:
            return texts[0]
        return "" if self.piped in given else self.piped

    def to_dict(self) -> dict[str, JSON]:
        """Return the interface as the JSON form of an entry contains it."""
        data: dict[str, JSON] = {
            "inputs": list(self.inputs),
            "params": [field.to_dict() for field in self.params],
            "outputs": [field.to_dict() for field in self.outputs],
            "actions": list(self.actions),
        }
        set_ones = ("open", "open_outputs", "result", "piped")
        return data | {key: value for key in set_ones if (value := getattr(self, key))}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Interface:
        """Return the interface of an entry from its JSON form."""
        plain = ("inputs", "actions", "open", "open_outputs", "result", "piped")
        known: dict[str, Any] = {name: data[name] for name in plain if name in data}
        for part in ("params", "outputs"):
            known[part] = map(Field.from_dict, data.get(part, ()))
        return cls(**known)


@attrs.frozen(kw_only=True)
class Recipe:
    """How to find out whether the node of an entry did something, when nobody knows.

    Its expressions see the `arguments` of the node, and `happened` and `result` also what the recipe's node
    returned, as its output `result`, and in `error` its message if it failed.

    Attributes:
        node: The node type that is run; it must be `flow_safe`.
        happened: An expression: true if the step happened, false if it did not, null if that remains open. If
            the node of the recipe failed, it is open, unless the expression names `error`.
        params: The params of that node, each an expression.
        result: An expression for what the step returned; without one, null.
    """

    node: str = attrs.field(validator=text)
    happened: str = attrs.field(validator=text)
    params: Mapping[str, str] = attrs.field(factory=dict, validator=is_a(Mapping))
    result: str = attrs.field(default="", validator=text)


@attrs.frozen(kw_only=True)
class Entry:
    """The entry by which a plugin describes one node type to any host's registry.

    Attributes:
        node: The node type, as workflows name it.
        class_name: The class in `module` to instantiate without arguments.
        module: The importable module of the class.
        interface: Parameters, outputs and actions.
        description: What the node does, in words that people search for.
        file_path: The file of the class; `virtual://...` for one class behind many entries.
        type: The kind of entry, in the source's words.
        source: The name of the `NodeSource` that provides it.
        purity: `flow_safe` if running it twice does no harm, else `impure`.
        claimed_purity: What the node says of itself where nobody vouches for it: `flow_safe` or empty. A host
            believes it only for a run whose user asks it to.
        cacheable: False for a `flow_safe` node whose result is never kept for later runs, as it costs little
            and what it reads may change at any time.
        retryable: False for an impure node that is never safe to run again after a failure, so that
            validation can warn about a workflow that retries it.
        lasting: False for a node type that is gone after this run, so that a host offers nobody to resume it.
        labels: Further columns in lists, in order, such as where it comes from.
        family: The group it belongs to, for search: nodes of one family are often used together. Its
            source when left empty.
        local_name: Its name within the family, for search. Its node type when left empty.
        effects: What is known of it for the check of data flows: its output contains what strangers wrote
            (`untrusted_output`), it may delete or overwrite (`destructive`), or it passes what it is given
            on to another machine (`sends_data`).
        may_run_code: Whether its params name programs or hold code that it runs, as those of a shell do; see
            `Registry.withhold_code`. A node with a `shell_line` or `source_code` counts as one, too.
        fingerprint: Changes whenever the node may do something else with the same values; kept results of
            another fingerprint are not used. When left empty, a host derives it from the other fields.
        python_class: What a program imports to write the node as an object, as `module:Class`. Its `entry` is
            this entry, and it takes the params as keyword arguments. Empty if there is no such class.
        idempotency_argument: The param that takes a key by which the other side does the same only once, so
            that the node may be run again with the key that it was given; empty if there is none. Where it is
            left out, the node sends `RunStep.idempotency_key`.
        verify: How to find out, before anybody is asked, whether the node did its work.
        withheld: Why the node may not run now, such as a change that nobody has approved yet, with the next
            step. The entry is listed and described, but a workflow that uses it is refused.
        extra: Keys of the source's own, passed through untouched.

    Raises:
        ValueError: A field is of the wrong type, `withheld` is no error, or `extra` contains the name of a
            field.
    """

    node: str = attrs.field(validator=valid_name)
    class_name: str = attrs.field(validator=valid_name)
    module: str = attrs.field(validator=valid_name)
    interface: Interface = attrs.field(factory=Interface, validator=is_a(Interface))
    description: str = attrs.field(default="", validator=text)
    file_path: str = attrs.field(default="", validator=text)
    type: str = attrs.field(default="node", validator=text)
    source: str = attrs.field(default="", validator=text)
    purity: Literal["impure", "flow_safe"] = attrs.field(
        default="impure", validator=one_of("impure", "flow_safe")
    )
    claimed_purity: Literal["", "flow_safe"] = attrs.field(default="", validator=one_of("", "flow_safe"))
    cacheable: bool = attrs.field(default=True, validator=flag)
    retryable: bool = attrs.field(default=True, validator=flag)
    lasting: bool = attrs.field(default=True, validator=flag)
    labels: Mapping[str, str] = attrs.field(factory=dict, validator=is_a(Mapping))
    family: str = attrs.field(default="", validator=text)
    local_name: str = attrs.field(default="", validator=text)
    effects: tuple[Effect, ...] = attrs.field(
        default=(), converter=items, validator=each_of(*get_args(Effect))
    )
    may_run_code: bool = attrs.field(default=False, validator=flag)
    fingerprint: str = attrs.field(default="", validator=text)
    python_class: str = attrs.field(default="", validator=text)
    idempotency_argument: str = attrs.field(default="", validator=text)
    verify: Recipe | None = attrs.field(default=None)
    withheld: Problem | None = attrs.field(default=None)
    extra: JSONObject = attrs.field(factory=dict)

    @property
    def runs_code(self) -> bool:
        """Whether the entry's node runs programs or code from its params."""
        return self.may_run_code or any(field.is_code for field in self.interface.params)

    @withheld.validator
    def _check_withheld(self, attribute: attrs.Attribute[Any], value: Problem | None) -> None:
        if value is not None and not (isinstance(value, Problem) and value.severity == "error"):
            raise ValueError(f"Entry.withheld must be None or a problem that is an error, got {value!r}")

    @extra.validator
    def _check_extra(self, attribute: attrs.Attribute[Any], value: JSONObject) -> None:
        if taken := sorted(_OWN_KEYS & value.keys()):
            raise ValueError(f"Entry.extra may not hold {', '.join(taken)}: set the field of that name")

    def to_dict(self) -> dict[str, JSON]:
        """Return the entry's JSON form for `registry describe`: its fields, then the source's own keys."""
        data: dict[str, JSON] = {"node": self.node}
        data.update({key: getattr(self, key) for key in _ALWAYS_SHOWN})
        data["interface"] = self.interface.to_dict()
        data.update({key: value for key in _SHOWN_WHEN_SET if (value := getattr(self, key))})
        data.update({key: False for key in ("retryable", "cacheable", "lasting") if not getattr(self, key)})
        if self.verify:
            data["verify"] = attrs.asdict(self.verify)
        if self.withheld:
            data["withheld"] = {**self.withheld.to_dict()}
        data.update(self.extra)
        return data

    def to_brief(self) -> dict[str, JSON]:
        """Return this entry in its brief form, as JSON: description, params and outputs with types only."""
        params = self.interface.params
        return {
            "node": self.node,
            "description": abbreviated(self.description.strip().partition("\n")[0], _BRIEF),
            "params": {it.key: f"{it.type}{', required' if it.needs_value else ''}" for it in params},
            "outputs": {it.key: it.type for it in self.interface.outputs},
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Entry:
        """Return an entry from its JSON form; other keys go to `extra`."""
        known = {key: value for key, value in data.items() if key in _OWN_KEYS}
        known["interface"] = Interface.from_dict(data.get("interface", {}))
        known["verify"] = Recipe(**found) if (found := data.get("verify")) else None
        known["withheld"] = Problem(**found) if (found := data.get("withheld")) else None
        extra = {key: value for key, value in data.items() if key not in _OWN_KEYS}
        return cls(extra=extra, **known)


_OWN_KEYS = attrs.fields_dict(Entry).keys() - {"extra"}


class Unknown(Enum):
    """The type of `UNKNOWN`, which stands in a `NodeUse` of an entry for a param that only the run knows.

    Copied or pickled, it remains the same object.
    """

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown.UNKNOWN
"""Stands in a `NodeUse` for a value, or a part of one, that only the run will know."""


@attrs.frozen(kw_only=True)
class NodeUse:
    """An entry as one node of a workflow uses it, which the entry's source may judge before a run.

    Attributes:
        entry: The entry of the node.
        params: Its params, coerced to their declared types, and at the start of a run the inputs that it
            takes by its own names. A value that a template will fill in is `UNKNOWN`, at any depth; so is
            one that is of the wrong type, which the host reports itself.
        supplied: The keys that may come from elsewhere: an input, a mapping, the shared store. None if that
            cannot be told, so that any key may.
        reads: The outputs that the rest of the workflow reads, as paths: `("issues", 0, "title")`. An
            empty path stands for all of them. A node in a batch has the outputs of a single item here.
    """

    entry: Entry = attrs.field(validator=is_a(Entry))
    params: Mapping[str, object] = attrs.field(factory=dict, validator=is_a(Mapping))
    supplied: frozenset[str] | None = attrs.field(default=frozenset(), validator=is_a(frozenset, type(None)))
    reads: frozenset[tuple[str | int, ...]] = attrs.field(default=frozenset(), validator=is_a(frozenset))


@attrs.frozen(kw_only=True)
class Sketch:
    """The part of an `Entry` that lists and searches need; not validated, as there may be ten thousand.

    Attributes:
        node: The node type.
        description: What the node does.
        params: Key and description of each parameter.
        labels: As of the entry.
        family: As of the entry.
        local_name: As of the entry.
        source: The name of the `NodeSource` that provides it.
    """

    node: str
    description: str = ""
    params: Mapping[str, str] = attrs.field(factory=dict)
    labels: Mapping[str, str] = attrs.field(factory=dict)
    family: str = ""
    local_name: str = ""
    source: str = ""

    @classmethod
    def of(cls, entry: Entry) -> Sketch:
        """Return the sketch of a whole entry."""
        return cls(
            node=entry.node,
            description=entry.description,
            params={field.key: field.description for field in entry.interface.params},
            labels=entry.labels,
            family=entry.family,
            local_name=entry.local_name,
            source=entry.source,
        )


class Node(Protocol):
    """What a host runs for an entry of any plugin: an object such as a `pocketflow.Node`.

    A host instantiates the class without arguments, passes it its params (those of the workflow with
    templates resolved, those that plugins injected, and its own id as `__node_id__`) and runs it
    once. A node writes its outputs, and `error`, into `shared` under the keys of its `Interface`.
    It fails by raising, or by returning an action other than `default` with the reason in
    `shared["error"]` (and, optionally, the `PflowError` in `shared["__error__"]`); a failure that
    the workflow does not route fails the run.
    """

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Store the params of the node that a plugin's entry describes; the host calls this before `run`."""
        ...

    def run(self, shared: MutableMapping[str, Any]) -> str | None:
        """Do the work of the node that an entry describes.

        Args:
            shared: The node's view of the shared store: its own keys, the workflow's inputs and,
                under `__run__`, the `Run` it belongs to.

        Returns:
            The action that chooses the next node; None is `default`.
        """
        ...
