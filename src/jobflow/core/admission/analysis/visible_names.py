"""Names that an expression or a reference may use at its place, and the faults of other names.

`core.cel.scope` holds the values: a name that is a fault here has no value there.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import Evaluated, Stage, find_set
from jobflow.api.labels import SCHEDULED_TIME
from jobflow.core.admission.analysis import places
from jobflow.core.admission.analysis.jobs.resolved_specs import KnownTasks
from jobflow.core.cel import references, scope
from jobflow.core.cel.language.tree import Mention
from jobflow.core.cel.language.values import TYPES
from jobflow.core.pods.failure import FACTS, FACTS_OF_CHILD
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names
from jobflow.core.work import may_run_steps, work_of

ITEM_FACTS = ("phase", "outputs")
_FIELDS_WITHOUT_A_JOB = tuple(field for field in scope.ITEM_FIELDS if field != "job")
_FOR_ITEMS: Mapping[tuple[str, ...], str] = {
    ("outputs",): '{}, and steps["{}"].item.outputs for the item of the same index',
    ("job",): '{}; write steps["{}"].item.job for the item of the same index',
}
"""Faults of facts of a step whose items are matched."""
REFERENCE_FACTS: tuple[str, ...] = ("outputs", "phase", "reason", "job", "failure")
_LITERALS = {"true": "true", "false": "false", "null": "null", "none": "null", "nil": "null"}
"""Literals of other languages -> CEL's."""
_DASHED = re.compile(r"[-.\w]+")


class NameFault(NamedTuple):
    at: int
    """Index of its first character."""
    detail: str


class NameScope:
    def __init__(
        self,
        flow: JobFlow,
        index: Mapping[str, int],
        upstream: places.UpstreamSteps,
        tasks: KnownTasks,
    ) -> None:
        """`index`: the positions of the steps by name."""
        self._tasks = tasks
        self._index = index
        self._upstream = upstream
        self._steps = upstream.steps
        self._graph = upstream.graph
        self._flow_fields = ["name", "namespace"]
        if SCHEDULED_TIME in (flow.metadata.annotations or {}):
            self._flow_fields.append("scheduledTime")
        self._claims = list(flow.spec.volume_claims or ())
        if self._claims:
            self._flow_fields.append("claims")
        self._params = frozenset(param.name for param in flow.spec.params or ())
        self._has_open_name: dict[int, bool] = {}
        """By id of the tasks of a step, which live as long as their flow."""
        self._param_suggester = Suggester([param.name for param in flow.spec.params or ()])
        self._step_suggester = Suggester(upstream.graph.names)

    def _variables(self, place: places.ExpressionPlace) -> list[str]:
        return places.variables_of(place, None if place.is_of_flow else self._steps[place.position])

    def faults(
        self, place: places.ExpressionPlace, mentions: Sequence[Mention], text: str
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

    def fault(self, place: places.ExpressionPlace, mention: Mention) -> str | None:
        """Return the fault of one name as a clause, or None."""
        root, keys = mention.root, mention.keys
        if root not in places.COMMON_VARIABLES and root not in self._variables(place):
            return None if root in TYPES and not keys else self._no_variable(place, root)
        if root == "params" and keys and keys[0] not in self._params:
            guess = did_you_mean(self._param_suggester.nearest(keys[0]))
            return f'there is no parameter "{keys[0]}"{guess}'
        if root == "flow" and (keys or mention.open):
            return self._flow(place, keys)
        if root == "failure":
            own = self._steps[place.position]
            return unknown_fact(keys, of_child=may_run_steps(own))
        if root == "last":
            return _unknown_key("the last run", keys, scope.LAST_FIELDS)
        if root == places.VARS:
            if keys[0] in (known := self._steps[place.position].vars or {}):
                return None
            listed = [f"vars.{each}" for each in known]
            return unknown_field("this step", (f"vars.{keys[0]}",), listed)
        if root != "steps":
            return None
        if not keys:
            return 'write the name of the step, as in steps["NAME"].phase'
        if keys[1:2] == ("item",):
            return self._step(place, keys[0], of_item=True) or self._item(place, keys[0], keys[2:])
        fault = self._step(place, keys[0]) or self._fact(keys[0], mention)
        if fault is not None and self._matches(place, keys[0]):
            return _FOR_ITEMS.get(keys[1:2], "{}").format(fault, keys[0])
        if fault is not None or place.stage is not Stage.VARS:
            return fault
        # the outputs and other facts of a step that still runs are not known yet
        is_over = not self._upstream.may_still_run(place.position, self._index[keys[0]])
        if is_over or keys[1:2] in (("phase",), ("job",)):
            return None
        how = "wait until it has ended"
        if self._matches(place, keys[0]):
            how = f'write steps["{keys[0]}"].item for the item of the same index'
        return (
            f'"{keys[0]}" may still run when this step starts, so vars can only use its phase '
            f"and job; {how}"
        )

    def _no_variable(self, place: places.ExpressionPlace, root: str) -> str:
        if root == places.VARS and place.stage in places.WITH_VARS:
            return "the step sets no vars"
        if root in ("item", "index") and place.stage is Stage.DECISION:
            own = self._steps[place.position]
            if own.for_each is not None and (own.when is not None or own.switch is not None):
                return (
                    "when and switch of a step are evaluated once, for all its items; forEach.when "
                    f"is evaluated for each and has {root}"
                )
        if place.stage is Stage.QUESTION:
            found = find_set(self._steps[place.position], Evaluated)
            if any(each.trait.stage is Stage.QUESTION and root in each.value for each in found):
                return (
                    f"there is no variable {root}; a value cannot use another one of its step: "
                    "write its expression again, or compute it in a step before this one"
                )
        if root in places.OTHER_PLACES:
            return places.OTHER_PLACES[root]
        if root in scope.RUN_FIELDS:
            return (
                f"only repeat.until and retry.when have {root}, of the run that has ended; for "
                f'another step write steps["NAME"].{root}'
            )
        if root in self._params:
            return f"there is no variable {root}; write params.{root}"
        if root in self._graph.index:
            fault = self._step(place, root)
            return f"there is no variable {root}; " + (fault or f'write steps["{root}"]')
        if (word := _LITERALS.get(root.lower())) is not None:
            return f"there is no variable {root}; write {word}"
        guess = Suggester(self._variables(place)).nearest(root)
        listed = f"; there are {', '.join(self._variables(place))}"
        return f"there is no variable {root}" + (did_you_mean(guess) or listed)

    def _flow(self, place: places.ExpressionPlace, keys: Sequence[str]) -> str | None:
        names = [*self._flow_fields]
        if place.position >= len(self._graph):
            names += ["phase", "failures"]
        if keys and keys[0] in names:
            if keys[0] == "claims":
                return _unknown_key("spec.volumeClaims", keys[1:], self._claims)
            return unknown_failure(keys[2:]) if keys[0] == "failures" else None
        if keys and keys[0] in ("phase", "failures"):
            return f"only steps of finally and outputs of the flow have flow.{keys[0]}"
        if keys and keys[0] == "claims":
            return "only flows with volumeClaims have flow.claims"
        if keys and keys[0] == "scheduledTime":
            return "only flows that a CronJobFlow creates have flow.scheduledTime"
        return unknown_field("a flow", keys, names)

    def _step(
        self, place: places.ExpressionPlace, name: str, *, of_item: bool = False
    ) -> str | None:
        """Return why a step cannot be read, or None. `of_item`: a single item of it."""
        target, first = self._index.get(name), len(self._graph)
        if target is None:
            guess = self._step_suggester.nearest(name)
            is_usable = guess is not None and self._step(place, guess) is None
            return f'no such step as "{name}"' + did_you_mean(guess if is_usable else None)
        # finally starts when all steps of flows have ended
        if target >= first > place.position:
            return f'"{name}" is a step of finally, whose result no step of flows can use'
        if target == place.position and place.stage is Stage.QUESTION:
            return "a step cannot use its own result; compute it in a step before this one"
        if target == place.position:
            return (
                "a step cannot use its own result; repeat.until and retry.when have outputs, phase "
                "and reason of the run that has just ended, and retry.when has its failure"
            )
        # finally may read every step of flows, and outputs every step
        if target < first <= place.position or place.is_of_flow:
            return None
        if self._upstream.depends_on(place.position, target):
            # a decision is made while matched items of the target still run
            own = self._steps[place.position]
            is_early = place.stage in places.DECISIONS and own.matches_items and not of_item
            if not is_early or self._upstream.is_settled(place.position, target):
                return None
            how = "use a step before it"
            if self._steps[target].for_each is not None:
                how += f', or steps["{name}"].item in forEach.when'
            return (
                f'"{name}" may still run when this is evaluated, because its items are matched; '
                f"{how}"
            )
        dependant = self._steps[place.position].name
        return f'step "{dependant}" does not depend on "{name}"; add it to dependsOn.targets'

    def _fact(self, name: str, mention: Mention) -> str | None:
        keys = mention.keys[1:]
        position = self._index[name]
        step = self._steps[position]
        # items have a job each, so the step has none
        absent = {"items"} if step.for_each is None else {"job"}
        if _has_no_job(step):
            absent |= {"job", "tasks"}
        facts = [fact for fact in scope.STEP_FIELDS if fact not in absent]
        if not keys:
            return unknown_field("a step", keys, facts) if mention.open else None
        if keys[0] == "items" and step.for_each is None:
            return f'"{name}" has no forEach, and so no items'
        if keys[0] == "job" and step.for_each is not None:
            return f'"{name}" has forEach, and so a job for each item'
        if keys[0] not in facts:
            return unknown_field("a step", keys, facts)
        if keys[0] == "outputs" and step.for_each is not None:
            return (
                f'"{name}" has forEach: each of its items has outputs, as in '
                f'steps["{name}"].items[0].outputs'
            )
        if (fault := _undeclared_output(step, keys)) is not None:
            return fault
        if keys[0] == "failure":
            return unknown_fact(keys[1:], of_child=may_run_steps(step))
        if keys[0] == "items":
            fault = _unknown_key("an item", keys[2:], ITEM_FACTS)
            return fault or _undeclared_output(step, keys[2:])
        if keys[0] != "tasks" or not keys[1:]:
            return None
        known, task = self._tasks.get(position), keys[1]
        if known is not None and id(known) not in self._has_open_name:
            self._has_open_name[id(known)] = any("$(" in each for each in known)
        if known is not None and task not in known and not self._has_open_name[id(known)]:
            guess = did_you_mean(self._tasks.nearest(task, known))
            has = guess or f"; it has {join_names(known)}"
            return f'the job of "{name}" has no task "{task}"{has}'
        return _unknown_key("a task", keys[2:], scope.POD_PHASES)

    def _matches(self, place: places.ExpressionPlace, name: str) -> bool:
        """Return whether `steps[name].item` has a meaning at a place."""
        has_item = name in self._index and "item" in self._variables(place)
        return has_item and self._upstream.matches(place.position, self._index[name])

    def _item(self, place: places.ExpressionPlace, name: str, keys: tuple[str, ...]) -> str | None:
        """Return the fault of fields of `steps[name].item`."""
        position = self._index[name]
        step = self._steps[position]
        if "item" not in self._variables(place):
            return f'{self._no_variable(place, "item")}, and so steps["{name}"].item'
        if step.for_each is None:
            return f'"{name}" has no forEach, and so no items; write steps["{name}"].outputs'
        if not self._upstream.matches(place.position, position):
            own = self._steps[place.position].name
            return (
                f'the items of "{own}" do not depend on single items of "{name}"; set '
                f'dependsOn.items: Matching in "{own}" and in each step between them'
            )
        facts = _FIELDS_WITHOUT_A_JOB if _has_no_job(step) else scope.ITEM_FIELDS
        if keys and keys[0] not in facts:
            return unknown_field("an item", keys, facts)
        is_early = self._upstream.item_may_still_run(place.position, position)
        if is_early and keys[:1] not in (("phase",), ("job",)):
            return (
                f'the item of "{name}" may still run when this item starts, so only its phase and '
                "job are known; wait until it has ended"
            )
        if keys[:1] == ("failure",):
            return unknown_fact(keys[1:], of_child=may_run_steps(step))
        return _undeclared_output(step, keys)

    def _name_without_quotes(self, mention: Mention, text: str) -> str | None:
        """Return the step that `steps.a-b.phase` means if there is no step `a`."""
        if not mention.keys or not text.startswith("steps.", mention.at):
            return None
        found = _DASHED.match(text, mention.at + len("steps."))
        written = found.group() if found is not None else ""
        if mention.keys[0] in self._index and "-" not in written.split(".")[0]:
            return None
        # the longest name that exists is meant
        ends = (end for end in range(len(written) - 1, 0, -1) if written[end] in ".-")
        for end in [len(written), *ends]:
            name = written[:end]
            if name != mention.keys[0] and name in self._index:
                return name
        return None

    def reference_fault(
        self, place: places.ExpressionPlace, root: str, keys: tuple[str, ...]
    ) -> str | None:
        """Return the fault of a reference, which has fewer names than an expression, or None."""
        if root == "steps":
            keys = references.as_item(keys, self._index.__contains__)
            if keys[1:] == ("item",):
                return (
                    f"write which field of it is meant, as in $(steps.{keys[0]}.item.outputs.KEY)"
                )
            if keys[1:2] == ("item",):
                return self.fault(place, Mention(root, keys, 0))
        if root == "steps" and not set(keys[1:2]) & set(REFERENCE_FACTS):
            step, _, rest = keys[0].partition(".")
            name, facts, owner = step, REFERENCE_FACTS, "a reference to a step"
            if rest.startswith("item."):
                name, facts, owner = f"{step}.item", scope.ITEM_FIELDS, "an item"
                rest = rest.removeprefix("item.")
            word = rest.partition(".")[0]
            if word in facts and step in self._index:
                return f"{word} has no fields; write $(steps.{name}.{word})"
            if word and step in self._index:  # `x.output.y`
                return unknown_field(owner, (word,), facts)
            example = "$(steps.NAME.outputs.KEY)"
            others = ", ".join(f".{fact}" for fact in REFERENCE_FACTS[1:])
            return f"write {example} for a step's output, or end with one of {others}"
        if root == "flow" and keys[0] == "claims" and self._claims:
            name = ".".join(keys[1:])
            if name in self._claims:
                return None
            return unknown_field("spec.volumeClaims", (name,) if name else (), self._claims)
        if root == "flow" and len(keys) > 1 and keys[0] not in ("failures", "claims"):
            return unknown_field("a flow", (".".join(keys),), self._flow_fields)
        return self.fault(place, Mention(root, keys, 0))


def _has_no_job(step: Step) -> bool:
    work = work_of(step)
    return work.has_steps or work.at_once


def _undeclared_output(step: Step, keys: tuple[str, ...]) -> str | None:
    """Return the fault of an output that neither the flow nor `compute` of a step has, or None."""
    declared = step.declared_outputs
    if (
        not isinstance(declared, dict)
        or keys[:1] != ("outputs",)
        or {*keys[1:2]} <= declared.keys()
    ):
        return None
    what = f'"{step.name}" does not compute'
    if work_of(step).has_steps:
        what = f'the flow of "{step.name}" has no output'
    return f'{what} "{keys[1]}"' + did_you_mean(Suggester([*declared]).nearest(keys[1]))


def unknown_field(owner: str, keys: Sequence[str], known: Collection[str]) -> str:
    """Return the fault of the first key, which the owner does not have, or of a missing key."""
    listed = ", ".join(known)
    if not keys:
        return f"write which field of {owner} is meant: {listed}"
    guess = Suggester([*known]).nearest(keys[0])
    return f'{owner} has no "{keys[0]}"' + (did_you_mean(guess) or f"; it has {listed}")


def _unknown_key(owner: str, keys: Sequence[str], known: Collection[str]) -> str | None:
    return unknown_field(owner, keys, known) if keys and keys[0] not in known else None


def unknown_fact(keys: Sequence[str], *, of_child: bool) -> str | None:
    """Return the fault of keys below `failure`, or None."""
    if keys and keys[0] in FACTS_OF_CHILD and not of_child:
        return f'only the failure of a step that runs a flow has "{keys[0]}"'
    known = [fact for fact in FACTS if of_child or fact not in FACTS_OF_CHILD]
    return _unknown_key("a failure", keys, known)


def unknown_failure(keys: Sequence[str]) -> str | None:
    """Return the fault of keys below an entry of `flow.failures`, or None."""
    if keys and keys[0] == "failure":
        return unknown_fact(keys[1:], of_child=True)
    return _unknown_key("a failure of a step", keys, scope.FLOW_FAILURE_FIELDS)
