"""Small changes of a syntax tree, at a place that is found by its symbol, or wherever they fit.

A place is a function, a class or a constant, named by the end of its dotted name: `Pool.close`
lies in whichever module defines it. What changes there is found by the names, attributes, keywords
and strings in it. Moving or renaming a module, reformatting and rewording a message are therefore
free; whoever renames a symbol corrects one word.
"""

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import attrs

_CONDITIONS = {
    (ast.If, "test"),
    (ast.While, "test"),
    (ast.IfExp, "test"),
    (ast.comprehension, "ifs"),
    (ast.BoolOp, "values"),
}
"""Where a condition stands: the kind of the node above it, and the field there."""
_SIMPLE_STATEMENTS = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Raise, ast.Return)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_OPPOSITES = {ast.Eq: ast.NotEq, ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Is: ast.IsNot, ast.In: ast.NotIn}
_OPPOSITES |= {other: one for one, other in _OPPOSITES.items()}
_BOUNDS = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}


@attrs.frozen
class Slot:
    """The position of a node in its tree.

    Attributes:
        parent: The node above it.
        field: The field of the parent that holds it.
        index: Its position, where that field is a list.
        node: What stands there.
    """

    parent: ast.AST
    field: str
    index: int | None
    node: ast.AST

    @classmethod
    def below(cls, root: ast.AST) -> Iterator[Self]:
        """Yield the positions of all nodes below one."""
        for parent in ast.walk(root):
            for field, value in ast.iter_fields(parent):
                if isinstance(value, ast.AST):
                    yield cls(parent, field, None, value)
                elif isinstance(value, list):
                    nodes = ((index, node) for index, node in enumerate(value) if isinstance(node, ast.AST))
                    yield from (cls(parent, field, index, node) for index, node in nodes)

    def put(self, nodes: Sequence[ast.AST]) -> None:
        """Replace the node."""
        if self.index is None:
            (node,) = nodes
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index : self.index + 1] = nodes


@attrs.frozen
class Mutation:
    """A change of the one node that fits.

    Attributes:
        description: What it does, in a few words.
        fits: Whether a node is of the kind that is changed.
        changed: Returns what replaces it.
        words: All of them occur in the node, and in no smaller one that fits.
    """

    description: str
    fits: Callable[[Slot], bool] = attrs.field(repr=False)
    changed: Callable[[Any], Sequence[ast.AST]] = attrs.field(repr=False)
    words: frozenset[str] = frozenset()

    def edits(self, root: ast.AST) -> list[Callable[[], None]]:
        """Return what makes the change, for each node below `root` that fits."""
        found = [slot for slot in Slot.below(root) if self.fits(slot) and self.words <= _words(slot.node)]
        holders = {id(slot.node) for slot in found for other in found if _holds(slot.node, other.node)}
        return [partial(slot.put, self.changed(slot.node)) for slot in found if id(slot.node) not in holders]


def never(*words: str) -> Mutation:
    """Make a condition, or an operand of `and` and `or`, false."""
    return _replacing("never", words, _is_condition, lambda _: [ast.Constant(value=False)])


def always(*words: str) -> Mutation:
    """Make a condition, or an operand of `and` and `or`, true."""
    return _replacing("always", words, _is_condition, lambda _: [ast.Constant(value=True)])


def drop(*words: str) -> Mutation:
    """Leave out a statement."""
    return _replacing("drop", words, _is_statement, lambda _: [ast.Pass()])


def instead(*words: str, code: str) -> Mutation:
    """Put other statements in the place of one."""
    return _replacing(
        f"{code.strip().splitlines()[0]} instead of", words, _is_statement, lambda _: ast.parse(code).body
    )


def bare(name: str) -> Mutation:
    """Put the first argument of a call in its place."""
    return Mutation(f"only the argument of {name}()", _is_call(name), lambda call: [call.args[0]])


def gives(name: str, value: object) -> Mutation:
    """Put a value in the place of a call."""
    return Mutation(f"{name}() gives {value!r}", _is_call(name), lambda _: [ast.Constant(value=value)])


def first_argument(name: str, value: object) -> Mutation:
    """Pass another first argument to a call."""

    def changed(call: ast.Call) -> list[ast.AST]:
        arguments = [ast.Constant(value=value), *call.args[1:]]
        return [ast.Call(func=call.func, args=arguments, keywords=call.keywords)]

    return Mutation(f"{name}({value!r})", _is_call(name), changed)


def keyword(name: str, value: object) -> Mutation:
    """Pass another value as a keyword argument."""

    def fits(slot: Slot) -> bool:
        return isinstance(slot.node, ast.keyword) and slot.node.arg == name

    return Mutation(
        f"{name}={value!r}", fits, lambda _: [ast.keyword(arg=name, value=ast.Constant(value=value))]
    )


def call_other(name: str, other: str) -> Mutation:
    """Call another function, from the same module or object."""

    def changed(call: ast.Call) -> list[ast.AST]:
        function = copy.deepcopy(call.func)
        setattr(function, "attr" if isinstance(function, ast.Attribute) else "id", other)
        return [ast.Call(func=function, args=call.args, keywords=call.keywords)]

    return Mutation(f"{other}() instead of {name}()", _is_call(name), changed)


def outside(*words: str) -> Mutation:
    """Run the body of a `with` statement outside its context manager."""

    def changed(item: ast.withitem) -> list[ast.AST]:
        nothing = ast.parse("__import__('contextlib').nullcontext()", mode="eval").body
        return [ast.withitem(context_expr=nothing, optional_vars=item.optional_vars)]

    return _replacing("outside", words, lambda slot: isinstance(slot.node, ast.withitem), changed)


def uncaught(*words: str) -> Mutation:
    """Let an `except` clause catch nothing."""

    def fits(slot: Slot) -> bool:
        return isinstance(slot.parent, ast.ExceptHandler) and slot.field == "type"

    return _replacing("uncaught", words, fits, lambda _: [ast.Tuple(elts=[], ctx=ast.Load())])


def constant(value: object) -> Mutation:
    """Give another value to a constant, which is the place itself."""

    def fits(slot: Slot) -> bool:
        return isinstance(slot.parent, ast.Assign | ast.AnnAssign) and slot.field == "value"

    return Mutation(f"= {value!r}", fits, lambda _: [ast.Constant(value=value)])


def without_key(key: object) -> Mutation:
    """Leave a key out of a dictionary."""

    def is_key(node: ast.AST | None) -> bool:
        return isinstance(node, ast.Constant) and node.value == key

    def changed(table: ast.Dict) -> list[ast.AST]:
        pairs = [pair for pair in zip(table.keys, table.values, strict=True) if not is_key(pair[0])]
        return [ast.Dict(keys=[name for name, _ in pairs], values=[value for _, value in pairs])]

    return Mutation(
        f"without key {key!r}",
        lambda slot: isinstance(slot.node, ast.Dict) and any(map(is_key, slot.node.keys)),
        changed,
    )


def _kind(
    description: str, fits: Callable[[ast.AST], bool], changed: Callable[[Any], Sequence[ast.AST]]
) -> Mutation:
    return Mutation(description, lambda slot: fits(slot.node), changed)


def _comparison(description: str, others: dict[type[ast.cmpop], type[ast.cmpop]]) -> Mutation:
    def fits(node: ast.AST) -> bool:
        return isinstance(node, ast.Compare) and type(node.ops[0]) in others

    def changed(node: ast.Compare) -> list[ast.AST]:
        operators = [others[type(node.ops[0])](), *node.ops[1:]]
        return [ast.Compare(left=node.left, ops=operators, comparators=node.comparators)]

    return _kind(description, fits, changed)


def _with_other_operator(node: ast.BoolOp) -> list[ast.AST]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    return [ast.BoolOp(op=other, values=node.values)]


def _negates(node: ast.AST) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _chooses(slot: Slot) -> bool:
    """Whether an expression chooses a branch, and no other kind turns it round."""
    chooses = isinstance(slot.parent, ast.If | ast.IfExp | ast.While) and slot.field == "test"
    turned = isinstance(slot.node, ast.Compare | ast.BoolOp | ast.Constant) or _negates(slot.node)
    return chooses and not turned


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _is_truth(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _returns(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant)
    )


def _has_effect(node: ast.AST) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    bare_return = isinstance(node, ast.Return) and node.value is None
    called = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await)
    return called or bare_return or isinstance(node, ast.AugAssign | ast.Delete | ast.Continue | ast.Break)


def _is_named_argument(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and not isinstance(node.value, ast.Constant)


def _adds(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub)


def _subtracted(node: ast.BinOp) -> list[ast.AST]:
    other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
    return [ast.BinOp(left=node.left, op=other, right=node.right)]


KINDS = (
    _comparison("opposite comparison", _OPPOSITES),
    _comparison("bound included or excluded", _BOUNDS),
    _kind("and / or swapped", lambda node: isinstance(node, ast.BoolOp), _with_other_operator),
    _kind("not removed", _negates, lambda node: [node.operand]),
    Mutation("branches swapped", _chooses, lambda test: [ast.UnaryOp(op=ast.Not(), operand=test)]),
    _kind("number off by one", _is_number, lambda node: [ast.Constant(value=node.value + 1)]),
    _kind("true / false swapped", _is_truth, lambda node: [ast.Constant(value=not node.value)]),
    _kind("returns None", _returns, lambda _: ast.parse("return None").body),
    _kind("statement left out", _has_effect, lambda _: [ast.Pass()]),
    _kind("raise left out", lambda node: isinstance(node, ast.Raise), lambda _: [ast.Pass()]),
    _kind("argument left out", _is_named_argument, lambda _: []),
    _kind("+ / - swapped", _adds, _subtracted),
)
"""Kinds of changes that fit in many places, of which `random_mutations.py` draws some."""


class Package:
    """The syntax trees of a package, parsed once and never changed.

    Args:
        folder: The package.

    Attributes:
        paths: Its files, below the folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.paths = [path.relative_to(folder) for path in sorted(folder.rglob("*.py"))]
        self._symbols = [
            (symbol, path, node)
            for path in self.paths
            for symbol, node in _definitions(path, self.tree(path))
        ]

    def tree(self, path: Path) -> ast.Module:
        """Return a new tree of a file below the package."""
        return ast.parse((self._folder / path).read_bytes())

    def mutated(self, place: str, mutation: Mutation) -> tuple[Path, ast.Module]:
        """Return the file that defines a place, below the package, and its tree with the change made.

        Args:
            place: The end of the dotted name of a function, a class or a constant.
            mutation: The change to it.
        """
        places = [(path, node) for symbol, path, node in self._symbols if _ends_with(symbol, place)]
        if not places:
            raise LookupError(f"{place}: not in the package")
        found = [path for path, node in places for _ in mutation.edits(node)]
        if len(found) != 1:
            where = ", ".join(sorted({str(path) for path, _ in places}))
            raise LookupError(f"{place}: {mutation.description}: fits {len(found)} times in {where}")
        tree = self.tree(found[0])
        nodes = [node for symbol, node in _definitions(found[0], tree) if _ends_with(symbol, place)]
        (edit,) = (edit for node in nodes for edit in mutation.edits(node))
        edit()
        return found[0], ast.fix_missing_locations(tree)


def _ends_with(symbol: str, place: str) -> bool:
    return f".{symbol}".endswith(f".{place}")


def _definitions(path: Path, tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Yield the dotted names of what a module defines, and the nodes."""
    module = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    return _defined_in(tree, module)


def _defined_in(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield f"{prefix}.{child.name}", child
            yield from _defined_in(child, f"{prefix}.{child.name}")
        elif isinstance(child, ast.Assign | ast.AnnAssign):
            targets = child.targets if isinstance(child, ast.Assign) else [child.target]
            yield from ((f"{prefix}.{each.id}", child) for each in targets if isinstance(each, ast.Name))
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _defined_in(child, prefix)


def _replacing(
    verb: str,
    words: tuple[str, ...],
    fits: Callable[[Slot], bool],
    changed: Callable[[Any], Sequence[ast.AST]],
) -> Mutation:
    return Mutation(f"{verb} {', '.join(words)}", fits, changed, frozenset(words))


def _is_condition(slot: Slot) -> bool:
    return (type(slot.parent), slot.field) in _CONDITIONS


def _is_statement(slot: Slot) -> bool:
    return isinstance(slot.node, _SIMPLE_STATEMENTS)


def _is_call(name: str) -> Callable[[Slot], bool]:
    def fits(slot: Slot) -> bool:
        function = slot.node.func if isinstance(slot.node, ast.Call) else None
        return name in (getattr(function, "id", None), getattr(function, "attr", None))

    return fits


def _words(node: ast.AST) -> set[str]:
    """Return the names, attributes, keywords and strings that occur in a node."""
    found = set()
    for each in ast.walk(node):
        values = (getattr(each, field, None) for field in ("id", "attr", "arg", "value"))
        found.update(value for value in values if isinstance(value, str))
    return found


def _holds(node: ast.AST, other: ast.AST) -> bool:
    return node is not other and any(inner is other for inner in ast.walk(node))
