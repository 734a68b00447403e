"""Names that an expression or a reference may use at its place, and the faults of other names.

`core.cel.scope` holds the values: a name that is a fault here has no value there.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jobflow.api.jobflow import JobFlow, Step
from jobflow.core.admission.analysis.resolved_specs import KnownTasks
from jobflow.core.cel.language.values import TYPES
from jobflow.core.cel.scope import POD_PHASES, RUN_FIELDS, STEP_FIELDS
from jobflow.core.cel.variables import Mention
from jobflow.core.lazy import lazy_property
from jobflow.core.spec.graph import Graph
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names

ITEM_FACTS = ("phase", "outputs")
"""Fields of an entry of a step's items."""
_FIELDS_OF_ENDED_RUNS = frozenset({"repeat.until", "retry.when"})
_FIELDS_OF_RUNS = frozenset({*_FIELDS_OF_ENDED_RUNS, "patch"})
_LITERALS = {"true": "true", "false": "false", "null": "null", "none": "null", "nil": "null"}
"""Literals of other languages -> CEL's."""
_VARIABLES = ("params", "flow", "steps")
"""Variables of every place."""
_DASHED = re.compile(r"[-.\w]+")
MOST_STEPS = 10_000
"""Steps whose dependencies are known: as bits, they take 1.2 KiB a step. A flow of more steps is
refused, because its status would be too large."""


class NameFault(NamedTuple):
    """A name that its place cannot use."""

    at: int
    """Index of its first character."""
    detail: str


@dataclass(frozen=True, slots=True)
class ExpressionPlace:
    """The place of an expression or a reference."""

    position: int
    """Position of its step."""
    field: str
    """`when`, `switch`, `forEach.from`, `repeat.until`, `retry.when` or `patch`."""


class NameScope:
    """The names of one flow."""

    def __init__(
        self, flow: JobFlow, graph: Graph, steps: Sequence[Step], tasks: KnownTasks
    ) -> None:
        """`graph`: of spec.flows; `steps`: those of `finally` last."""
        self._tasks = tasks
        self._steps = steps
        self._graph = graph
        self._finally_names = {step.name for step in steps[len(graph) :]}
        self._params = frozenset(param.name for param in flow.spec.params or ())
        self._has_open_name: dict[int, bool] = {}
        """By id of the tasks of a step, which live as long as their flow."""
        self._param_suggester = Suggester([param.name for param in flow.spec.params or ()])
        self._step_suggester = Suggester(graph.names)

    # -------------------------------------------------------------------- variables

    def variables(self, place: ExpressionPlace) -> list[str]:
        """Return the variables of a place."""
        step = self._steps[place.position]
        names = [*_VARIABLES]
        if place.field in _FIELDS_OF_RUNS and step.for_each is not None:
            names.append("item")
        if place.field in _FIELDS_OF_RUNS and (step.for_each or step.repeat) is not None:
            names.append("index")
        return [*names, *RUN_FIELDS] if place.field in _FIELDS_OF_ENDED_RUNS else names

    def faults(
        self, place: ExpressionPlace, mentions: Sequence[Mention], text: str
    ) -> Iterator[NameFault]:
        """Yield the faults of the names that an expression mentions. `text`: the expression."""
        end = 0
        for mention in mentions:
            if mention.at < end:
                continue  # part of a name that has been reported as a whole
            if mention.root == "steps":
                if (name := self._name_without_quotes(mention, text)) is not None:
                    end = mention.at + len(f"steps.{name}")
                    detail = f'write steps["{name}"], because a name with - or . needs quotes'
                    yield NameFault(mention.at, detail)
                    continue
            if (fault := self.fault(place, mention)) is not None:
                yield NameFault(mention.at, fault)

    def fault(self, place: ExpressionPlace, mention: Mention) -> str | None:
        """Return the fault of one name as a clause, or None."""
        root, keys = mention.root, mention.keys
        if root not in _VARIABLES and root not in self.variables(place):
            return None if root in TYPES and not keys else self._no_variable(place, root)
        if root == "params" and keys and keys[0] not in self._params:
            guess = did_you_mean(self._param_suggester.nearest(keys[0]))
            return f'there is no parameter "{keys[0]}"{guess}'
        if root == "flow" and (keys or mention.open):
            return self._flow(place, keys)
        return self._step_fact(place, mention) if root == "steps" else None

    def _no_variable(self, place: ExpressionPlace, root: str) -> str:
        if root == "item":
            return "only the patch and the retry.when of a step with forEach have an item"
        if root == "index":
            return (
                "only the patch, the retry.when and the repeat.until of a step with forEach or "
                "repeat have an index"
            )
        if root in RUN_FIELDS:
            return (
                f"only repeat.until and retry.when have {root}, of the run that has ended; for "
                f'another step write steps["NAME"].{root}'
            )
        if root in self._params:
            return f"there is no variable {root}; write params.{root}"
        if root in self._graph.index:
            return f'there is no variable {root}; write steps["{root}"]'
        if (word := _LITERALS.get(root.lower())) is not None:
            return f"there is no variable {root}; write {word}"
        guess = Suggester(self.variables(place)).nearest(root)
        listed = f"; there are {', '.join(self.variables(place))}"
        return f"there is no variable {root}" + (did_you_mean(guess) or listed)

    def _flow(self, place: ExpressionPlace, keys: Sequence[str]) -> str | None:
        names = ["name", "namespace"]
        if place.position >= len(self._graph):
            names.append("phase")
        if keys and keys[0] in names:
            return None
        if keys and keys[0] == "phase":
            return "only steps of finally have flow.phase"
        return _unknown("a flow", keys, names)

    # ------------------------------------------------------------------------- steps

    def _step_fact(self, place: ExpressionPlace, mention: Mention) -> str | None:
        if not mention.keys:
            return 'write the name of the step, as in steps["NAME"].phase'
        name = mention.keys[0]
        return self._step(place, name) or self._fact(name, mention)

    def _step(self, place: ExpressionPlace, name: str) -> str | None:
        target = self._graph.index.get(name)
        if target is None and name in self._finally_names:
            return f'"{name}" is a step of finally, whose result no other step can use'
        if target is None:
            return f'no such step as "{name}"' + did_you_mean(self._step_suggester.nearest(name))
        if target == place.position:
            return (
                "a step cannot use its own result; repeat.until and retry.when have outputs, phase "
                "and reason of the run that has just ended"
            )
        if place.position >= len(self._graph) or self._depends_on(place.position, target):
            return None
        dependant = self._steps[place.position].name
        return f'step "{dependant}" does not depend on "{name}"; add it to dependsOn.targets'

    def _depends_on(self, step: int, target: int) -> bool:
        if target in self._graph.targets[step] or len(self._graph) > MOST_STEPS:
            return True
        return bool(self._upstream[step] >> target & 1)

    @lazy_property
    def _upstream(self) -> list[int]:
        return upstream_bits(self._graph)

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
        known = self._tasks.get(self._graph.index[name])
        if known is not None and keys[0] not in known and not self._may_have_any_task(known):
            guess = did_you_mean(self._tasks.nearest(keys[0], known))
            return f'the job of "{name}" has no task "{keys[0]}"' + (
                guess or f"; it has {join_names(known)}"
            )
        if len(keys) > 1 and keys[1] not in POD_PHASES:
            return _unknown("a task", keys[1:], POD_PHASES)
        return None

    def _may_have_any_task(self, tasks: Collection[str]) -> bool:
        """Whether only a run knows the name of one of these tasks."""
        if id(tasks) not in self._has_open_name:
            self._has_open_name[id(tasks)] = any("$(" in name for name in tasks)
        return self._has_open_name[id(tasks)]

    def _name_without_quotes(self, mention: Mention, text: str) -> str | None:
        """Return the step that `steps.a-b.phase` means if there is no step `a`."""
        if not mention.keys or not text.startswith("steps.", mention.at):
            return None
        found = _DASHED.match(text, mention.at + len("steps."))
        written = found.group() if found is not None else ""
        if mention.keys[0] in self._graph.index and "-" not in written.split(".")[0]:
            return None
        ends = (end for end in range(len(written) - 1, 0, -1) if written[end] in ".-")
        for end in [len(written), *ends]:
            name = written[:end]
            if name != mention.keys[0] and name in self._graph.index:
                return name
        return None

    # -------------------------------------------------------------------- references

    def reference_fault(
        self, place: ExpressionPlace, root: str, keys: tuple[str, ...]
    ) -> str | None:
        """Return the fault of a reference, which has fewer names than an expression, or None."""
        if root == "steps" and keys[1:2] != ("outputs",):
            example = "$(steps.NAME.outputs.KEY)"
            return self._misspelled_outputs(keys[0]) or f"write {example} for a step's output"
        if root == "flow" and len(keys) > 1:
            return _unknown("a flow", (".".join(keys),), ("name", "namespace"))
        return self.fault(place, Mention(root, keys, 0))

    def _misspelled_outputs(self, path: str) -> str | None:
        """Return the fault of `x.output.y`."""
        name, _, rest = path.partition(".")
        word = rest.partition(".")[0]
        guess = Suggester(["outputs"]).nearest(word) if word else None
        if name in self._graph.index and guess:
            return f"references to a step have only outputs{did_you_mean(guess)}"
        return None


def _unknown(owner: str, keys: Sequence[str], known: Collection[str]) -> str:
    listed = ", ".join(known)
    if not keys:
        return f"write which field of {owner} is meant: {listed}"
    guess = Suggester([*known]).nearest(keys[0])
    return f'{owner} has no "{keys[0]}"' + (did_you_mean(guess) or f"; it has {listed}")


def upstream_bits(graph: Graph) -> list[int]:
    """Return the steps that each step depends on, directly or not, as bits. Includes all others if
    either waits for a cycle, which has a fault of its own."""
    in_cycles = sum(1 << step for step in {*range(len(graph))}.difference(graph.order))
    above = [-1] * len(graph)
    for step in graph.order:
        above[step] = in_cycles
        for target in graph.targets[step]:
            above[step] |= above[target] | 1 << target
    return above
