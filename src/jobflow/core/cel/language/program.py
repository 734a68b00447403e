"""Turns the tree of an expression into a program, and says which names and functions it uses.

A program is one Python function inside another, and takes a Frame. A node costs one step, which is
taken before anything runs: of the whole expression once, and of the body of a loop for each entry.
What takes longer than that, or makes something, takes from the budget itself (`cel_values`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jobflow.core.cel.language import macros as cel_loops
from jobflow.core.cel.language.budget import CelError
from jobflow.core.cel.language.functions import LOOPS, call
from jobflow.core.cel.language.macros import Frame, Run, Step, bound_path, chained, path
from jobflow.core.cel.language.patterns import Pattern, Patterns, matched
from jobflow.core.cel.language.syntax import (
    Call,
    CelSyntaxError,
    Chain,
    Choice,
    Field,
    Index,
    ListOf,
    Literal,
    MapOf,
    Name,
    Node,
    Operation,
    Sign,
)
from jobflow.core.cel.language.values import (
    calculated,
    contained,
    equal,
    key_of,
    kind_of,
    negated,
    ordered,
    refused,
    shown,
    taken,
)
from jobflow.core.cel.variables import Compared, Mention, written_keys

_CALL = 6
"""Steps of a function besides what it looks at."""


class Called(NamedTuple):
    """A function or macro that an expression calls."""

    name: str
    at: int
    """Where its name begins in the text, from 0."""
    of: bool
    """Whether it is called on something: `x.size()`, not `size(x)`."""


@dataclass(slots=True)
class Program:
    """An expression that can be run, and what it is made of."""

    run: Run
    cost: int
    """Steps that it takes without its loops."""
    slots: int
    """Variables of loops within each other."""
    mentions: tuple[Mention, ...]
    """Variables from outside, in the order of the text."""
    calls: tuple[Called, ...]
    """In the order of the text."""
    compared: Sequence[Compared]


def program(tree: Node) -> Program:
    """Compile a tree. Raises CelSyntaxError for what is never right, whatever the values are."""
    compiler = _Compiler()
    run = compiler.compiled(tree)
    return Program(
        run,
        compiler.cost + compiler.patterns.cost,
        compiler.slots,
        tuple(compiler.mentions),
        tuple(compiler.calls),
        compiler.compared,
    )


@dataclass(slots=True)
class _Compiler:
    mentions: list[Mention] = field(default_factory=list)
    calls: list[Called] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    """Names that the loops around bind; the place of each is its slot."""
    slots: int = 0
    cost: int = 0
    patterns: Patterns = field(default_factory=Patterns)

    def compiled(self, node: Node) -> Run:
        self.cost += 1
        return _COMPILED[type(node)](self, node)

    def all(self, nodes: Sequence[Node]) -> list[Run]:
        return [self.compiled(node) for node in nodes]

    # ---------------------------------------------------------------------- values

    def literal(self, node: Literal) -> Run:
        value = node.value
        return lambda frame: value

    def list_of(self, node: ListOf) -> Run:
        entries = self.all(node.entries)

        def made(frame: Frame) -> Any:
            frame.work.entries(len(entries))
            return [entry(frame) for entry in entries]

        return made

    def map_of(self, node: MapOf) -> Run:
        pairs = [(self.compiled(key), self.compiled(value)) for key, value in node.entries]

        def made(frame: Frame) -> Any:
            frame.work.pairs(len(pairs))
            found: dict[Any, Any] = {}
            for key, value in pairs:
                name = key(frame)
                if name.__class__ is str:
                    frame.work.read(name)
                if type(name) is float:
                    raise CelError(f"{kind_of(name)} cannot be a key of a map")
                stored = key_of(name)
                if stored in found:
                    raise CelError(f"a map has the key {shown(name)} twice")
                found[stored] = value(frame)
            return found

        return made

    def name(self, node: Name) -> Run:
        return self.chain(Chain(node.at, node, []))

    # ---------------------------------------------------------------------- chains

    def chain(self, node: Chain) -> Run:
        """A variable with keys that are written out is one node."""
        first, steps = node.first, node.steps
        if isinstance(first, Name):
            keys = written_keys(steps)
            run = self._path(first, steps, keys)
            steps = steps[len(keys) :]
        else:
            run = self.compiled(first)
        return chained(run, [self._step(step) for step in steps])

    def _path(self, first: Name, steps: Sequence[Field | Index | Call], keys: list[Any]) -> Run:
        self.cost += len(keys)
        slot = self._slot(first.name)
        if slot is not None:
            return bound_path(slot, keys)
        further = len(steps) > len(keys) and isinstance(steps[len(keys)], Index)
        names = tuple([str(key) for key in keys])
        self.mentions.append(Mention(first.name, names, first.at, further))
        return path(first.name, keys)

    def _slot(self, name: str) -> int | None:
        """The innermost loop that binds a name."""
        for slot in range(len(self.bound) - 1, -1, -1):
            if self.bound[slot] == name:
                return slot
        return None

    def _step(self, step: Field | Index | Call) -> Step:
        self.cost += 1
        if isinstance(step, Field):
            name = step.key
            return lambda frame, value: taken(value, name)
        if isinstance(step, Index):
            return _index(self.compiled(step.key))
        return self._method(step)

    # --------------------------------------------------------------------- functions

    def call(self, node: Call) -> Run:
        self.calls.append(Called(node.name, node.at, of=False))
        if node.name == "has":
            return self._has(node)
        if node.name == "matches" and len(node.arguments) == 2:
            of, pattern = self.compiled(node.arguments[0]), self._pattern(node)
            return lambda frame: matched(of(frame), pattern, frame.work)
        self.cost += _CALL
        name, given = node.name, self.all(node.arguments)
        return lambda frame: call(name, [each(frame) for each in given], False, frame.work)

    def _method(self, node: Call) -> Step:
        self.calls.append(Called(node.name, node.at, of=True))
        self.cost += _CALL
        if node.name in LOOPS:
            return self._loop(node)
        if node.name == "matches" and len(node.arguments) == 1:
            pattern = self._pattern(node)
            return lambda frame, value: matched(value, pattern, frame.work)
        name, given = node.name, self.all(node.arguments)
        return lambda frame, value: call(
            name, [value, *[each(frame) for each in given]], True, frame.work
        )

    def _pattern(self, node: Call) -> Pattern:
        """The last argument of matches."""
        pattern = node.arguments[-1]
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            how = 'params.x.matches("^v[0-9]+$")'
            message = f"the pattern of matches must be a literal text, as in {how}"
            raise CelSyntaxError(message, node.at)
        return self.patterns.add(pattern.value, node.at)

    def _has(self, node: Call) -> Run:
        """Whether a map has a key; the map itself has to be there."""
        argument = node.arguments[0] if len(node.arguments) == 1 else None
        if not isinstance(argument, Chain) or not isinstance(argument.steps[-1], Field):
            raise CelSyntaxError("has takes a name with a key, as in has(params.x)", node.at)
        key = argument.steps[-1].key
        *before, _ = argument.steps
        known = len(self.mentions)
        within = self.compiled(Chain(argument.at, argument.first, before))
        if isinstance(argument.first, Name) and len(written_keys(before)) == len(before):
            self._mention_further(known, key)

        def has(frame: Frame) -> Any:
            value = within(frame)
            if value.__class__ is not dict:
                raise refused("has", value)
            return key in value

        return has

    def _mention_further(self, at: int, key: str) -> None:
        """The variable that was mentioned last is asked for one key more."""
        if at < len(self.mentions):
            mention = self.mentions[at]
            self.mentions[at] = mention._replace(keys=(*mention.keys, key))

    # ------------------------------------------------------------------------- loops

    def _loop(self, node: Call) -> Step:
        name, arguments = node.name, node.arguments
        if len(arguments) not in LOOPS[name] or not isinstance(arguments[0], Name):
            raise CelSyntaxError(f"write {name} as in params.list.{name}(x, x > 1)", node.at)
        outside, self.cost = self.cost, 0
        self.bound.append(arguments[0].name)
        self.slots = max(self.slots, len(self.bound))
        bodies = self.all(arguments[1:])
        self.bound.pop()
        inside, self.cost = self.cost, outside
        return cel_loops.LOOPS[name](cel_loops.Loop(name, len(self.bound), bodies, inside))

    # -------------------------------------------------------------------- operators

    def sign(self, node: Sign) -> Run:
        of = self.compiled(node.of)
        self.cost += node.times
        times = range(node.times)
        if node.sign == "-":

            def negative(frame: Frame) -> Any:
                value = of(frame)
                for _ in times:
                    value = negated(value)
                return value

            return negative
        odd = bool(len(times) % 2)

        def inverted(frame: Frame) -> Any:
            value = of(frame)
            if value.__class__ is not bool:
                raise refused("!", value)
            return value is not odd

        return inverted

    def operation(self, node: Operation) -> Run:
        first = self.compiled(node.first)
        rest = [(sign, self.compiled(each)) for sign, each in node.rest]
        self.cost += len(rest) - 1
        sign = rest[0][0]
        if sign in ("&&", "||"):
            return _decided(sign, [first, *(run for _, run in rest)])
        if sign in ("==", "!=", "in"):
            self.compared.append((node, tuple(self.bound)))
        steps = [(_OPERATORS[sign], sign, run) for sign, run in rest]

        def operated(frame: Frame) -> Any:
            value = first(frame)
            for operator, sign, run in steps:
                value = operator(sign, value, run(frame), frame.work)
            return value

        return operated

    def choice(self, node: Choice) -> Run:
        cases = [(self.compiled(condition), self.compiled(then)) for condition, then in node.cases]
        other = self.compiled(node.other)

        def chosen(frame: Frame) -> Any:
            for condition, then in cases:
                holds = condition(frame)
                if holds is True:
                    return then(frame)
                if holds is not False:
                    raise refused("the condition before ?", holds)
            return other(frame)

        return chosen


_COMPILED: Mapping[type, Callable[[_Compiler, Any], Run]] = {
    Literal: _Compiler.literal,
    Name: _Compiler.name,
    Call: _Compiler.call,
    Chain: _Compiler.chain,
    Sign: _Compiler.sign,
    Operation: _Compiler.operation,
    Choice: _Compiler.choice,
    ListOf: _Compiler.list_of,
    MapOf: _Compiler.map_of,
}


def _index(key: Run) -> Step:
    """`value[key]`: a text is compared with the key that it finds."""

    def entry(frame: Frame, value: Any) -> Any:
        at = key(frame)
        if at.__class__ is str:
            frame.work.read(at)
        return taken(value, at)

    return entry


def _decided(sign: str, parts: Sequence[Run]) -> Run:
    """`&&` or `||`: the first operand that decides, even if another one fails."""
    by = sign == "||"

    def decided(frame: Frame) -> Any:
        failure: CelError | None = None
        for part in parts:
            try:
                holds = part(frame)
            except CelError as error:
                frame.work.failed()
                failure = failure or error.bare()
                continue
            if holds is by:
                return by
            if holds.__class__ is not bool:
                failure = failure or refused(sign, holds)
        if failure is not None:
            raise failure.bare()
        return not by

    return decided


_Operator = Callable[[str, Any, Any, Any], Any]
_OPERATORS: Mapping[str, _Operator] = {
    "==": lambda sign, one, other, work: equal(one, other, work),
    "!=": lambda sign, one, other, work: not equal(one, other, work),
    "in": lambda sign, one, other, work: contained(one, other, work),
    **dict.fromkeys(["<", "<=", ">", ">="], ordered),
    **dict.fromkeys(["+", "-", "*", "/", "%"], calculated),
}
