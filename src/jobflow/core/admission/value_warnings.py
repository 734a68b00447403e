"""Warnings about the values of a flow: params, conditions, compared phases, and outputs."""

from collections.abc import Iterable, Iterator

from jobflow.api.flow.control import FailurePolicy
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.api.flow.step import Condition, Step
from jobflow.api.volcano.job import JobPhase
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import FieldWarningRule, RuleGroup
from jobflow.core.cel.expression import Expression, parse_expression
from jobflow.core.cel.language.tree import Comparison
from jobflow.core.cel.references import has_other_brackets
from jobflow.core.json_values import maps
from jobflow.core.limits import MAX_MESSAGE_BYTES, MAX_POD_MESSAGE_BYTES
from jobflow.core.manifests.layers import count_containers
from jobflow.core.pods.outputs import message_limit
from jobflow.core.spec.expressions import find_needed_outputs
from jobflow.core.spec.items import count_of, get_items
from jobflow.core.spec.readiness import get_probe
from jobflow.core.suggest import Suggester
from jobflow.core.text import format_count, join_names
from jobflow.core.violations import FieldWarning, quote

STEP_PHASES = frozenset({*StepPhase, *JobPhase})
FINALLY_PHASES = frozenset({FlowPhase.SUCCEED, FlowPhase.FAILED})
"""Values of `flow.phase` in finally."""

_WITH_USER_FIELDS = frozenset({"outputs", "item", "params"})
"""Variables whose `phase` is the user's own."""
_SYNONYMS = {
    "complete": "Completed",
    "done": "Completed",
    "error": "Failed",
    "failure": "Failed",
    "finished": "Completed",
    "succeed": "Completed",
    "succeeded": "Completed",
    "success": "Completed",
    "successful": "Completed",
    "omitted": "Skipped",
}


def tolerances_say_something(facts: FlowFacts) -> Iterator[FieldWarning]:
    # the number of items may be known only when the step starts
    for i, step in facts.steps_with_options:
        each, items = step.for_each, get_items(step, None)
        if each is None or not items:
            continue
        most = count_of(each.max_failed, len(items), up=False)
        path, count = f"{facts.path(i)}.forEach.maxFailed", format_count(len(items), "item")
        if most is not None and most >= len(items):
            yield FieldWarning(path, f"all {count} may fail, so the step completes in any case")
        elif most == 0 and each.max_failed not in (0, "0%"):
            detail = f"{each.max_failed} of {count}, rounded down, is none, so that none may fail"
            yield FieldWarning(path, detail)
        least = count_of(each.min_success, len(items), up=True)
        continues = facts.flow.spec.failure_policy == FailurePolicy.CONTINUE
        if least == len(items) and not continues:
            path = f"{facts.path(i)}.forEach.minSuccess"
            yield FieldWarning(path, f"all {count} have to complete, as without it")


def until_reads_the_items(facts: FlowFacts) -> Iterator[FieldWarning]:
    for each, parsed, _ in facts.expressions.parsed:
        of_items = each.path.endswith(".forEach.until")
        if of_items and all(mention.root != "items" for mention in parsed.mentions):
            detail = (
                "it does not read items, so its value is the same whichever of them have completed"
            )
            yield FieldWarning(each.path, detail)


def steps_behind_optional_ones_run(facts: FlowFacts) -> Iterator[FieldWarning]:
    # a step all of whose targets were not taken is skipped with them
    optional = {i: whens for i, step in facts.steps_with_options if (whens := _whens(step))}
    for i, depends_on in enumerate(step.depends_on for step in facts.steps) if optional else ():
        targets = facts.targets(i)
        # a probe decides alone
        has_probe = get_probe(facts.steps[i]) is not None
        if has_probe or depends_on is None or not targets or not optional.keys() >= {*targets}:
            continue
        own = depends_on.conditions or {}
        words = {own.get(facts.names[t], depends_on.condition) for t in targets}
        branches = {optional[target] for target in targets}
        # conditions on the same values are branches, one of which is usually taken
        if words <= {None, Condition.FINISHED} and len(set(map(_values, branches))) == len(
            branches
        ):
            names = join_names([facts.names[target] for target in targets])
            detail = (
                f"the step is skipped if {names} {'are' if len(targets) > 1 else 'is'}; set "
                "condition to NotFailed to run it then too, to Always to run it also after a "
                "failure, or to Completed if that is meant"
            )
            yield FieldWarning(f"{facts.path(i)}.dependsOn.targets", detail)


def _whens(step: Step) -> tuple[str, ...]:
    """Return the conditions without one of which a step is not taken; empty if it always is."""
    cases = [case.when for case in step.switch or ()]
    whens = [step.when] if step.when is not None else [] if None in cases else cases
    return tuple(text for text in whens if text is not None)


def _values(whens: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    """Return the paths of the values that conditions read."""
    parsed = (parse_expression(text) for text in whens)
    known = (each for each in parsed if isinstance(each, Expression))
    return frozenset((found.root, *found.keys) for each in known for found in each.mentions)


def unknown_phases(compared: Iterable[Comparison]) -> Iterator[tuple[str, str]]:
    """Yield each word that is no phase, and the phase that is probably meant, or ""."""
    suggesters = {known: Suggester(sorted(known)) for known in (STEP_PHASES, FINALLY_PHASES)}
    for path, bound, word, _ in compared:
        *owner, last = path
        # `phase` of a bound variable alone may be that of any value
        if last != "phase" or not _WITH_USER_FIELDS.isdisjoint(owner) or (bound and not owner):
            continue
        known = FINALLY_PHASES if owner == ["flow"] and not bound else STEP_PHASES
        if word not in known:
            meant = _SYNONYMS.get(word.lower()) or suggesters[known].nearest(word) or ""
            yield word, "Succeed" if known is FINALLY_PHASES and meant == "Completed" else meant


def compared_phases_exist(facts: FlowFacts) -> Iterator[FieldWarning]:
    # a comparison with a word that is no phase has the same result for every phase
    for each, parsed, _ in facts.expressions.parsed:
        found = dict(unknown_phases(parsed.comparisons())) if "phase" in each.text else {}
        listed = [
            f"{quote(word)} (write {quote(meant)})" if meant else quote(word)
            for word, meant in found.items()
        ]
        if listed:
            are = "are no phases" if len(listed) > 1 else "is no phase"
            detail = f"{join_names(listed)} {are}, so no phase ever equals it"
            yield FieldWarning(each.path, detail)


def params_hold_no_variables(facts: FlowFacts) -> Iterator[FieldWarning]:
    # a value that a reference inserts is data, in which Kubernetes replaces nothing
    for i, param in enumerate(facts.flow.spec.params or ()):
        if has_other_brackets(param.value):
            detail = (
                'its "$(" arrives in containers as it is, because Kubernetes expands no variables '
                "in what a reference inserts; to use a variable, write $(NAME) beside the reference"
            )
            yield FieldWarning(f"spec.params[{i}].value", detail)


def outputs_have_room(facts: FlowFacts) -> Iterator[FieldWarning]:
    # the containers of a pod share the room for termination messages
    crowded: dict[int, int] = {}
    for each in facts.resolved_specs:
        # the first task has the outputs
        sharing = count_containers({"tasks": maps(each.spec.get("tasks"))[:1]})
        if message_limit(sharing) < MAX_MESSAGE_BYTES:
            crowded[id(each)] = sharing
    if not crowded:
        return
    needed, seen = find_needed_outputs(facts.flow.spec), set[int]()
    for step, resolved in facts.resolved_steps:
        count = crowded.get(id(resolved))
        if count and step not in seen and facts.names[step] in needed:
            seen.add(step)
            detail = (
                f"the {count} containers of its pod share {MAX_POD_MESSAGE_BYTES:,} bytes of "
                f"termination messages, so Kubernetes cuts its outputs at "
                f"{message_limit(count):,} bytes; write less, or use fewer containers"
            )
            yield FieldWarning(facts.path(step), detail)


VALUE_WARNINGS: tuple[RuleGroup[FieldWarningRule], ...] = (
    RuleGroup(
        lambda facts: facts.steps_with_options,
        (tolerances_say_something,),
    ),
    RuleGroup(
        lambda facts: facts.written_expressions, (compared_phases_exist, until_reads_the_items)
    ),
    RuleGroup(lambda facts: facts.flow.spec.params, (params_hold_no_variables,)),
    RuleGroup(lambda facts: facts.written_expressions or facts.references, (outputs_have_room,)),
)
