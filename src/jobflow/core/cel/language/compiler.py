"""The compiler: the tree of an expression becomes a Python function of an EvaluationFrame.

A node costs one step. The steps of the whole expression are taken before it runs, and those of a
macro's body before each entry; operations that copy or compare values take their own (`values`).

The patterns of `matches` are literals, so their size is known at admission, and run in RE2, which
takes linear time, has a limit of memory for each pattern, and writes nothing to stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from jobflow.core.cel.budget import Budget, CelError
from jobflow.core.cel.language import macros, tree, values
from jobflow.core.cel.language.functions import call_function
from jobflow.core.cel.language.macros import CompiledNode, CompiledSelector, EvaluationFrame
from jobflow.core.cel.language.tree import SyntaxNode

_CALL = 6
"""Steps of a call, without those of the function itself."""
MAX_PATTERNS = 256
"""Characters of all patterns of an expression."""
MAX_CLASSES = 4
"""Unicode classes in these patterns: RE2 takes a tenth of a millisecond to read each."""
MAX_MEMORY = 65_536
"""Bytes that RE2 may use for a pattern; it keeps 128 patterns."""
_CLASS = 800
"""Steps to read a Unicode class."""
_WORK_OF_A_STEP = 25
"""Instructions of a pattern times bytes of a text that RE2 processes in one step."""
_SEARCH = 10
"""Steps of a search, without the text."""
_TOO_LARGE = "is too large; use fewer repetitions"


class Pattern(NamedTuple):
    """A pattern that RE2 accepts."""

    text: str
    size: int
    """Instructions of its program."""


def search_pattern(text: Any, pattern: Pattern, budget: Budget) -> bool:
    """Return whether a text contains a pattern. Raises CelError and BudgetExceededError."""
    if text.__class__ is not str:
        raise values.make_type_error("matches", text)
    budget.add_text(len(text), wide=not text.isascii())
    encoded = text.encode("utf-8", "surrogatepass")
    budget.spend(_SEARCH + pattern.size * len(encoded) // _WORK_OF_A_STEP)
    return _compile(pattern.text).search(encoded) is not None


def _compile(text: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    # nothing reads groups, and they take memory
    options.never_capture = True
    options.log_errors = False
    return re2.compile(text, options)  # RE2 keeps the patterns that it compiled


FunctionCall = tuple[str, int]
"""A function or macro that an expression calls, and the position of its name, from 0."""


def compile_program(root: SyntaxNode) -> Program:
    """Compile a tree. Raises CelSyntaxError if it is wrong for all values."""
    program = Program()
    program.run = program.compile(root)
    # RE2 may have forgotten them, so each evaluation pays
    program.cost += program.pattern_cost
    return program


@dataclass(slots=True)
class Program:
    """A compiled expression, with the names that it uses in the order of the text."""

    run: CompiledNode = field(init=False)
    cost: int = 0
    """Steps, without those of macros."""
    slots: int = 0
    """Variables of nested macros, at most."""
    mentions: list[tree.Mention] = field(default_factory=list)
    """Variables that no macro binds."""
    calls: list[FunctionCall] = field(default_factory=list)
    compared: list[tree.Compared] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    """Variables of the macros around the node that is compiled, by slot."""
    pattern_cost: int = 0
    """Steps to compile the patterns."""
    pattern_length: int = 0
    pattern_classes: int = 0

    def compile(self, node: SyntaxNode) -> CompiledNode:
        self.cost += 1
        return _METHODS[type(node)](self, node)

    def compile_all(self, nodes: Sequence[SyntaxNode]) -> list[CompiledNode]:
        return [self.compile(node) for node in nodes]

    def literal(self, node: tree.LiteralNode) -> CompiledNode:
        value = node.value
        return lambda frame: value

    def list_literal(self, node: tree.ListLiteralNode) -> CompiledNode:
        entries = self.compile_all(node.entries)

        def make_list(frame: EvaluationFrame) -> Any:
            frame.budget.add_list(len(entries))
            return [entry(frame) for entry in entries]

        return make_list

    def map_literal(self, node: tree.MapLiteralNode) -> CompiledNode:
        pairs = [(self.compile(key), self.compile(value)) for key, value in node.entries]

        def make_map(frame: EvaluationFrame) -> Any:
            frame.budget.add_map(len(pairs))
            made: dict[Any, Any] = {}
            for run_key, run_value in pairs:
                key = run_key(frame)
                if key.__class__ is str:
                    frame.budget.read(key)
                if type(key) is float:
                    raise CelError(f"{values.describe_type(key)} cannot be a key of a map")
                stored = values.to_key(key)
                if stored in made:
                    raise CelError(f"a map has the key {values.format_key(key)} twice")
                made[stored] = run_value(frame)
            return made

        return make_map

    def name(self, node: tree.NameNode) -> CompiledNode:
        return self.chain(tree.ChainNode(node.at, node, []))

    def chain(self, node: tree.ChainNode) -> CompiledNode:
        """Compile a chain, in which a variable and its literal keys are read in one go."""
        first, selectors = node.first, node.selectors
        # one closure for `steps.x.outputs.y` instead of four
        if isinstance(first, tree.NameNode):
            keys = tree.take_literal_keys(selectors)
            start = self._path(first, selectors, keys)
            selectors = selectors[len(keys) :]
        else:
            start = self.compile(first)
        steps = [self._selector(selector) for selector in selectors]
        if not steps:
            return start

        def follow(frame: EvaluationFrame) -> Any:
            value = start(frame)
            for step in steps:
                value = step(frame, value)
            return value

        return follow

    def _path(
        self, first: tree.NameNode, selectors: Sequence[tree.Selector], keys: Sequence[Any]
    ) -> CompiledNode:
        self.cost += len(keys)
        name = first.name
        for slot in range(len(self.bound) - 1, -1, -1):  # the innermost macro that binds the name
            if self.bound[slot] == name:
                return macros.read_slot(slot, keys)
        is_open = len(selectors) > len(keys) and isinstance(selectors[len(keys)], tree.IndexNode)
        self.mentions.append(
            tree.Mention(name, tuple([str(key) for key in keys]), first.at, is_open)
        )
        return macros.read_variable(name, keys)

    def _selector(self, selector: tree.Selector) -> CompiledSelector:
        self.cost += 1
        if isinstance(selector, tree.FieldNode):
            name = selector.key
            return lambda frame, value: values.get_entry(value, name)
        if isinstance(selector, tree.CallNode):
            self.calls.append((selector.name, selector.at))
            self.cost += _CALL
            if selector.name in macros.MACROS:
                return self._macro(selector)
            if selector.name == "matches" and len(selector.arguments) == 1:
                pattern = self._pattern(selector)
                return lambda frame, value: search_pattern(value, pattern, frame.budget)
            name, arguments = selector.name, self.compile_all(selector.arguments)
            return lambda frame, value: call_function(
                name, [value, *[each(frame) for each in arguments]], True, frame.budget
            )
        run_key = self.compile(selector.key)

        def read(frame: EvaluationFrame, value: Any) -> Any:
            key = run_key(frame)
            if key.__class__ is str:
                frame.budget.read(key)
            return values.get_entry(value, key)

        return read

    def call(self, node: tree.CallNode) -> CompiledNode:
        self.calls.append((node.name, node.at))
        if node.name == "has":
            return self._has(node)
        if node.name == "matches" and len(node.arguments) == 2:
            operand, pattern = self.compile(node.arguments[0]), self._pattern(node)
            return lambda frame: search_pattern(operand(frame), pattern, frame.budget)
        self.cost += _CALL
        name, arguments = node.name, self.compile_all(node.arguments)
        return lambda frame: call_function(
            name, [each(frame) for each in arguments], False, frame.budget
        )

    def _pattern(self, node: tree.CallNode) -> Pattern:
        pattern = node.arguments[-1]
        # its size must be known at admission
        if not isinstance(pattern, tree.LiteralNode) or not isinstance(pattern.value, str):
            example = 'params.x.matches("^v[0-9]+$")'
            message = f"the pattern of matches must be a literal text, as in {example}"
            raise tree.CelSyntaxError(message, node.at)
        text = pattern.value
        self.pattern_length += len(text)
        self.pattern_classes += (classes := text.lower().count("\\p"))
        if self.pattern_length > MAX_PATTERNS or self.pattern_classes > MAX_CLASSES:
            raise tree.CelSyntaxError(f"the pattern of matches {_TOO_LARGE}", node.at)
        import re2  # late: few expressions have a pattern

        try:
            # decides what a search costs
            size = _compile(text).programsize
        except re2.error as error:
            why = _TOO_LARGE if "too large" in str(error) else "is not a regular expression"
            raise tree.CelSyntaxError(f"the pattern of matches {why}", node.at) from None
        self.pattern_cost += 50 + 4 * len(text) + 2 * size + _CLASS * classes
        return Pattern(text, size)

    def _has(self, node: tree.CallNode) -> CompiledNode:
        """Compile `has(a.b)`: whether the map `a`, which must exist, has the key `b`."""
        argument = node.arguments[0] if len(node.arguments) == 1 else None
        if not isinstance(argument, tree.ChainNode) or not isinstance(
            last := argument.selectors[-1], tree.FieldNode
        ):
            raise tree.CelSyntaxError("has takes a name with a key, as in has(params.x)", node.at)
        key, before, known = last.key, argument.selectors[:-1], len(self.mentions)
        run = self.compile(tree.ChainNode(argument.at, argument.first, before))
        is_path = isinstance(argument.first, tree.NameNode)
        is_path = is_path and len(tree.take_literal_keys(before)) == len(before)
        if is_path and known < len(self.mentions):  # the variable is read down to this key
            mention = self.mentions[known]
            self.mentions[known] = mention._replace(keys=(*mention.keys, key))

        def has(frame: EvaluationFrame) -> Any:
            value = run(frame)
            if value.__class__ is not dict:
                raise values.make_type_error("has", value)
            return key in value

        return has

    def _macro(self, node: tree.CallNode) -> CompiledSelector:
        name, arguments = node.name, node.arguments
        counts = (2, 3) if name == "map" else (2,)
        if len(arguments) not in counts or not isinstance(arguments[0], tree.NameNode):
            raise tree.CelSyntaxError(f"write {name} as in params.list.{name}(x, x > 1)", node.at)
        # the body is paid for each entry, so its cost is not the expression's
        outer, self.cost = self.cost, 0
        self.bound.append(arguments[0].name)
        self.slots = max(self.slots, len(self.bound))
        bodies = self.compile_all(arguments[1:])
        self.bound.pop()
        inner, self.cost = self.cost, outer
        return partial(macros.MACROS[name], macros.MacroLoop(name, len(self.bound), bodies, inner))

    def sign(self, node: tree.SignNode) -> CompiledNode:
        operand = self.compile(node.operand)
        self.cost += node.times
        times, operator = range(node.times), values.SIGNS[node.sign]

        def apply(frame: EvaluationFrame) -> Any:
            value = operand(frame)
            for _ in times:
                value = operator(value)
            return value

        return apply

    def operation(self, node: tree.OperationNode) -> CompiledNode:
        first = self.compile(node.first)
        pairs = [(sign, self.compile(operand)) for sign, operand in node.rest]
        self.cost += len(pairs) - 1
        sign = pairs[0][0]
        # an operand that fails may be irrelevant
        if sign in ("&&", "||"):
            operands = [first, *(run for _, run in pairs)]
            return partial(
                macros.decide, sign == "||", partial(values.make_type_error, sign), operands
            )
        if sign in ("==", "!=", "in"):
            self.compared.append((node, tuple(self.bound)))
        steps = [(values.OPERATORS[sign], sign, run) for sign, run in pairs]

        def apply(frame: EvaluationFrame) -> Any:
            value = first(frame)
            for operator, sign, run in steps:
                value = operator(sign, value, run(frame), frame.budget)
            return value

        return apply

    def choice(self, node: tree.ChoiceNode) -> CompiledNode:
        cases = [(self.compile(condition), self.compile(then)) for condition, then in node.cases]
        other = self.compile(node.other)

        def choose(frame: EvaluationFrame) -> Any:
            for condition, then in cases:
                holds = condition(frame)
                if holds is True:
                    return then(frame)
                # CEL has no truthy values
                if holds is not False:
                    raise values.make_type_error("the condition before ?", holds)
            return other(frame)

        return choose


_METHODS: Mapping[type, Callable[[Program, Any], CompiledNode]] = {
    tree.LiteralNode: Program.literal,
    tree.NameNode: Program.name,
    tree.CallNode: Program.call,
    tree.ChainNode: Program.chain,
    tree.SignNode: Program.sign,
    tree.OperationNode: Program.operation,
    tree.ChoiceNode: Program.choice,
    tree.ListLiteralNode: Program.list_literal,
    tree.MapLiteralNode: Program.map_literal,
}
