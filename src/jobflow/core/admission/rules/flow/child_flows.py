"""Rules of steps that run child flows (docs/decisions/child-flows.md). The child flows themselves
are judged by all rules (`validate`)."""

from collections.abc import Iterator

from jobflow.api.flow.control import Case
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import InChild, WorkKind, fields_of, find_without
from jobflow.core.admission.analysis.child_flows import (
    MAX_CHILDREN,
    MAX_LEVEL,
    count_children,
    flows_of,
)
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.analysis.names.tree_names import Owner, TooManyNames, TreeNames
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.violations import Reason, Violation
from jobflow.core.work import may_run_steps, work_of

MAX_JOBS = 100_000
"""Vcjobs of an outermost flow and of all flows in it."""
_OTHERS = frozenset(field.json for field in fields_of(JobFlowSpec) if field.get(InChild) is None)


def child_flows_have_the_right_types(facts: FlowFacts) -> Iterator[Violation]:
    for child in facts.children:
        yield from child.misfits


def child_flows_have_own_fields(facts: FlowFacts) -> Iterator[Violation]:
    """A child flow is suspended and deleted with its parent."""
    for child in facts.children:
        for name in child.raw:
            if name in _OTHERS:
                detail = f"a child flow has no {name} of its own; remove it"
                yield Violation(f"{child.path}.{name}", Reason.FORBIDDEN, None, detail)


def steps_with_flows_have_no_job(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in _with_flows(facts):
        for path, trait, _, owner, _ in find_without(step, WorkKind.FLOW, f"{facts.path(i)}."):
            is_of_case = isinstance(owner, Case)
            if is_of_case and not work_of(step, owner).has_steps:
                continue
            what = "case" if is_of_case else "step"
            advice = trait.instead.get(WorkKind.FLOW, "write it into the steps of the flow")
            detail = f"the {what} runs a flow, not a job; {advice}"
            yield Violation(path, Reason.FORBIDDEN, None, detail)


def probes_check_jobs(facts: FlowFacts) -> Iterator[Violation]:
    for i, _ in facts.probes:
        children = {facts.names[at] for at in facts.targets(i) if may_run_steps(facts.steps[at])}
        for at, target in enumerate(facts.steps[i].targets):
            if target in children:
                detail = (
                    "runs a flow, and a probe checks the pods of a job; wait for a condition, or "
                    "put the probe into the flow"
                )
                path = f"{facts.path(i)}.dependsOn.targets[{at}]"
                yield Violation(path, Reason.INVALID, target, detail)


def child_flows_are_not_too_deep(facts: FlowFacts) -> Iterator[Violation]:
    """The outermost flow looks at all levels."""
    for path in _too_deep(facts) if facts.level == 1 else ():
        detail = (
            f"flows in flows have at most {MAX_LEVEL} levels; put its steps into the flow above"
        )
        yield Violation(path, Reason.FORBIDDEN, None, detail)


def _too_deep(facts: FlowFacts) -> Iterator[str]:
    for child in facts.children:
        if facts.level >= MAX_LEVEL:
            yield child.path
        elif child.facts is not None:
            yield from map(child.place, _too_deep(child.facts))


def child_flows_are_few(facts: FlowFacts) -> Iterator[Violation]:
    if (count := count_children(facts)) > MAX_CHILDREN:
        detail = (
            f"up to {count:,} child flows, but a flow has at most {MAX_CHILDREN:,}; let each do "
            "more (forEach.from counts as 1,000 items unless it is a param)"
        )
        yield Violation("spec.flows", Reason.TOO_MANY, count, detail)


def jobs_of_a_tree_are_few(facts: FlowFacts) -> Iterator[Violation]:
    if facts.level == 1 and (count := _jobs(facts)) > MAX_JOBS:
        detail = (
            f"up to {count:,} jobs with those of its child flows, but at most {MAX_JOBS:,} are "
            "allowed; split the flow, or reduce forEach.count and repeat.max (forEach.from counts "
            "as 1,000 items unless it is a param)"
        )
        yield Violation("spec.flows", Reason.TOO_MANY, count, detail)


def names_of_a_tree_are_unique(facts: FlowFacts) -> Iterator[Violation]:
    """Step `b` of the child flow of step `a` makes the vcjob `<flow>-a-b`, and so does step `a-b`.
    Rules of names look at the steps of one flow."""
    if facts.level > 1:
        return
    try:
        for name, first, second in TreeNames(facts).clashes():
            yield _clash(f"{facts.flow_name}-{name}", first, second)
    except TooManyNames:
        detail = "too many names of jobs are alike to compare them; give the steps other names"
        yield Violation("spec.flows", Reason.TOO_MANY, len(facts.names), detail)


def _clash(name: str, first: Owner, second: Owner) -> Violation:
    if len(second.path) < len(first.path):
        first, second = second, first
    what = "a pod" if second.task else "a job or child flow"
    detail = f"{first.path} makes {what} of this name too; rename one of the steps"
    return Violation(f"{second.path}.name", Reason.DUPLICATE, name, detail)


def _with_flows(facts: FlowFacts) -> Iterator[tuple[int, Step]]:
    return ((i, step) for i, step in facts.steps_with_options if any(flows_of(step)))


def _runs(facts: FlowFacts, step: int) -> int:
    runs = facts.job_counts[step].runs
    return 1 if runs is None else runs


def _jobs(facts: FlowFacts) -> int:
    """Return the most vcjobs that a flow may run, those of its child flows included."""
    inner: dict[int, int] = {}
    for child in facts.children:
        jobs = 0 if child.facts is None else _jobs(child.facts)
        inner[child.step] = max(inner.get(child.step, 0), jobs)
    return sum(_runs(facts, i) * inner.get(i, 1) for i in range(len(facts.steps)))


CHILD_LIMITS = (Group[Rule](lambda facts: facts.steps_with_flows, (child_flows_are_few,)),)
CHILD_FLOW_RULES = (
    Group[Rule](
        lambda facts: facts.steps_with_flows,
        (
            child_flows_have_the_right_types,
            child_flows_have_own_fields,
            steps_with_flows_have_no_job,
            probes_check_jobs,
            child_flows_are_not_too_deep,
            jobs_of_a_tree_are_few,
            names_of_a_tree_are_unique,
        ),
    ),
)
