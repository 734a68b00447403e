"""Which names an expression or a reference may use at its place, and what to say of others.

It is the other side of `scope`, which has the values: what is refused here has none there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.cel.language.values import TYPES
from jobflow.core.cel.scope import POD_PHASES, RUN_FIELDS, STEP_FIELDS
from jobflow.core.cel.variables import Mention
from jobflow.core.spec.graph import Graph
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import some

ITEM_FACTS = ("phase", "outputs")
"""What may be taken of an entry of a step's items."""
_RUNS = frozenset({"repeat.until", "retry.when"})
"""Fields whose expressions look at a run that has just ended."""
_LOOPED = frozenset({*_RUNS, "patch"})
"""Places that belong to one run of a loop."""
_WORDS_OF_CEL = {"true": "true", "false": "false", "null": "null", "none": "null", "nil": "null"}
"""By how other languages write them."""
_EVERYWHERE = ("params", "flow", "steps")
"""Variables that there are at every place."""
_DASHED = re.compile(r"[-.\w]+")


class Wrong(NamedTuple):
    """A name that is not to be seen."""

    at: int
    """Where it begins, in characters from 0."""
    detail: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression or a reference stands."""

    position: int
    """Of its step among all steps of the flow, those of finally last."""
    field: str
    """`when`, `switch`, `forEach.from`, `repeat.until`, `retry.when` or `patch`."""


class NameScope:
    """The names of one flow."""

    def __init__(
        self,
        flow: JobFlow,
        graph: Graph,
        steps: Sequence[Step],
        tasks: Callable[[int], Collection[str] | None] = lambda position: None,
    ) -> None:
        """`graph`: of spec.flows; `steps`: these and those of finally; `tasks`: those of the step
        at a position, None where its template is not known."""
        self._tasks = tasks
        self._steps = steps
        self._graph = graph
        self._last = {step.name for step in steps[len(graph) :]}
        self._params = [param.name for param in flow.spec.params or ()]
        self._known_params = frozenset(self._params)
        self.upstream = Upstream(graph)
        self._open_tasks: dict[int, bool] = {}
        self._nearest_tasks: dict[int, Suggester] = {}
        """By id of the tasks of a step, which live as long as their flow is looked at."""

    @cached_property
    def _nearest_param(self) -> Suggester:
        return Suggester(self._params)

    @cached_property
    def _nearest_step(self) -> Suggester:
        return Suggester(self._graph.names)

    # -------------------------------------------------------------------- variables

    def variables(self, place: Place) -> list[str]:
        """Those that there are at a place."""
        step = self._steps[place.position]
        names = [*_EVERYWHERE]
        if place.field in _LOOPED and step.for_each is not None:
            names.append("item")
        if place.field in _LOOPED and (step.for_each is not None or step.repeat is not None):
            names.append("index")
        return [*names, *RUN_FIELDS] if place.field in _RUNS else names

    def wrong(self, place: Place, mentions: Sequence[Mention], text: str) -> Iterator[Wrong]:
        """What is wrong with the names that an expression mentions. `text`: the expression."""
        behind = 0
        for mention in mentions:
            if mention.at < behind:
                continue  # it is a piece of a name that was told of as a whole
            if mention.root == "steps":
                if (name := self._written_with_dashes(mention, text)) is not None:
                    behind = mention.at + len(f"steps.{name}")
                    yield Wrong(
                        mention.at, f'write steps["{name}"], for a name with - or . needs quotes'
                    )
                    continue
            if (detail := self.fault(place, mention)) is not None:
                yield Wrong(mention.at, detail)

    def fault(self, place: Place, mention: Mention) -> str | None:
        """What is wrong with one name, in a clause."""
        root, keys = mention.root, mention.keys
        if root not in _EVERYWHERE and root not in self.variables(place):
            return None if root in TYPES and not keys else self._no_variable(place, root)
        if root == "params" and keys:
            return self._param(keys[0])
        if root == "flow" and (keys or mention.open):
            return self._flow(place, keys)
        return self._of_step(place, mention) if root == "steps" else None

    def _no_variable(self, place: Place, root: str) -> str:
        if root == "item":
            return "there is an item only in the patch and the retry.when of a step with forEach"
        if root == "index":
            return (
                "there is an index only in the patch, the retry.when and the repeat.until of a "
                "step with forEach or repeat"
            )
        if root in RUN_FIELDS:
            return (
                f"{root} is that of a run that has ended, in repeat.until and retry.when; of "
                f'another step write steps["NAME"].{root}'
            )
        if root in self._known_params:
            return f"there is no variable {root}; write params.{root}"
        if root in self._graph.index:
            return f'there is no variable {root}; write steps["{root}"]'
        if (word := _WORDS_OF_CEL.get(root.lower())) is not None:
            return f"there is no variable {root}; write {word}"
        guess = Suggester(self.variables(place)).nearest(root)
        return f"there is no variable {root}" + (did_you_mean(guess) or self._listed(place))

    def _listed(self, place: Place) -> str:
        return f"; there are {', '.join(self.variables(place))}"

    def _param(self, name: str) -> str | None:
        if name in self._known_params:
            return None
        return f'there is no parameter "{name}"' + did_you_mean(self._nearest_param.nearest(name))

    def _flow(self, place: Place, keys: Sequence[str]) -> str | None:
        names = ["name", "namespace"]
        if place.position >= len(self._graph):
            names.append("phase")
        if keys and keys[0] in names:
            return None
        if keys and keys[0] == "phase":
            return "flow.phase is to be seen in the steps of finally only"
        return _unknown("a flow", keys, names)

    # ------------------------------------------------------------------------- steps

    def _of_step(self, place: Place, mention: Mention) -> str | None:
        if not mention.keys:
            return 'the step has to be written out, as in steps["NAME"].phase'
        name = mention.keys[0]
        detail = self._step(place, name)
        return detail if detail is not None else self._fact(name, mention)

    def _step(self, place: Place, name: str) -> str | None:
        target = self._graph.index.get(name)
        if target is None:
            return self._no_step(name)
        if target == place.position:
            return (
                "a step does not see itself; of a run that has just ended, repeat.until and "
                "retry.when see outputs, phase and reason"
            )
        if place.position >= len(self._graph) or self.upstream.has(place.position, target):
            return None
        waiting = self._steps[place.position].name
        return f'step "{waiting}" does not depend on "{name}"; add it to dependsOn.targets'

    def _no_step(self, name: str) -> str:
        if name in self._last:
            return f'"{name}" is a step of finally, which no other step sees'
        return f'no such step as "{name}"' + did_you_mean(self._nearest_step.nearest(name))

    def _fact(self, name: str, mention: Mention) -> str | None:
        keys = mention.keys[1:]
        step = self._steps[self._graph.index[name]]
        facts = [fact for fact in STEP_FIELDS if fact != "items" or step.for_each is not None]
        if not keys:
            return _unknown("a step", keys, facts) if mention.open else None
        if keys[0] == "items" and step.for_each is None:
            return f'"{name}" has no forEach, and so no items'
        if keys[0] not in facts:
            return _unknown("a step", keys, facts)
        if keys[0] == "outputs" and step.for_each is not None:
            return (
                f'"{name}" has forEach: each of its items has outputs, as in '
                f'steps["{name}"].items[0].outputs'
            )
        if keys[0] == "items" and len(keys) > 2 and keys[2] not in ITEM_FACTS:
            return _unknown("an item", keys[2:], ITEM_FACTS)
        return self._task(name, keys[1:]) if keys[0] == "tasks" and keys[1:] else None

    def _task(self, name: str, keys: Sequence[str]) -> str | None:
        known = self._tasks(self._graph.index[name])
        if known is not None and keys[0] not in known and not self._is_open(known):
            guess = did_you_mean(self._nearest_task(known).nearest(keys[0]))
            return f'the job of "{name}" has no task "{keys[0]}"' + (
                guess or f"; it has {some(known)}"
            )
        if len(keys) > 1 and keys[1] not in POD_PHASES:
            return _unknown("a task", keys[1:], POD_PHASES)
        return None

    def _is_open(self, tasks: Collection[str]) -> bool:
        """Whether only a run can tell the name of one of these tasks."""
        if id(tasks) not in self._open_tasks:
            self._open_tasks[id(tasks)] = any("$(" in each for each in tasks)
        return self._open_tasks[id(tasks)]

    def _nearest_task(self, tasks: Collection[str]) -> Suggester:
        """The suggester of these tasks; steps of one template share it, and its budget."""
        if id(tasks) not in self._nearest_tasks:
            self._nearest_tasks[id(tasks)] = Suggester([*tasks], budget=100)
        return self._nearest_tasks[id(tasks)]

    def _written_with_dashes(self, mention: Mention, text: str) -> str | None:
        """The step that `steps.a-b.phase` means, where `steps.a` alone is none."""
        if len(mention.keys) == 0 or not text.startswith("steps.", mention.at):
            return None
        found = _DASHED.match(text, mention.at + len("steps."))
        written = found.group() if found is not None else ""
        if mention.keys[0] in self._graph.index and "-" not in written.split(".")[0]:
            return None
        for end in [len(written), *_ends(written)]:
            name = written[:end]
            if name != mention.keys[0] and name in self._graph.index:
                return name
        return None

    # -------------------------------------------------------------------- references

    def reference_fault(self, place: Place, root: str, keys: tuple[str, ...]) -> str | None:
        """What is wrong with a reference, in a clause: it sees less than an expression."""
        if root == "steps" and keys[1:2] != ("outputs",):
            example = "$(steps.NAME.outputs.KEY)"
            return self._step_without_outputs(keys[0]) or f"of a step write {example}"
        if root == "flow" and len(keys) > 1:
            return _unknown("a flow", (".".join(keys),), ("name", "namespace"))
        return self.fault(place, Mention(root, keys, 0))

    def _step_without_outputs(self, path: str) -> str | None:
        """`x.output.y`: what was meant by a path without outputs."""
        name, _, rest = path.partition(".")
        word = rest.partition(".")[0]
        guess = Suggester(["outputs"]).nearest(word) if word else None
        if name in self._graph.index and guess:
            return f"of a step there are only outputs{did_you_mean(guess)}"
        return None


def _ends(written: str) -> Iterator[int]:
    """Where the name of a step may end in a text, the longest first."""
    for end in range(len(written) - 1, 0, -1):
        if written[end] in ".-":
            yield end


def _unknown(what: str, keys: Sequence[str], known: Collection[str]) -> str:
    listed = ", ".join(known)
    if not keys:
        return f"what is taken of {what} has to be written out: {listed}"
    guess = Suggester([*known]).nearest(keys[0])
    return f'{what} has no "{keys[0]}"' + (did_you_mean(guess) or f"; it has {listed}")


_AT_ONCE = 4096
"""Steps that are asked about in one walk over the graph: as bits, they take 512 bytes a step."""


class Upstream:
    """Answers for the pairs that it was asked to look into, in time linear in steps and arrows for
    each `_AT_ONCE` steps that are asked about."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._asked: dict[int, set[int]] = {}
        self._found: set[tuple[int, int]] | None = None

    def ask(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Look into these (step, step it may depend on) when an answer is wanted."""
        targets = self._graph.targets
        for step, target in pairs:
            if target not in targets[step]:
                self._asked.setdefault(target, set()).add(step)
        self._found = None

    def has(self, step: int, target: int) -> bool:
        """Whether `step` depends on `target`. True also where a cycle is in the way, which is wrong
        for itself."""
        if target in self._graph.targets[step]:
            return True
        if step not in self._asked.get(target, ()):
            self.ask([(step, target)])
        if self._found is None:
            self._found = self._walked()
        return (step, target) in self._found

    def _walked(self) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        asked = sorted(self._asked)
        for begin in range(0, len(asked), _AT_ONCE):
            found |= self._reached(asked[begin : begin + _AT_ONCE])
        ordered = set(self._graph.order)
        if len(ordered) < len(self._graph):
            cyclic = (
                (step, target)
                for target, steps in self._asked.items()
                for step in steps
                if step not in ordered or target not in ordered
            )
            found.update(cyclic)
        return found

    def _reached(self, asked: list[int]) -> set[tuple[int, int]]:
        """Of these the pairs that were asked about and hold."""
        bits = {target: 1 << at for at, target in enumerate(asked)}
        above = [0] * len(self._graph)
        for step in self._graph.order:
            for target in self._graph.targets[step]:
                above[step] |= above[target] | bits.get(target, 0)
        return {
            (step, target)
            for target in asked
            for step in self._asked[target]
            if above[step] & bits[target]
        }
