"""Readiness: the state of a target by its end, and the state of all targets together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow.status import StepCondition
from jobflow.api.flow.step import Condition, DependsOn, Step, Strategy
from jobflow.core.spec.readiness import (
    SKIPS,
    TARGET_STATES,
    StepEnd,
    TargetState,
    combine_states,
    get_condition,
    get_condition_for,
    get_end,
    get_strategy,
)
from support.plan.plan_world import after

MET, NOT_YET, PASSED = TargetState.MET, TargetState.NOT_YET, TargetState.PASSED_OVER
NOT_TAKEN, UPSTREAM = TargetState.NOT_TAKEN, TargetState.UPSTREAM_FAILED
STOPPED, NEVER = TargetState.STOPPED, TargetState.UNSATISFIABLE

#            not yet  Completed  Failed  Tolerated NotTaken UpstreamFailed Stopped
TABLE = {
    "Completed": (NOT_YET, MET, UPSTREAM, MET, PASSED, UPSTREAM, STOPPED),
    "Failed": (NOT_YET, NOT_TAKEN, MET, MET, PASSED, UPSTREAM, STOPPED),
    "Finished": (NOT_YET, MET, MET, MET, PASSED, MET, STOPPED),
    "Running": (NOT_YET, MET, UPSTREAM, MET, PASSED, UPSTREAM, STOPPED),
    "NotFailed": (NOT_YET, MET, UPSTREAM, MET, MET, UPSTREAM, STOPPED),
    "Always": (NOT_YET, MET, MET, MET, MET, MET, MET),
}
ENDS = (None, *StepEnd)


@pytest.mark.parametrize("condition", TABLE)
def test_each_end_has_a_state_per_condition(condition: str) -> None:
    row = TARGET_STATES[Condition(condition)]
    assert tuple(row[end] for end in ENDS) == TABLE[condition]


def test_the_table_covers_all_ends_and_conditions() -> None:
    assert {c: set(row) for c, row in TARGET_STATES.items()} == {
        c: {None, *StepEnd} for c in Condition
    }


@pytest.mark.parametrize(
    ("strategy", "states", "verdict"),
    [
        ("all", (), MET),
        ("any", (), MET),
        ("all", (MET, MET), MET),
        ("all", (MET, NOT_YET), NOT_YET),
        ("all", (MET, PASSED), MET),
        ("all", (PASSED, PASSED), NOT_TAKEN),
        ("all", (PASSED, NOT_YET), NOT_YET),
        ("all", (UPSTREAM, NOT_YET), UPSTREAM),
        ("all", (UPSTREAM, STOPPED), UPSTREAM),
        ("all", (NOT_TAKEN, NOT_YET), NOT_YET),
        ("all", (NOT_TAKEN, MET), NOT_TAKEN),
        ("all", (NOT_TAKEN, UPSTREAM), UPSTREAM),
        ("all", (STOPPED, NOT_TAKEN), STOPPED),
        ("all", (STOPPED, MET), STOPPED),
        ("all", (NEVER, NOT_YET), NEVER),
        ("all", (NEVER, UPSTREAM, STOPPED), NEVER),
        ("all", (NEVER, PASSED), NEVER),
        ("any", (NEVER, NOT_YET), NOT_YET),
        ("any", (NEVER, MET), MET),
        ("any", (NEVER, UPSTREAM), NEVER),
        ("any", (NEVER, PASSED, STOPPED), NEVER),
        ("any", (MET, NOT_YET), MET),
        ("any", (MET, UPSTREAM, STOPPED, NOT_TAKEN), MET),
        ("any", (UPSTREAM, NOT_YET), NOT_YET),
        ("any", (UPSTREAM, NOT_TAKEN), UPSTREAM),
        ("any", (PASSED, UPSTREAM), UPSTREAM),
        ("any", (STOPPED, NOT_TAKEN), STOPPED),
        ("any", (NOT_TAKEN, PASSED), NOT_TAKEN),
        ("any", (PASSED, PASSED), NOT_TAKEN),
    ],
)
def test_the_states_of_targets_are_combined(
    strategy: str, states: tuple[TargetState, ...], verdict: TargetState
) -> None:
    assert combine_states(Strategy(strategy), states) is verdict


@given(st.sampled_from(Strategy), st.lists(st.sampled_from(TargetState), max_size=6), st.randoms())
def test_order_and_repetition_of_targets_do_not_matter(strategy, states, random) -> None:
    shuffled = states * 2
    random.shuffle(shuffled)
    assert combine_states(strategy, shuffled) is combine_states(strategy, states)


@given(st.sampled_from(Strategy), st.lists(st.sampled_from(TargetState), max_size=6))
def test_an_undecided_step_has_a_target_that_may_still_change(strategy, states) -> None:
    verdict = combine_states(strategy, states)
    assert verdict is not PASSED
    assert (verdict is NOT_YET) <= (NOT_YET in states)
    assert verdict in {MET, NOT_YET, TargetState.UNSATISFIABLE, *SKIPS}


@pytest.mark.parametrize(
    ("phase", "reason", "is_cancelled", "end"),
    [
        ("", "", False, None),
        ("Waiting", "JobLost", False, None),
        ("Running", "", True, None),
        ("Completed", "", True, StepEnd.COMPLETED),
        ("Failed", "JobAborted", False, StepEnd.FAILED),
        ("Failed", "FailurePolicy", False, StepEnd.FAILED),
        ("Failed", "Cancelled", True, StepEnd.STOPPED),
        ("Failed", "Cancelled", False, StepEnd.FAILED),
        ("Skipped", "NotTaken", False, StepEnd.NOT_TAKEN),
        ("Skipped", "UpstreamFailed", False, StepEnd.UPSTREAM_FAILED),
        ("Skipped", "Stopped", True, StepEnd.STOPPED),
    ],
)
def test_the_end_of_a_step_follows_from_its_condition(
    phase: str, reason: str, is_cancelled: bool, end: StepEnd | None
) -> None:
    condition = StepCondition(phase=phase, reason=reason)
    assert get_end(Step(name="a"), condition, is_cancelled=is_cancelled) is end
    tolerating = Step(name="a", continue_on_failure=True)
    tolerated = StepEnd.TOLERATED if end is StepEnd.FAILED else end
    assert get_end(tolerating, condition, is_cancelled=is_cancelled) is tolerated


@pytest.mark.parametrize("condition", [None, *Condition])
def test_a_daemon_is_expected_to_run_by_default(condition: str | None) -> None:
    step, daemon = Step(name="b", depends_on=after("a", condition=condition)), Step(daemon=True)
    assert get_condition_for(step, Step(name="a")) == (condition or Condition.COMPLETED)
    assert get_condition_for(step, daemon) == (condition or Condition.RUNNING)


@pytest.mark.parametrize(
    ("conditions", "of_a", "of_daemon"),
    [
        ({}, "Failed", "Failed"),
        ({"a": "Completed", "d": "Completed"}, "Completed", "Completed"),
        ({"a": "Running", "d": "Finished"}, "Running", "Finished"),
    ],
)
def test_a_target_can_have_a_condition_of_its_own(
    conditions: dict[str, str], of_a: str, of_daemon: str
) -> None:
    depends_on = DependsOn(targets=["a", "d"], condition="Failed", conditions=conditions)
    step = Step(name="b", depends_on=depends_on)
    assert get_condition_for(step, Step(name="a")) == of_a
    assert get_condition_for(step, Step(name="d", daemon=True)) == of_daemon


def test_condition_and_strategy_have_defaults() -> None:
    for step in (Step(name="b"), Step(name="b", depends_on=after("a"))):
        assert (get_condition(step, "a"), get_strategy(step)) == (Condition.COMPLETED, Strategy.ALL)
    step = Step(name="b", depends_on=after("a", strategy="any", condition="Running"))
    assert (get_condition(step, "a"), get_strategy(step)) == (Condition.RUNNING, Strategy.ANY)
