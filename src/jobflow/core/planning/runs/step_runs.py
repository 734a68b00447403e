"""A step's decision from those about its runs. A step without forEach and repeat is its own run."""

from __future__ import annotations

from jobflow.api.flow_status import ENDED_STEP_PHASES, StepCondition
from jobflow.core.planning.context import Decision, RunDecision, Scene
from jobflow.core.planning.observed import Evidence
from jobflow.core.planning.runs import loop as looping
from jobflow.core.planning.runs.create import first_attempt, refused_for_good
from jobflow.core.planning.runs.loop_summary import folded
from jobflow.core.planning.runs.run import again, begun
from jobflow.core.planning.target_ends import (
    as_told,
    is_all_that_is_known,
    named,
    told,
    told_or_guessed,
)


def begun_steps(scene: Scene) -> list[Decision | None]:
    """What comes of each step that has begun, by position; None where it has not. Targets come
    before those that depend on them, for what a step's runs begin with may depend on theirs."""
    found: list[Decision | None] = [None] * len(scene.steps)
    answered = bool(scene.view.refusals or scene.view.holders)
    named_ends = named(scene)
    for position in scene.layout.order:
        evidence = scene.evidence[position]
        memory = evidence.memory
        if memory.phase in ENDED_STEP_PHASES:
            found[position] = Decision(memory)
            continue
        end = told(position, scene) if position in named_ends else None
        if end is not None and is_all_that_is_known(end, evidence):
            scene.standing[position] = as_told(end, evidence)
            found[position] = Decision(scene.standing[position])
            continue
        known = memory.attempts > memory.past_attempts or evidence.job is not None
        if not (known or answered or evidence.loops):
            continue
        decision = _carried_on(position, evidence, scene)
        if decision is not None:
            found[position] = decision
            scene.standing[position] = decision.condition
    return found


def begin(evidence: Evidence, scene: Scene) -> Decision:
    """The first vcjobs of a step that may start; after a retry of the flow, of what is left."""
    if evidence.loops:
        return folded(looping.begin(evidence, scene))
    return _of_step(again(evidence, scene) if evidence.attempts else first_attempt(evidence, scene))


def _carried_on(position: int, evidence: Evidence, scene: Scene) -> Decision | None:
    if evidence.loops:
        loop = looping.carried_on(evidence, scene, lambda: told_or_guessed(position, scene))
        return None if loop is None else folded(loop)
    decision = begun(evidence, scene, lambda: told_or_guessed(position, scene))
    if decision is None:
        decision = refused_for_good(evidence, scene)
    return None if decision is None else _of_step(decision)


def _of_step(decision: RunDecision) -> Decision:
    """Of a step that is its own only run."""
    condition, action, draft = decision.condition, decision.action, decision.draft
    assert isinstance(condition, StepCondition)
    return Decision(
        condition=condition,
        actions=() if action is None else (action,),
        drafts=() if draft is None else (draft,),
        wake_at=decision.wake_at,
        urgent=decision.urgent,
        reads=decision.reads,
        unjudged=decision.unjudged,
    )
