"""The rules of expressions and references: they can be read, name what there is at their place,
and give what their field asks for.

A fault of an expression is told with the character at which it stands, counted from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

from jobflow.core.cel_words import FUNCTIONS, Mention
from jobflow.core.expressions import Expression, Fault, expression
from jobflow.core.flow_rules import Rule
from jobflow.core.mentions import expressions_of
from jobflow.core.outline import Outline
from jobflow.core.reference_values import Items, mention_of
from jobflow.core.references import references
from jobflow.core.samples import Samples
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.uses import MAX_OF_ALL
from jobflow.core.violations import Reason, Violation
from jobflow.core.visible import Place, Visible, Wrong

MAX_CHARACTERS = 262_144
"""Of all expressions of a flow."""

_NUMBERED = re.compile(r"\bsteps\.(\d[-\w]*)")
_SIGNS = {"=": "==", "===": "==", "and": "&&", "or": "||", "not": "!", "&": "&&", "|": "||"}
_FOREIGN = re.compile(r"(===?|[=&|]|and\b|or\b|not\b)")
"""Signs of other languages."""
_SAME = {
    "any": "exists",
    "count": "size",
    "every": "all",
    "includes": "contains",
    "len": "size",
    "length": "size",
    "regex": "matches",
    "some": "exists",
    "startswith": "startsWith",
}
"""Functions of other languages."""


class Written(NamedTuple):
    """An expression where it stands."""

    place: Place
    path: str
    text: str


def expressions_are_few(outline: Outline) -> Iterator[Violation]:
    """Each is parsed on the thread that carries flows out."""
    if (characters := _columns(outline).characters) > MAX_CHARACTERS:
        detail = (
            f"its expressions have {characters:,} characters together; at most "
            f"{MAX_CHARACTERS:,} are allowed"
        )
        yield Violation("spec", Reason.TOO_LONG, None, detail)


def expressions_can_be_read(outline: Outline) -> Iterator[Violation]:
    for each in _columns(outline).written:
        found = expression(each.text)
        if isinstance(found, Fault):
            at = "" if found.at is None else _at(each.text, found.at)
            detail = at + found.message + _hint(each.text, found.at)
            yield Violation(each.path, Reason.INVALID, each.text, detail)


def expressions_name_what_there_is(outline: Outline) -> Iterator[Violation]:
    """Variables, params, steps that are upstream, what there is of a step, and functions."""
    for each, _, wrong in _columns(outline).read:
        for name in wrong:
            detail = _at(each.text, name.at) + name.detail
            yield Violation(each.path, Reason.INVALID, each.text, detail)


def expressions_give_what_is_asked(outline: Outline) -> Iterator[Violation]:
    """True or false, or of forEach.from a list; as far as that can be known before it runs."""
    samples = Samples(outline.flow)
    for each, found, wrong in _columns(outline).read:
        if not wrong:
            step = outline.steps[each.place.position]
            if (fault := samples.fault(step, each.place.field, found)) is not None:
                yield Violation(each.path, Reason.INVALID, each.text, fault)


def references_name_what_there_is(outline: Outline) -> Iterator[Violation]:
    """References in patches, as far as their values are known before it runs."""
    if not outline.changes:
        return
    columns = _columns(outline)
    found = [
        (Place(change.step, "patch"), path, reference)
        for change in outline.changes
        for path, reference in references(change.written, change.path)
    ]
    columns.ask((place, [mention_of(reference)]) for place, _, reference in found)
    items = Items(outline)
    for place, path, reference in found:
        detail = columns.visible.reference_fault(place, reference.root, reference.keys)
        if detail is None:
            detail = items.fault(place.position, reference)
        if detail is not None:
            yield Violation(path, Reason.INVALID, f"$({reference.path})", detail)


def references_are_small(outline: Outline) -> Iterator[Violation]:
    """A value is written out as often as it is referred to."""
    for change in outline.changes:
        if change.large:
            detail = (
                "its references, and those of the patches before it, stand for more than "
                f"{MAX_OF_ALL:,} bytes; put what is large into a ConfigMap or a volume"
            )
            yield Violation(change.path, Reason.TOO_LONG, None, detail)
            return  # the others have no room either


EXPRESSION_RULES: tuple[Rule, ...] = (
    expressions_are_few,
    expressions_can_be_read,
    expressions_name_what_there_is,
    expressions_give_what_is_asked,
    references_name_what_there_is,
    references_are_small,
)


class _Columns:
    """What several rules look at, worked out once for an outline."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self.visible = Visible(
            outline.flow, outline.graph, outline.steps, lambda step: outline.tasks.get(step)
        )
        written = [*_written(outline)]
        self.characters = sum(len(each.text) for each in written)
        self.written = written if self.characters <= MAX_CHARACTERS else []

    def ask(self, mentions: Iterable[tuple[Place, Sequence[Mention]]]) -> None:
        """Have it looked up, all at once, which steps are upstream."""
        index, flows = self._outline.graph.index, len(self._outline.flows)
        self.visible.upstream.ask(
            (place.position, index[mention.keys[0]])
            for place, each in mentions
            if place.position < flows
            for mention in each
            if mention.root == "steps" and mention.keys and mention.keys[0] in index
        )

    @cached_property
    def read(self) -> list[tuple[Written, Expression, list[Wrong]]]:
        """Those that can be read, and what is wrong with the names in each."""
        parsed = [(each, expression(each.text)) for each in self.written]
        found = [(each, read) for each, read in parsed if isinstance(read, Expression)]
        self.ask((each.place, read.words.mentions) for each, read in found)
        return [(each, read, [*self._wrong(each, read)]) for each, read in found]

    def _wrong(self, each: Written, read: Expression) -> Iterator[Wrong]:
        for call in read.words.calls:
            if call.name not in FUNCTIONS:
                guess = did_you_mean(_SAME.get(call.name) or _functions().nearest(call.name))
                yield Wrong(call.at, f"there is no function {call.name}{guess}")
        yield from self.visible.wrong(each.place, read.words.mentions, each.text)


_by_outline: WeakKeyDictionary[Outline, _Columns] = WeakKeyDictionary()


def written(outline: Outline) -> Sequence[Written]:
    """Every expression of a flow; none where they are too many to be read."""
    return _columns(outline).written


def _columns(outline: Outline) -> _Columns:
    if (found := _by_outline.get(outline)) is None:
        found = _by_outline[outline] = _Columns(outline)
    return found


def _functions() -> Suggester:
    return Suggester(sorted(FUNCTIONS))


def _written(outline: Outline) -> Iterator[Written]:
    for i, step in enumerate(outline.steps):
        if step.when is None and not (step.switch or step.for_each or step.repeat or step.retry):
            continue
        for field, text in expressions_of(step):
            kind = "switch" if field.startswith("switch") else field
            yield Written(Place(i, kind), f"{outline.path(i)}.{field}", text)


def _at(text: str, at: int) -> str:
    return f"character {min(at, len(text)) + 1}: "


def _hint(text: str, at: int | None) -> str:
    """What other languages have instead."""
    if (found := _NUMBERED.search(text)) is not None:
        return f'; write steps["{found[1]}"]'
    if at is not None and text.startswith("$(", at):
        return "; references $(…) stand in patches, an expression writes params.x"
    found = _FOREIGN.match(text, at) if at is not None else None
    return f"; write {_SIGNS[found[1]]} for {found[1]}" if found is not None else ""
