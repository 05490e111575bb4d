"""What a plugin contributes to the registry of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import attrs

from pflow_mcp_plugin.contract.problems import Problem

_ENTRY_KEYS = (
    "class_name",
    "module",
    "file_path",
    "type",
    "source",
    "description",
    "interface",
    "purity",
)

FAILURES = frozenset({"error", "rate_limited", "auth_failed", "resource_missing", "timeout"})
"""The actions by which nodes fail; one that the workflow routes nowhere fails the run."""


@attrs.frozen(kw_only=True)
class Field:
    """A parameter or an output of a node.

    Attributes:
        key: Its name; also its key in the shared store.
        type: A friendly type: `str`, `int`, `float`, `bool`, `list`, `dict`, `None`, `any`,
            or several joined as in `str | None`.
        required: Whether the node fails without it.
        description: One or a few sentences for people.
        schema: The JSON Schema it was made from, untouched, where there is one.
    """

    key: str
    type: str = "any"
    required: bool = False
    description: str = ""
    schema: Mapping[str, Any] | bool | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """The alternatives of `type`."""
        return tuple(part.strip() for part in self.type.split("|"))

    @property
    def has_default(self) -> bool:
        """Whether the schema names a default."""
        return isinstance(self.schema, Mapping) and "default" in self.schema

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form: `key`, `type`, and what else is filled."""
        data: dict[str, Any] = {"key": self.key, "type": self.type}
        if self.required:
            data["required"] = True
        if self.description:
            data["description"] = self.description
        if self.schema is not None:
            data["schema"] = self.schema
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Field:
        """Build from the JSON form; unknown keys are ignored."""
        return cls(
            key=data["key"],
            type=data.get("type", "any"),
            required=data.get("required", False),
            description=data.get("description", ""),
            schema=data.get("schema"),
        )


@attrs.frozen(kw_only=True)
class Interface:
    """How a node is fed and what it gives.

    Attributes:
        params: Every argument that it takes.
        outputs: Every key that it writes.
        actions: The actions that it may return.
        inputs: The keys it reads from the root of the shared store when no param is set.
        open: Whether it takes arguments beyond `params`.
        open_outputs: Whether it may write keys beyond `outputs`: then a workflow may name them, and
            they are found or not when it runs. None where nothing is said of it: a check warns of
            such a key and does not refuse it. The JSON form says True only.
    """

    params: tuple[Field, ...] = ()
    outputs: tuple[Field, ...] = ()
    actions: tuple[str, ...] = ("default", "error")
    inputs: tuple[str, ...] = ()
    open: bool = False
    open_outputs: bool | None = False

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of `registry describe`."""
        data: dict[str, Any] = {
            "inputs": list(self.inputs),
            "params": [field.to_dict() for field in self.params],
            "outputs": [field.to_dict() for field in self.outputs],
            "actions": list(self.actions),
        }
        if self.open:
            data["open"] = True
        if self.open_outputs:
            data["open_outputs"] = True
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Interface:
        """Build from the JSON form."""
        return cls(
            inputs=tuple(data.get("inputs", ())),
            params=tuple(Field.from_dict(item) for item in data.get("params", ())),
            outputs=tuple(Field.from_dict(item) for item in data.get("outputs", ())),
            actions=tuple(data.get("actions", ("default", "error"))),
            open=data.get("open", False),
            open_outputs=data.get("open_outputs", False),
        )


@attrs.frozen(kw_only=True)
class Entry:
    """One node type in the registry.

    Attributes:
        node: The node type, as workflows name it.
        class_name: The class in `module` to instantiate without arguments.
        module: The importable module of the class.
        interface: Parameters, outputs and actions.
        description: What the node does, in words a search can find.
        file_path: Where the class comes from; `virtual://...` for one class behind many entries.
        type: What sort of entry it is, in the source's words.
        source: The name of the `NodeSource` that answers for it.
        purity: `flow_safe` when running it twice does no harm, else `impure`.
        retryable: False for an impure node none of whose failures is ever safe to repeat, so that
            trying it again, where a workflow asks for it, never comes about.
        extra: Keys of the source's own, passed through untouched.
    """

    node: str
    class_name: str
    module: str
    interface: Interface = attrs.field(factory=Interface)
    description: str = ""
    file_path: str = ""
    type: str = "node"
    source: str = ""
    purity: Literal["impure", "flow_safe"] = "impure"
    retryable: bool = True
    extra: Mapping[str, Any] = attrs.field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of `registry describe`: our keys, then the source's own."""
        data: dict[str, Any] = {"node": self.node}
        data.update({key: getattr(self, key) for key in _ENTRY_KEYS})
        data["interface"] = self.interface.to_dict()
        if not self.retryable:
            data["retryable"] = False
        data.update(self.extra)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Entry:
        """Build from the JSON form; keys that are not ours go to `extra`."""
        known = {key: data[key] for key in (*_ENTRY_KEYS, "retryable") if key in data}
        known["interface"] = Interface.from_dict(data.get("interface", {}))
        extra = {key: value for key, value in data.items() if key not in known and key != "node"}
        return cls(node=data["node"], extra=extra, **known)


class Sketch(NamedTuple):
    """As much of an `Entry` as lists and searches need; ten thousand are soon made.

    Attributes:
        node: The node type.
        description: What the node does.
        params: Key and description of each parameter.
        labels: What a list shows beside it: `labels` among the entry's extra keys. `server`, or else
            the source, is the family it belongs to, and `tool` its own name where that is no type.
        source: The name of the `NodeSource` that answers for it.
    """

    node: str
    description: str
    params: Mapping[str, str]
    labels: Mapping[str, Any]
    source: str = ""

    @classmethod
    def of(cls, entry: Entry) -> Sketch:
        """Return the sketch of a whole entry."""
        labels = entry.extra.get("labels")
        return cls(
            node=entry.node,
            description=entry.description,
            params={field.key: field.description for field in entry.interface.params},
            labels=labels if isinstance(labels, dict) else {},
            source=entry.source,
        )


class Node(Protocol):
    """What the class of an `Entry` makes. A `pocketflow.Node` is one.

    A host instantiates the class without arguments, hands it its params (as the workflow gives
    them, templates resolved, what plugins injected, and its own id as `__node_id__`) and runs it
    once. A node writes what it puts out, and `error`, into `shared` under the keys of its
    `Interface`. It fails by raising, or by returning an action other than `default` with the
    reason in `shared["error"]` (and, if it likes, the `PflowError` in `shared["__error__"]`); a
    failure that the workflow routes nowhere fails the run.
    """

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Take the params."""
        ...

    def run(self, shared: MutableMapping[str, Any]) -> str | None:
        """Do the work.

        Args:
            shared: The node's view of the shared store: its own keys, the workflow's inputs and,
                under `__run__`, the `Run` it belongs to.

        Returns:
            The action that chooses the next node; None is `default`.
        """
        ...


@runtime_checkable
class NodeSource(Protocol):
    """Answers for the node types of one plugin.

    A source is cheap to make: it reads nothing until it is asked, and it starts no server.
    It may have two more attributes. `files`: a mapping of the files and folders it reads to what
    each is for, which `config path` shows. `sketches()`: yields a `Sketch` of every entry; lists and
    searches need no more, and take it where making whole entries is slow.
    """

    name: str
    """Unique among sources; `Entry.source` of its entries."""

    prefixes: tuple[str, ...]
    """Its node types start with one of these, e.g. `("mcp-",)`."""

    def fingerprint(self) -> str:
        """Return a text that changes when the entries do; at most 5 ms, by stat only."""
        ...

    def get(self, node_type: str) -> Entry | None:
        """Return the entry of a node type, or of an alias of one; None if there is none."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Yield every entry; called for lists and to build the search index only.

        A `PflowError` says why it cannot tell; lists then do without it, and show that.
        """
        ...

    def missing(self, node_type: str) -> Problem | None:
        """Explain why a node type with our prefix is not there, with the next step."""
        ...

    def upgrade(self, node: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return a workflow node rewritten from an older shape, or None to leave it."""
        ...
