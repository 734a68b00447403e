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
from jobflow.core.cel.language.macros import EvaluationFrame, Run, Step, bound_path, chained, path
from jobflow.core.cel.language.patterns import Pattern, Patterns, matched
from jobflow.core.cel.language.syntax import (
    CallNode,
    CelSyntaxError,
    ChainNode,
    ChoiceNode,
    FieldNode,
    IndexNode,
    ListNode,
    LiteralNode,
    MapNode,
    NameNode,
    OperationNode,
    SignNode,
    SyntaxNode,
)
from jobflow.core.cel.language.values import (
    calculate,
    compare,
    describe_type,
    format_key,
    get_entry,
    is_equal,
    is_in,
    make_type_error,
    negate,
    to_key,
)
from jobflow.core.cel.variables import Compared, Mention, take_literal_keys

_CALL = 6
"""Steps of a function besides what it looks at."""


class FunctionCall(NamedTuple):
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
    calls: tuple[FunctionCall, ...]
    """In the order of the text."""
    compared: Sequence[Compared]


def compile_program(tree: SyntaxNode) -> Program:
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
    calls: list[FunctionCall] = field(default_factory=list)
    compared: list[Compared] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    """Names that the loops around bind; the place of each is its slot."""
    slots: int = 0
    cost: int = 0
    patterns: Patterns = field(default_factory=Patterns)

    def compiled(self, node: SyntaxNode) -> Run:
        self.cost += 1
        return _COMPILED[type(node)](self, node)

    def all(self, nodes: Sequence[SyntaxNode]) -> list[Run]:
        return [self.compiled(node) for node in nodes]

    # ---------------------------------------------------------------------- values

    def literal(self, node: LiteralNode) -> Run:
        value = node.value
        return lambda frame: value

    def list_of(self, node: ListNode) -> Run:
        entries = self.all(node.entries)

        def made(frame: EvaluationFrame) -> Any:
            frame.work.entries(len(entries))
            return [entry(frame) for entry in entries]

        return made

    def map_of(self, node: MapNode) -> Run:
        pairs = [(self.compiled(key), self.compiled(value)) for key, value in node.entries]

        def made(frame: EvaluationFrame) -> Any:
            frame.work.pairs(len(pairs))
            found: dict[Any, Any] = {}
            for key, value in pairs:
                name = key(frame)
                if name.__class__ is str:
                    frame.work.read(name)
                if type(name) is float:
                    raise CelError(f"{describe_type(name)} cannot be a key of a map")
                stored = to_key(name)
                if stored in found:
                    raise CelError(f"a map has the key {format_key(name)} twice")
                found[stored] = value(frame)
            return found

        return made

    def name(self, node: NameNode) -> Run:
        return self.chain(ChainNode(node.at, node, []))

    # ---------------------------------------------------------------------- chains

    def chain(self, node: ChainNode) -> Run:
        """A variable with keys that are written out is one node."""
        first, steps = node.first, node.steps
        if isinstance(first, NameNode):
            keys = take_literal_keys(steps)
            run = self._path(first, steps, keys)
            steps = steps[len(keys) :]
        else:
            run = self.compiled(first)
        return chained(run, [self._step(step) for step in steps])

    def _path(
        self, first: NameNode, steps: Sequence[FieldNode | IndexNode | CallNode], keys: list[Any]
    ) -> Run:
        self.cost += len(keys)
        slot = self._slot(first.name)
        if slot is not None:
            return bound_path(slot, keys)
        further = len(steps) > len(keys) and isinstance(steps[len(keys)], IndexNode)
        names = tuple([str(key) for key in keys])
        self.mentions.append(Mention(first.name, names, first.at, further))
        return path(first.name, keys)

    def _slot(self, name: str) -> int | None:
        """The innermost loop that binds a name."""
        for slot in range(len(self.bound) - 1, -1, -1):
            if self.bound[slot] == name:
                return slot
        return None

    def _step(self, step: FieldNode | IndexNode | CallNode) -> Step:
        self.cost += 1
        if isinstance(step, FieldNode):
            name = step.key
            return lambda frame, value: get_entry(value, name)
        if isinstance(step, IndexNode):
            return _index(self.compiled(step.key))
        return self._method(step)

    # --------------------------------------------------------------------- functions

    def call(self, node: CallNode) -> Run:
        self.calls.append(FunctionCall(node.name, node.at, of=False))
        if node.name == "has":
            return self._has(node)
        if node.name == "matches" and len(node.arguments) == 2:
            of, pattern = self.compiled(node.arguments[0]), self._pattern(node)
            return lambda frame: matched(of(frame), pattern, frame.work)
        self.cost += _CALL
        name, given = node.name, self.all(node.arguments)
        return lambda frame: call(name, [each(frame) for each in given], False, frame.work)

    def _method(self, node: CallNode) -> Step:
        self.calls.append(FunctionCall(node.name, node.at, of=True))
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

    def _pattern(self, node: CallNode) -> Pattern:
        """The last argument of matches."""
        pattern = node.arguments[-1]
        if not isinstance(pattern, LiteralNode) or not isinstance(pattern.value, str):
            how = 'params.x.matches("^v[0-9]+$")'
            message = f"the pattern of matches must be a literal text, as in {how}"
            raise CelSyntaxError(message, node.at)
        return self.patterns.add(pattern.value, node.at)

    def _has(self, node: CallNode) -> Run:
        """Whether a map has a key; the map itself has to be there."""
        argument = node.arguments[0] if len(node.arguments) == 1 else None
        if not isinstance(argument, ChainNode) or not isinstance(argument.steps[-1], FieldNode):
            raise CelSyntaxError("has takes a name with a key, as in has(params.x)", node.at)
        key = argument.steps[-1].key
        *before, _ = argument.steps
        known = len(self.mentions)
        within = self.compiled(ChainNode(argument.at, argument.first, before))
        if isinstance(argument.first, NameNode) and len(take_literal_keys(before)) == len(before):
            self._mention_further(known, key)

        def has(frame: EvaluationFrame) -> Any:
            value = within(frame)
            if value.__class__ is not dict:
                raise make_type_error("has", value)
            return key in value

        return has

    def _mention_further(self, at: int, key: str) -> None:
        """The variable that was mentioned last is asked for one key more."""
        if at < len(self.mentions):
            mention = self.mentions[at]
            self.mentions[at] = mention._replace(keys=(*mention.keys, key))

    # ------------------------------------------------------------------------- loops

    def _loop(self, node: CallNode) -> Step:
        name, arguments = node.name, node.arguments
        if len(arguments) not in LOOPS[name] or not isinstance(arguments[0], NameNode):
            raise CelSyntaxError(f"write {name} as in params.list.{name}(x, x > 1)", node.at)
        outside, self.cost = self.cost, 0
        self.bound.append(arguments[0].name)
        self.slots = max(self.slots, len(self.bound))
        bodies = self.all(arguments[1:])
        self.bound.pop()
        inside, self.cost = self.cost, outside
        return cel_loops.LOOPS[name](cel_loops.MacroLoop(name, len(self.bound), bodies, inside))

    # -------------------------------------------------------------------- operators

    def sign(self, node: SignNode) -> Run:
        of = self.compiled(node.of)
        self.cost += node.times
        times = range(node.times)
        if node.sign == "-":

            def negative(frame: EvaluationFrame) -> Any:
                value = of(frame)
                for _ in times:
                    value = negate(value)
                return value

            return negative
        odd = bool(len(times) % 2)

        def inverted(frame: EvaluationFrame) -> Any:
            value = of(frame)
            if value.__class__ is not bool:
                raise make_type_error("!", value)
            return value is not odd

        return inverted

    def operation(self, node: OperationNode) -> Run:
        first = self.compiled(node.first)
        rest = [(sign, self.compiled(each)) for sign, each in node.rest]
        self.cost += len(rest) - 1
        sign = rest[0][0]
        if sign in ("&&", "||"):
            return _decided(sign, [first, *(run for _, run in rest)])
        if sign in ("==", "!=", "in"):
            self.compared.append((node, tuple(self.bound)))
        steps = [(_OPERATORS[sign], sign, run) for sign, run in rest]

        def operated(frame: EvaluationFrame) -> Any:
            value = first(frame)
            for operator, sign, run in steps:
                value = operator(sign, value, run(frame), frame.work)
            return value

        return operated

    def choice(self, node: ChoiceNode) -> Run:
        cases = [(self.compiled(condition), self.compiled(then)) for condition, then in node.cases]
        other = self.compiled(node.other)

        def chosen(frame: EvaluationFrame) -> Any:
            for condition, then in cases:
                holds = condition(frame)
                if holds is True:
                    return then(frame)
                if holds is not False:
                    raise make_type_error("the condition before ?", holds)
            return other(frame)

        return chosen


_COMPILED: Mapping[type, Callable[[_Compiler, Any], Run]] = {
    LiteralNode: _Compiler.literal,
    NameNode: _Compiler.name,
    CallNode: _Compiler.call,
    ChainNode: _Compiler.chain,
    SignNode: _Compiler.sign,
    OperationNode: _Compiler.operation,
    ChoiceNode: _Compiler.choice,
    ListNode: _Compiler.list_of,
    MapNode: _Compiler.map_of,
}


def _index(key: Run) -> Step:
    """`value[key]`: a text is compared with the key that it finds."""

    def entry(frame: EvaluationFrame, value: Any) -> Any:
        at = key(frame)
        if at.__class__ is str:
            frame.work.read(at)
        return get_entry(value, at)

    return entry


def _decided(sign: str, parts: Sequence[Run]) -> Run:
    """`&&` or `||`: the first operand that decides, even if another one fails."""
    by = sign == "||"

    def decided(frame: EvaluationFrame) -> Any:
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
                failure = failure or make_type_error(sign, holds)
        if failure is not None:
            raise failure.bare()
        return not by

    return decided


_Operator = Callable[[str, Any, Any, Any], Any]
_OPERATORS: Mapping[str, _Operator] = {
    "==": lambda sign, one, other, work: is_equal(one, other, work),
    "!=": lambda sign, one, other, work: not is_equal(one, other, work),
    "in": lambda sign, one, other, work: is_in(one, other, work),
    **dict.fromkeys(["<", "<=", ">", ">="], compare),
    **dict.fromkeys(["+", "-", "*", "/", "%"], calculate),
}
