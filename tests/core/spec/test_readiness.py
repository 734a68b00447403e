"""Readiness: the state of a target by its end, and the state of all targets together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.flow_status import StepCondition
from jobflow.api.jobflow import Condition, Step, Strategy
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

#            not yet  Completed  Failed   Forgiven NotTaken UpstreamFailed Stopped
TABLE = {
    "Completed": (NOT_YET, MET, UPSTREAM, MET, PASSED, UPSTREAM, STOPPED),
    "Failed": (NOT_YET, NOT_TAKEN, MET, MET, PASSED, UPSTREAM, STOPPED),
    "Finished": (NOT_YET, MET, MET, MET, PASSED, MET, STOPPED),
    "Running": (NOT_YET, MET, UPSTREAM, MET, PASSED, UPSTREAM, STOPPED),
}
ENDS = (None, *StepEnd)


@pytest.mark.parametrize("condition", TABLE)
def test_what_an_end_is_to_each_condition(condition: str) -> None:
    row = TARGET_STATES[Condition(condition)]
    assert tuple(row[end] for end in ENDS) == TABLE[condition]


def test_every_end_is_judged_by_every_condition() -> None:
    assert {c: set(row) for c, row in TARGET_STATES.items()} == {
        c: {None, *StepEnd} for c in Condition
    }


@pytest.mark.parametrize(
    ("how", "reaches", "verdict"),
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
def test_what_targets_come_to(
    how: str, reaches: tuple[TargetState, ...], verdict: TargetState
) -> None:
    assert combine_states(Strategy(how), reaches) is verdict


@given(st.sampled_from(Strategy), st.lists(st.sampled_from(TargetState), max_size=6), st.randoms())
def test_order_and_repetition_of_targets_do_not_matter(how, reaches, random) -> None:
    shuffled = reaches * 2
    random.shuffle(shuffled)
    assert combine_states(how, shuffled) is combine_states(how, reaches)


@given(st.sampled_from(Strategy), st.lists(st.sampled_from(TargetState), max_size=6))
def test_an_undecided_step_has_a_target_that_may_still_change(how, reaches) -> None:
    verdict = combine_states(how, reaches)
    assert verdict is not PASSED
    assert (verdict is NOT_YET) <= (NOT_YET in reaches)
    assert verdict in {MET, NOT_YET, TargetState.UNSATISFIABLE, *SKIPS}


@pytest.mark.parametrize(
    ("phase", "reason", "end"),
    [
        ("", "", None),
        ("Waiting", "JobLost", None),
        ("Running", "", None),
        ("Completed", "", StepEnd.COMPLETED),
        ("Failed", "JobAborted", StepEnd.FAILED),
        ("Failed", "FailurePolicy", StepEnd.FAILED),
        ("Failed", "Cancelled", StepEnd.STOPPED),
        ("Skipped", "NotTaken", StepEnd.NOT_TAKEN),
        ("Skipped", "UpstreamFailed", StepEnd.UPSTREAM_FAILED),
        ("Skipped", "Stopped", StepEnd.STOPPED),
    ],
)
def test_how_a_step_has_ended(phase: str, reason: str, end: StepEnd | None) -> None:
    condition = StepCondition(phase=phase, reason=reason)
    assert get_end(Step(name="a"), condition) is end
    forgiving = Step(name="a", continue_on_failure=True)
    assert get_end(forgiving, condition) is (StepEnd.FORGIVEN if end is StepEnd.FAILED else end)


@pytest.mark.parametrize("condition", [None, *Condition])
def test_of_a_daemon_it_is_wanted_that_it_runs(condition: str | None) -> None:
    step, daemon = Step(name="b", depends_on=after("a", condition=condition)), Step(daemon=True)
    usual = condition in (None, Condition.COMPLETED)
    assert get_condition_for(step, Step(name="a")) == (condition or Condition.COMPLETED)
    assert get_condition_for(step, daemon) == (Condition.RUNNING if usual else condition)


def test_what_is_not_said_is_the_default() -> None:
    for step in (Step(name="b"), Step(name="b", depends_on=after("a"))):
        assert (get_condition(step), get_strategy(step)) == (Condition.COMPLETED, Strategy.ALL)
    step = Step(name="b", depends_on=after("a", strategy="any", condition="Running"))
    assert (get_condition(step), get_strategy(step)) == (Condition.RUNNING, Strategy.ANY)
