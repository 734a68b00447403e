"""Values that are known when a flow runs: params, items, outputs of steps, and what follows from
them. Operators and calls write an expression of CEL; they compute nothing."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partialmethod
from types import FunctionType
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package "
    "namespace return var void while".split()
)
_ROOTS = frozenset(
    "params item index attempt retries flow steps failure last vars outputs phase reason".split()
)
_REFERABLE = frozenset("params item index attempt retries flow steps failure last vars".split())
# Fields of a step that a reference can name.
_FACTS = frozenset({"outputs", "failure", "phase", "reason", "job"})
# Functions of CEL that take a function.
_LOOPS = frozenset({"all", "exists", "existsOne", "exists_one", "filter", "map"})
_LARGEST = 2**63
_ADVICE = "combine conditions with &, | and ~, in brackets: (a > 1) & (b < 2)"


class _Level(IntEnum):
    """How tightly an operator of CEL binds."""

    CHOICE = 0
    OR = 1
    AND = 2
    RELATION = 3
    SUM = 4
    PRODUCT = 5
    SIGN = 6
    MEMBER = 7


def _operation(left: object, sign: str, level: _Level, right: object) -> Expr:
    # Operators of CEL bind to the left.
    return Expr(
        f"{_in(left, level)} {sign} {_in(right, level + 1)}", level=level, is_condition=False
    )


def _compared(left: object, sign: str, right: object) -> Expr:
    # `a < b < c` has no meaning in CEL, so a comparison in another one has brackets.
    written = f"{_in(left, _Level.SUM)} {sign} {_in(right, _Level.SUM)}"
    return Expr(written, level=_Level.RELATION, is_condition=True)


def _joined(left: object, sign: str, level: _Level, right: object) -> Expr:
    _check_condition(left)
    _check_condition(right)
    return Expr(f"{_in(left, level)} {sign} {_in(right, level)}", level=level, is_condition=True)


def _swapped(write: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda right, sign, level, left: write(left, sign, level, right)


class Expr:
    """A value of a flow that runs. `x.key`, `x["key"]` and `x[0]` are its entries, `x.max()` is a
    function of CEL, and comparisons, `+`, `-`, `*`, `/`, `&`, `|` and `~` are operators. In an
    f-string it is a reference such as `$(item)`."""

    __slots__ = ("_called", "_cel", "_is_condition", "_level", "_path")

    def __init__(
        self,
        cel: str,
        *,
        path: tuple[str | int, ...] = (),
        level: int = _Level.MEMBER,
        is_condition: bool | None = None,
        called: bool = False,
    ) -> None:
        self._cel = cel
        self._path = path
        """The variable and its keys; empty if a reference cannot name the value."""
        self._level = level
        self._is_condition = is_condition
        """None if that is not known."""
        self._called = called
        """Whether a call of it is a call of a function."""

    def __repr__(self) -> str:
        return f"Expr({self._cel})"

    def __str__(self) -> str:
        reference = reference_to(self)
        if reference is None:
            raise TypeError(
                f"a text cannot contain {self._cel}, which is computed: give it a name with "
                'vars={"x": ...} and write var.x, or pass it as the whole value'
            )
        return reference

    def __format__(self, spec: str) -> str:
        if spec:
            raise TypeError(f"{self._cel} has no value yet, so it cannot be formatted: {spec!r}")
        return str(self)

    def __getattr__(self, name: str) -> Expr:
        # Python asks for names such as __deepcopy__ too, which are no entries.
        if name.startswith("_"):
            raise AttributeError(name)
        return self._entry(name, called=True)

    def __getitem__(self, key: str | int | Expr) -> Expr:
        return self._entry(key)

    def _entry(self, key: str | int | Expr, *, called: bool = False) -> Expr:
        # CEL reads a word of its own after a dot as that word.
        if isinstance(key, str) and _NAME.fullmatch(key) and key not in _RESERVED:
            written = f".{key}"
        else:
            written = f"[{to_cel(key)}]"
        # A reference has no keys that are computed.
        path = (*self._path, key) if self._path and not isinstance(key, Expr) else ()
        return Expr(f"{_in(self, _Level.MEMBER)}{written}", path=path, called=called)

    def __call__(self, *arguments: object) -> Expr:
        if not self._called:
            raise TypeError(f"{self._cel} is not a function")
        function = self._cel.rpartition(".")[2]
        written = ", ".join(_argument(function, each) for each in arguments)
        return Expr(f"{self._cel}({written})")

    def is_in(self, values: object) -> Expr:
        """Return whether it is one of these values, or a key of this map."""
        written = f"{_in(self, _Level.RELATION)} in {_in(values, _Level.SUM)}"
        return Expr(written, level=_Level.RELATION, is_condition=True)

    __eq__ = partialmethod(_compared, "==")  # type: ignore[assignment]
    __ne__ = partialmethod(_compared, "!=")  # type: ignore[assignment]
    __lt__ = partialmethod(_compared, "<")
    __le__ = partialmethod(_compared, "<=")
    __gt__ = partialmethod(_compared, ">")
    __ge__ = partialmethod(_compared, ">=")
    # Equality is an expression here, so a set or a dict could not compare two of them.
    __hash__ = None  # type: ignore[assignment]

    __and__ = partialmethod(_joined, "&&", _Level.AND)
    __rand__ = partialmethod(_swapped(_joined), "&&", _Level.AND)
    __or__ = partialmethod(_joined, "||", _Level.OR)
    __ror__ = partialmethod(_swapped(_joined), "||", _Level.OR)
    __add__ = partialmethod(_operation, "+", _Level.SUM)
    __radd__ = partialmethod(_swapped(_operation), "+", _Level.SUM)
    __sub__ = partialmethod(_operation, "-", _Level.SUM)
    __rsub__ = partialmethod(_swapped(_operation), "-", _Level.SUM)
    __mul__ = partialmethod(_operation, "*", _Level.PRODUCT)
    __rmul__ = partialmethod(_swapped(_operation), "*", _Level.PRODUCT)

    def __invert__(self) -> Expr:
        _check_condition(self)
        return Expr(f"!{_in(self, _Level.MEMBER)}", level=_Level.SIGN, is_condition=True)

    def __neg__(self) -> Expr:
        return Expr(f"-{_in(self, _Level.MEMBER)}", level=_Level.SIGN, is_condition=False)

    def __truediv__(self, other: object) -> Expr:
        # In CEL two integers divide to an integer, in Python to a float.
        return _operation(cel.double(self), "/", _Level.PRODUCT, cel.double(other))

    def __rtruediv__(self, other: object) -> Expr:
        return _operation(cel.double(other), "/", _Level.PRODUCT, cel.double(self))

    def __bool__(self) -> bool:
        raise TypeError(
            f"{self._cel} has no value before the flow runs, so Python cannot decide it: "
            f"{_ADVICE}; write when= instead of if, x.is_in(y) instead of x in y, and two "
            "comparisons instead of a < x < b"
        )

    def __contains__(self, value: object) -> bool:
        raise TypeError(f"write cel(...) or x.is_in(...) instead of `in`: {self._cel} has no value")

    def __iter__(self) -> Any:
        raise TypeError(
            f"{self._cel} has no entries before the flow runs: use for_each=, or "
            "x.map(lambda each: ...)"
        )

    def __len__(self) -> int:
        raise TypeError(f"{self._cel} has no length before the flow runs: write x.size()")


class _Functions:
    """Expressions of CEL as they are written there, and its functions: `cel("params.n + 1")`,
    `cel.has(x.outputs.y)`, `cel.double(x)`."""

    def __call__(self, text: str) -> Expr:
        """Return an expression that is written in CEL."""
        return Expr(text, level=_Level.CHOICE)

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("_"):
            raise AttributeError(name)

        def call(*arguments: object) -> Expr:
            condition = True if name == "has" else None
            written = ", ".join(_argument(name, each) for each in arguments)
            return Expr(f"{name}({written})", is_condition=condition)

        return call


cel = _Functions()


def choose(condition: Expr, yes: object, no: object) -> Expr:
    """Return one of two values: CEL's `condition ? yes : no`."""
    _check_condition(condition)
    parts = (_in(each, _Level.OR) for each in (condition, yes, no))
    return Expr("{} ? {} : {}".format(*parts), level=_Level.CHOICE)


def variable(*path: str) -> Expr:
    """Return a variable of flows, or an entry of it."""
    first, *keys = path
    found = Expr(first, path=(first,))
    for key in keys:
        found = found[key]
    return found


def step_value(name: str) -> Expr:
    """Return a step as expressions see it: `steps["name"]`."""
    return Expr(f"steps[{to_cel(name)}]", path=("steps", name))


def to_cel(value: object) -> str:
    """Return a value as CEL writes it. Raises TypeError."""
    if isinstance(value, Expr):
        return value._cel
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, int):
        if not -_LARGEST <= value < _LARGEST:
            raise TypeError(f"{value} is larger than 64 bits")
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise TypeError(f"{value} is no number of JSON")
        return repr(value)
    if isinstance(value, Mapping):
        entries = (f"{to_cel(key)}: {to_cel(each)}" for key, each in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_cel, value)) + "]"
    kind = type(value).__name__
    advice = ": write step.outputs.NAME, or step.result" if kind == "Step" else ""
    raise TypeError(f"an expression cannot contain a {kind}{advice}")


def reference_to(expr: Expr) -> str | None:
    """Return `$(params.x)`, or None if no reference can name the value."""
    # Imported when needed: most flows in Python write no reference.
    from jobflow.core.cel.references import as_item, parse_reference

    if not expr._path or expr._path[0] not in _REFERABLE:
        return None
    root, *keys = map(str, expr._path)
    if root == "steps" and _FACTS.isdisjoint(keys[2:3] if keys[1:2] == ["item"] else keys[1:2]):
        return None
    if (root in ("steps", "params", "vars", "flow") and not keys) or not all(keys):
        return None
    # Such a key would end the reference early.
    if any(re.search(r"[()$\s]", key) for key in keys):
        return None
    path = ".".join((root, *keys))
    parsed = parse_reference(path).keys
    if root == "steps" and keys[1] == "item":
        parsed = as_item(parsed, lambda name: False)
    return f"$({path})" if parsed == tuple(keys) else None


def has_expr(value: object) -> bool:
    """Return whether a value is of the run, or contains one."""
    if isinstance(value, Mapping):
        return any(map(has_expr, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_expr, value))
    return isinstance(value, Expr)


def has_reference(text: str) -> bool:
    """Return whether a text has a reference, as an f-string with a value of the run has."""
    from jobflow.core.cel.references import has_reference

    return "$(" in text and has_reference(text)


def _in(value: object, level: int) -> str:
    """Return a value as an operand of an operator, in brackets if it binds less tightly."""
    own = value._level if isinstance(value, Expr) else _Level.MEMBER
    if isinstance(value, int | float) and value < 0:
        own = _Level.SIGN
    return to_cel(value) if own >= level else f"({to_cel(value)})"


def _check_condition(value: object) -> None:
    """Refuse `a > 1 & b > 2`, which Python reads as `a > (1 & b) > 2`."""
    # True is allowed, so that a condition can be built in a loop.
    is_known = isinstance(value, Expr) and value._is_condition is not False
    if not is_known and not isinstance(value, bool):
        shown = value._cel if isinstance(value, Expr) else repr(value)
        raise TypeError(f"{shown} is no condition: {_ADVICE}")


def _argument(function: str, value: object) -> str:
    """Return an argument of a call; `lambda each: x` becomes the two arguments `each, x`."""
    if not isinstance(value, FunctionType):
        return to_cel(value)
    names = [*inspect.signature(value).parameters]
    if len(names) != 1:
        raise TypeError("a function in an expression has one parameter: lambda each: ...")
    [name] = names
    if name in _ROOTS or name in _RESERVED or not _NAME.fullmatch(name):
        raise TypeError(f"{name} has a meaning in expressions: give the parameter another name")
    body = value(Expr(name, path=(name,)))
    if function in _LOOPS:
        return f"{name}, {to_cel(body)}"
    by_path = {"max": "maxBy", "min": "minBy"}.get(function, function)
    if by_path not in ("maxBy", "minBy"):
        loops = ", ".join(sorted(_LOOPS))
        raise TypeError(f"{function} takes no function; those that do are {loops}")
    keys = body._path[1:] if isinstance(body, Expr) else ()
    path = ".".join(map(str, keys)) or "outputs.accuracy"
    raise TypeError(f'{function} takes no function: write {by_path}("{path}"), the path of a value')


item = variable("item")
"""The item of this run, in a step with for_each."""
items = variable("items")
"""In for_each.until: the index, item, phase and outputs of the items that have ended."""
index = variable("index")
"""The index of this run, from 0, in a step with for_each or repeat."""
attempt = variable("attempt")
"""The number of the attempt, from 1."""
retries = variable("retries")
"""The number of failures before the attempt that count towards retry.limit, from 0."""
failure = variable("failure")
"""How the attempt before failed: exitCode, signal, reason, node, task, pod, message, ..."""
last = variable("last")
"""Outputs and index of the run before, in a step with repeat."""
var = variable("vars")
"""The vars of the step: `var.x`."""
outputs = variable("outputs")
"""In repeat.until and retry.when: the outputs of the run that has just ended."""
phase = variable("phase")
"""In repeat.until and retry.when: the phase of the run that has just ended."""
reason = variable("reason")
"""In repeat.until and retry.when: the reason of the run that has just ended."""
