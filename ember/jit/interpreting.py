"""TorchScript source as closures: each expression and statement becomes a function of the local
variables.

Nothing is given to Python to execute: a construct that is not written below is refused, names mean
what the archive or the table of ops says, and attributes are those of the archive's own objects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ember.errors import check
from ember.jit.loaded import attribute, set_attribute
from ember.jit.script_ops import NAMES, OPS, subscript

Locals = dict[str, Any]
Expression = Callable[[Locals], Any]
Statement = Callable[[Locals], Any]
ROOTS = ("torch", "ops", "prim", "aten", "__torch__", "CONSTANTS")
TYPE_WORDS = ("annotate", "unchecked_cast", "uninitialized", "isinstance")


class Return(Exception):
    """Leaves a function."""

    def __init__(self, value: Any):
        super().__init__()
        self.value = value


class _Break(Exception):
    """Leaves a loop."""


class _Continue(Exception):
    """Goes on to the next turn of a loop."""


def refusal(node: ast.AST) -> NotImplementedError:
    """The error for a construct that is not interpreted."""
    return NotImplementedError(
        f"torch.jit.load: the archive's source has a {type(node).__name__} "
        f"({ast.unparse(node)[:80]!r}), which is not interpreted"
    )


def dotted(node: ast.AST) -> list[str] | None:
    """The parts of a name with dots; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(parts)]


class Compiler:
    """Turns the functions of an archive into closures. `resolve` gives the archive's own names."""

    def __init__(self, resolve: Callable[[list[str]], Any]):
        self.resolve = resolve

    # functions

    def function(self, node: ast.FunctionDef, source: str = "") -> Callable[..., Any]:
        """A function of the archive as one of Python."""
        given = node.args
        plain = not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs)
        check(plain and not node.decorator_list, NotImplementedError, f"function {node.name}")
        names = [arg.arg for arg in given.args]
        defaults = [self.expression(default)({}) for default in given.defaults]
        by_default = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        body = self.block(node.body)

        def run(*args: Any, **kwargs: Any) -> Any:
            frame = bind(node.name, names, by_default, args, kwargs)
            try:
                body(frame)
            except Return as done:
                return done.value
            return None

        run.__name__ = run.__qualname__ = node.name
        run.__doc__ = f"`{node.name}` of the archive."
        run.source = source  # type: ignore[attr-defined]
        return run

    # statements

    def block(self, nodes: list[ast.stmt]) -> Statement:
        """Statements one after another."""
        steps = [self.statement(node) for node in nodes if not isinstance(node, ast.Pass)]

        def run(frame: Locals) -> None:
            for step in steps:
                step(frame)

        return run

    def statement(self, node: ast.stmt) -> Statement:
        """One statement."""
        if isinstance(node, ast.Expr):
            return self.expression(node.value)
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return self.assignment(node.targets[0], self.expression(node.value))
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            return self.assignment(node.target, self.expression(node.value))
        if isinstance(node, ast.If):
            return self.branch(node)
        if isinstance(node, ast.For):
            return self.for_loop(node)
        if isinstance(node, ast.While):
            return self.while_loop(node)
        if isinstance(node, ast.Return):
            return self.returning(node)
        if isinstance(node, ast.With):
            return self.with_block(node)
        if isinstance(node, (ast.Break, ast.Continue)):
            return _leave(_Break if isinstance(node, ast.Break) else _Continue)
        raise refusal(node)

    def returning(self, node: ast.Return) -> Statement:
        """A return statement."""
        value = self.expression(node.value) if node.value is not None else lambda frame: None

        def leave(frame: Locals) -> None:
            raise Return(value(frame))

        return leave

    def branch(self, node: ast.If) -> Statement:
        """An if statement."""
        test, yes, no = self.expression(node.test), self.block(node.body), self.block(node.orelse)

        def run(frame: Locals) -> None:
            if test(frame):
                yes(frame)
            else:
                no(frame)

        return run

    def for_loop(self, node: ast.For) -> Statement:
        """A loop over a range or a list."""
        values, body = self.expression(node.iter), self.block(node.body)
        check(not node.orelse, NotImplementedError, "for ... else")
        current: list[Any] = [None]
        assign = self.assignment(node.target, lambda frame: current[-1])

        def run(frame: Locals) -> None:
            for value in values(frame):
                current[-1] = value
                assign(frame)
                try:
                    body(frame)
                except _Continue:
                    continue
                except _Break:
                    break

        return run

    def while_loop(self, node: ast.While) -> Statement:
        """A loop with a condition."""
        test, body = self.expression(node.test), self.block(node.body)
        check(not node.orelse, NotImplementedError, "while ... else")

        def run(frame: Locals) -> None:
            while test(frame):
                try:
                    body(frame)
                except _Continue:
                    continue
                except _Break:
                    break

        return run

    def with_block(self, node: ast.With) -> Statement:
        """A block of one of the archive's context managers."""
        check(len(node.items) == 1, NotImplementedError, "with several managers")
        manager, body = self.expression(node.items[0].context_expr), self.block(node.body)
        target = node.items[0].optional_vars

        def run(frame: Locals) -> None:
            with manager(frame) as entered:
                if target is not None:
                    self.assignment(target, lambda frame: entered)(frame)
                body(frame)

        return run

    def assignment(self, target: ast.expr, value: Expression) -> Statement:
        """A store into a variable, an attribute, an element, or several of them."""
        if isinstance(target, ast.Name):
            name = target.id
            return lambda frame: frame.__setitem__(name, value(frame))
        if isinstance(target, ast.Attribute):
            owner, attr = self.expression(target.value), target.attr
            return lambda frame: set_attribute(owner(frame), attr, value(frame))
        if isinstance(target, (ast.Tuple, ast.List)):
            taken: list[Any] = [None]
            stores = [
                self.assignment(part, lambda frame, i=i: taken[-1][i])  # type: ignore[misc]
                for i, part in enumerate(target.elts)
            ]

            def unpack(frame: Locals) -> None:
                found = list(value(frame))
                check(len(found) == len(stores), RuntimeError, "Provided invalid number of values")
                for i, store in enumerate(stores):
                    taken[-1] = found
                    check(i < len(found), RuntimeError, "too few values")
                    store(frame)

            return unpack
        raise refusal(target)

    # expressions

    def expression(self, node: ast.expr) -> Expression:
        """One expression."""
        if isinstance(node, ast.Constant):
            return _constant(node.value)
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.call(node)
        if isinstance(node, ast.Subscript):
            owner, index = self.expression(node.value), self.expression(node.slice)
            return lambda frame: subscript(owner(frame), index(frame))
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [self.expression(part) for part in node.elts]
            if isinstance(node, ast.Tuple):
                return lambda frame: tuple([part(frame) for part in parts])
            return lambda frame: [part(frame) for part in parts]
        if isinstance(node, ast.Dict):
            keys = [self.expression(key) for key in node.keys if key is not None]
            values = [self.expression(value) for value in node.values]
            return lambda frame: {k(frame): v(frame) for k, v in zip(keys, values, strict=True)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            operand = self.expression(node.operand)
            return lambda frame: -operand(frame)
        raise refusal(node)

    def name(self, node: ast.Name) -> Expression:
        """A local variable, or one of the few words of the language."""
        name = node.id

        def read(frame: Locals) -> Any:
            if name in frame:
                return frame[name]
            check(name in NAMES, NameError, f"the archive uses {name!r}, which has no value")
            return NAMES[name]

        return read

    def attribute(self, node: ast.Attribute) -> Expression:
        """A name of the archive or of the ops, or an attribute of an object."""
        parts = dotted(node)
        if parts is not None and parts[0] in ROOTS:
            return self.global_name(parts)
        owner, attr = self.expression(node.value), node.attr
        return lambda frame: attribute(owner(frame), attr)

    def global_name(self, parts: list[str]) -> Expression:
        """What a dotted name outside the function means; looked up when it is used first."""
        found: list[Any] = []

        def read(frame: Locals) -> Any:
            if not found:
                found.append(self.lookup(parts))
            return found[0]

        return read

    def lookup(self, parts: list[str]) -> Any:
        """An op, or something of the archive."""
        if parts[0] in ("__torch__", "CONSTANTS"):
            return self.resolve(parts)
        return OPS.find(parts)

    def call(self, node: ast.Call) -> Expression:
        """A call of an op, of a function or method of the archive, or of a word of the language."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in TYPE_WORDS:
            return self.typed(function.id, node)
        if isinstance(function, ast.Name) and function.id == "getattr":
            owner, attr = self.expression(node.args[0]), node.args[1]
            name = attr.value if isinstance(attr, ast.Constant) else ""
            check(isinstance(name, str), NotImplementedError, "getattr of a name that is not text")
            return lambda frame: attribute(owner(frame), str(name))
        called = self.expression(function)
        args = [self.expression(arg) for arg in node.args]
        named = [(k.arg, self.expression(k.value)) for k in node.keywords if k.arg is not None]
        check(len(named) == len(node.keywords), NotImplementedError, "a call with **")
        if not named:
            return lambda frame: called(frame)(*[arg(frame) for arg in args])
        return lambda frame: called(frame)(
            *[arg(frame) for arg in args], **{name: value(frame) for name, value in named}
        )

    def typed(self, word: str, node: ast.Call) -> Expression:
        """The words that take a type: it is dropped, but for `isinstance`."""
        if word == "uninitialized":
            return lambda frame: None
        if word == "isinstance":
            value, kinds = self.expression(node.args[0]), _types(node.args[1])
            return lambda frame: isinstance(value(frame), kinds)
        return self.expression(node.args[1])


def _constant(value: Any) -> Expression:
    check(
        value is None or isinstance(value, (bool, int, float, complex, str)),
        NotImplementedError,
        f"torch.jit.load: a constant {value!r}",
    )
    return lambda frame: value


def _leave(signal: type[Exception]) -> Statement:
    def leave(frame: Locals) -> None:
        raise signal

    return leave


def _types(node: ast.expr) -> tuple[type, ...]:
    """The Python classes of a type expression, or of several."""
    if isinstance(node, (ast.Tuple, ast.List)):
        return tuple(kind for part in node.elts for kind in _types(part))
    if isinstance(node, ast.Subscript):
        node = node.value
    parts = dotted(node)
    kind = NAMES.get(f"type:{parts[-1]}") if parts else None
    if kind is None:
        raise refusal(node)
    return (kind,)


def bind(
    function: str,
    names: list[str],
    defaults: dict[str, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Locals:
    """The local variables that a call begins with; RuntimeError as TorchScript's for wrong ones."""
    check(
        len(args) <= len(names),
        RuntimeError,
        f"{function}() expected at most {len(names)} argument(s) but received {len(args)} "
        "argument(s)",
    )
    frame = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        check(
            name in names and name not in frame,
            RuntimeError,
            f"Unknown keyword argument '{name}' for operator '{function}'",
        )
        frame[name] = value
    for name in names:
        if name not in frame:
            check(
                name in defaults,
                RuntimeError,
                f"{function}() is missing value for argument '{name}'",
            )
            frame[name] = defaults[name]
    return frame
