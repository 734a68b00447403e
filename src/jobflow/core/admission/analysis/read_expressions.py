"""The expressions of a flow where they stand, read once for all rules, and which of their names
are not to be seen there. What follows from that is said by `expression_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from jobflow.core.admission.analysis.visible_names import NameScope, Place, Wrong
from jobflow.core.cel.expression import Expression, parse_expression
from jobflow.core.cel.language.functions import FUNCTIONS
from jobflow.core.cel.variables import Mention
from jobflow.core.spec.graph import Graph
from jobflow.core.suggest import Suggester, did_you_mean

MAX_CHARACTERS = 262_144
"""Of all expressions of a flow."""

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


class Readings:
    """Those of one flow. It does not hold the facts that holds it: what forms no cycle is freed
    at once (docs/performance.md)."""

    def __init__(self, written: Sequence[Written], visible: NameScope, graph: Graph) -> None:
        """`graph`: of spec.flows."""
        self.visible = visible
        self._graph = graph
        self.characters = sum(len(each.text) for each in written)
        self.written = written if self.characters <= MAX_CHARACTERS else []
        """Every expression; none where they are too many to be read."""

    def ask(self, mentions: Iterable[tuple[Place, Sequence[Mention]]]) -> None:
        """Have it looked up, all at once, which steps are upstream."""
        index, flows = self._graph.index, len(self._graph)
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
        parsed = [(each, parse_expression(each.text)) for each in self.written]
        found = [(each, read) for each, read in parsed if isinstance(read, Expression)]
        self.ask((each.place, read.mentions) for each, read in found)
        return [(each, read, [*self._wrong(each, read)]) for each, read in found]

    def _wrong(self, each: Written, read: Expression) -> Iterator[Wrong]:
        for call in read.calls:
            if call.name not in FUNCTIONS:
                guess = did_you_mean(_SAME.get(call.name) or _functions().nearest(call.name))
                yield Wrong(call.at, f"there is no function {call.name}{guess}")
        yield from self.visible.wrong(each.place, read.mentions, each.text)


def _functions() -> Suggester:
    return Suggester(sorted(FUNCTIONS))
