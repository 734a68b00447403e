"""The explorer finds no violation in small flows, but finds every fault that a test adds."""

import time
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowState, JobFlowStatus, StepCondition
from jobflow.api.volcano.command import Action as CommandAction
from jobflow.api.volcano.job import Job, JobState
from jobflow.core.planning.actions import CommandFlow, CreateJob, DeleteJob, Plan
from jobflow.core.planning.observed.child_flow import ChildFlow
from jobflow.core.planning.observed.view import View
from model.explorer.__main__ import summary
from model.explorer.configurations import CONFIGURATIONS, FLOWS, Configuration, grouped
from model.explorer.search import Explored, Search
from model.explorer.sight import Planner, planned
from support.laws.effort_of_laws import STRIDE
from support.plan.plan_world import World, flow
from support.plan.steps import step

SMALLEST = CONFIGURATIONS[:40]
"""Configurations that are explored to their end in a few seconds altogether."""
TEN_MINUTES = 570.0
"""Ten minutes in seconds, with a reserve."""
SMALL = Configuration(flow("a"), {"fail": 1, "delete flow": 1}, name="small")


def _stories(explored: Explored) -> str:
    return "\n".join(explored.stories.values())


def test_every_flow_is_in_a_configuration() -> None:
    explored = [entry.world for entry in CONFIGURATIONS]
    assert [name for name, world in FLOWS.items() if world not in explored] == []


@pytest.mark.sampled(30)
@pytest.mark.parametrize("configuration", SMALLEST, ids=lambda entry: entry.name)
def test_every_state_of_the_smallest_flows_satisfies_the_laws(configuration: Configuration) -> None:
    explored = Search(configuration).run()
    assert explored.exhausted
    assert not explored.violations, _stories(explored)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_states_within_ten_minutes_satisfy_the_laws(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Smallest configurations first; the later ones share the remaining time. A sampled run has a
    quarter of it."""
    end = time.monotonic() + TEN_MINUTES / STRIDE
    explored: list[Explored] = []
    for number, configuration in enumerate(CONFIGURATIONS):
        share = (end - time.monotonic()) / (len(CONFIGURATIONS) - number)
        explored.append(Search(configuration).run(until=time.monotonic() + max(share, 1.0)))
    with capsys.disabled():
        print(f"\nexplorer: {summary(explored)}")
    assert not any(entry.violations for entry in explored), "\n".join(map(_stories, explored))


def _asks_at_once(flow: JobFlow, view: View, now: datetime) -> Plan:
    return replace(planned(flow, view, now), requeue_after=timedelta(0))


def _wakes_for_nothing(flow: JobFlow, view: View, now: datetime) -> Plan:
    return replace(planned(flow, view, now), requeue_after=timedelta(seconds=5))


def _writes_nothing(flow: JobFlow, view: View, now: datetime) -> Plan:
    return replace(planned(flow, view, now), status=flow.status)


def _does_not_see_deletions(flow: JobFlow, view: View, now: datetime) -> Plan:
    metadata = msgspec.structs.replace(flow.metadata, deletion_timestamp=None)
    return planned(msgspec.structs.replace(flow, metadata=metadata), view, now)


def _deletes_at_once(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    ended = [job.metadata for job in view.jobs.values() if job.ended]
    return replace(plan, actions=(*plan.actions, *(DeleteJob(m.name, m.uid) for m in ended)))


def _sees_no_ends(flow: JobFlow, view: View, now: datetime) -> Plan:
    jobs = {name: job for name, job in view.jobs.items() if not job.ended}
    deleted = frozenset({"f-a", "f-a-r1", "f-a-r2", "f-a-r3"})
    plan = planned(flow, replace(view, jobs=jobs, deleted=deleted), now)
    actions = [replace(a, guard=None) if isinstance(a, CreateJob) else a for a in plan.actions]
    return replace(plan, actions=tuple(actions))


def _takes_failures_for_successes(flow: JobFlow, view: View, now: datetime) -> Plan:
    jobs = {
        name: msgspec.structs.replace(
            job, status=msgspec.structs.replace(job.status, state=JobState(phase="Completed"))
        )
        if job.phase == "Failed"
        else job
        for name, job in view.jobs.items()
    }
    return planned(flow, replace(view, jobs=jobs), now)


def _changes_a_final_phase(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    phase = "Running" if flow.final else plan.status.state.phase
    return _with_status(plan, state=FlowState(phase=phase))


def _keeps_what_completed(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan, known = planned(flow, view, now), flow.status.conditions or {}
    kept = {key: each for key, each in known.items() if each.phase == "Completed"}
    if not flow.final:
        return plan
    return _with_status(plan, conditions={**(plan.status.conditions or {}), **kept})


def _forgets_steps(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    return _with_status(plan, conditions=None) if flow.final else plan


def _writes_unknown_reasons(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    return _with_status(plan, state=msgspec.structs.replace(plan.status.state, reason="Because"))


def _sees_no_other_flow(flow: JobFlow, view: View, now: datetime) -> Plan:
    return planned(flow, replace(view, groups={}), now)


def _takes_failed_children_for_successes(flow: JobFlow, view: View, now: datetime) -> Plan:
    planner = planned if flow.is_child else _takes_failures_for_successes
    return planner(flow, view, now)


def _knows_no_parent(flow: JobFlow, view: View, now: datetime) -> Plan:
    return planned(flow, replace(view, parent=None), now)


def _retries_children_at_once(flow: JobFlow, view: View, now: datetime) -> Plan:
    failed = [job for job in view.jobs.values() if job.phase == "Failed"]
    return _commanding(failed, CommandAction.RESTART_JOB, flow, view, now)


def _cancels_children_at_once(flow: JobFlow, view: View, now: datetime) -> Plan:
    running = [job for job in view.jobs.values() if not job.ended]
    return _commanding(running, CommandAction.TERMINATE_JOB, flow, view, now)


def _tolerates_every_failure(flow: JobFlow, view: View, now: datetime) -> Plan:
    jobs = {
        name: msgspec.structs.replace(job, flow_error=False) if isinstance(job, ChildFlow) else job
        for name, job in view.jobs.items()
    }
    return planned(flow, replace(view, jobs=jobs), now)


def _commanding(
    jobs: list[Job], action: CommandAction, flow: JobFlow, view: View, now: datetime
) -> Plan:
    """Return the plan with a Command on each of these child flows, once."""
    plan = planned(flow, view, now)
    sent = [CommandFlow(job.metadata.name, job.metadata.uid, action) for job in jobs]
    new = [each for each in sent if each.key not in view.aborts]
    return plan if flow.is_child else replace(plan, actions=(*plan.actions, *new))


def _with_status(plan: Plan, **fields: object) -> Plan:
    status: JobFlowStatus = msgspec.structs.replace(plan.status, **fields)
    return replace(plan, status=status)


FAULTY: dict[str, Planner] = {
    "no_plan_asks_for_itself": _asks_at_once,
    "nothing_starts_that_is_to_end": _does_not_see_deletions,
    "only_what_is_recorded_is_deleted": _deletes_at_once,
    "the_status_is_well_formed": _writes_unknown_reasons,
    "nothing_runs_twice": _sees_no_ends,
    "nothing_is_lost": _takes_failures_for_successes,
    "final_stays_final": _changes_a_final_phase,
    "what_has_ended_stays_ended": _forgets_steps,
    "every_flow_ends": _writes_nothing,
}


def _starts_before_the_answer_is_stored(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    after = planned(msgspec.structs.replace(flow, status=plan.status), view, now)
    early = [action for action in after.actions if isinstance(action, CreateJob)]
    return replace(plan, actions=(*plan.actions, *early))


def test_the_explorer_finds_a_job_that_starts_before_its_approval_is_stored() -> None:
    asking = Configuration(FLOWS["approval"], {"approve": 1}, name="asking")
    explored = Search(asking, _starts_before_the_answer_is_stored).run(states=200)
    assert "nothing_starts_unapproved" in explored.violations


def test_the_explorer_finds_a_job_that_starts_before_the_result_before_it_is_stored() -> None:
    explored = Search(
        Configuration(FLOWS["reuse"], {}, name="reusing"), _starts_before_the_answer_is_stored
    ).run(states=200)
    assert "results_are_stored_before_what_follows" in explored.violations


def _reuses_the_last_step(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    conditions = dict(plan.status.conditions or {})
    conditions["g-c"] = StepCondition(phase="Completed", reason="Reused")
    return _with_status(plan, conditions=conditions)


def test_the_explorer_finds_a_reused_result_that_is_made_of_something_else() -> None:
    explored = Search(
        Configuration(FLOWS["reuse of one of two"], {}, name="reusing"), _reuses_the_last_step
    ).run(states=200)
    assert "what_is_made_of_what_ran_ran" in explored.violations


def test_the_explorer_finds_a_result_of_before_the_retry() -> None:
    handled = flow("a", h=step("a", condition="Failed"))
    explored = Search(Configuration(handled, {"fail": 1, "retry": 1}), _keeps_what_completed).run()
    assert "nothing_stays_behind_what_runs_again" in explored.violations


RETRIED = Configuration(FLOWS["chain"], {"fail": 1, "retry": 1}, name="retried")


def _runs_everything_again(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    conditions = (plan.status.conditions or {}).items()
    again = {key: msgspec.structs.replace(each, phase="Waiting") for key, each in conditions}
    goes_on = flow.final and plan.status.state.phase == "Running"
    return _with_status(plan, conditions=again) if goes_on else plan


def _forgets_jobs_before_a_retry(flow: JobFlow, view: View, now: datetime) -> Plan:
    plan = planned(flow, view, now)
    records = [each for each in plan.status.job_status_list or () if each.name != "f-a"]
    is_retried = (plan.status.conditions or {})["f-b"].attempts > 1
    return _with_status(plan, job_status_list=records) if is_retried else plan


@pytest.mark.parametrize(
    ("law", "planner"),
    [
        ("what_has_ended_stays_ended", _runs_everything_again),
        ("nothing_is_lost", _forgets_jobs_before_a_retry),
    ],
)
def test_the_explorer_finds_what_a_retry_forgets(law: str, planner: Planner) -> None:
    assert law in Search(RETRIED, planner).run(states=600).violations


@pytest.mark.long
@pytest.mark.parametrize(("law", "planner"), FAULTY.items(), ids=FAULTY.keys())
def test_the_explorer_finds_a_planner_that_breaks_a_law(law: str, planner: Planner) -> None:
    explored = Search(SMALL, planner).run(states=200)
    assert law in explored.violations


FAULTY_WITH_CHILDREN: dict[str, tuple[Planner, str, str]] = {
    "nothing_starts_below_a_suspension": (_knows_no_parent, "child flow", "suspend"),
    "child_flows_are_retried_with_their_parent": (_retries_children_at_once, "child flow", "fail"),
    "child_flows_agree_with_their_parent": (
        _takes_failed_children_for_successes, "child flow", "fail"
    ),
    "only_what_is_recorded_is_deleted": (_cancels_children_at_once, "child flow", "fail"),
    "an_error_of_a_flow_itself_fails_it": (
        _tolerates_every_failure, "child flow with an error", "fail"
    ),
}  # fmt: skip


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("law", "planner", "name", "rare"),
    [(law, *entry) for law, entry in FAULTY_WITH_CHILDREN.items()],
    ids=FAULTY_WITH_CHILDREN.keys(),
)
def test_the_explorer_finds_a_planner_that_breaks_a_law_of_families(
    law: str, planner: Planner, name: str, rare: str
) -> None:
    child = Configuration(FLOWS[name], {rare: 1}, name="child")
    assert law in Search(child, planner).run(states=600).violations


@pytest.mark.parametrize(
    "world", [grouped(flow("a")), FLOWS["places"], FLOWS["child flows that share a place"]]
)
def test_the_explorer_finds_a_second_flow_in_a_place(world: World) -> None:
    shared = Configuration(world, {})
    explored = Search(shared, _sees_no_other_flow).run(states=200)
    assert "one_flow_has_the_place" in explored.violations


@pytest.mark.long
def test_the_explorer_finds_a_needless_plan() -> None:
    assert "no_plan_asks_for_itself" in Search(SMALL, _wakes_for_nothing).run(states=50).violations


def test_a_violation_has_a_shortest_sequence_of_moves() -> None:
    explored = Search(SMALL, _takes_failures_for_successes).run()
    story = explored.stories["nothing_is_lost"].splitlines()
    assert story[0] == "small breaks the law: nothing is lost"
    assert story[1:-1] == [
        "     0 s  the controller applies its plan: f-a is made; stored: flow Pending; "
        "stored: f-a Waiting (Starting)",
        "     0 s  the watch shows f-a Pending",
        "     0 s  f-a runs",
        "     0 s  the watch shows f-a Running",
        "     0 s  f-a fails",
        "     0 s  the watch shows f-a Failed",
        "     0 s  the controller applies its plan: stored: flow Succeed; stored: f-a Completed",
    ]
    assert story[-1] == "  => f-a ended Failed, and the status says Completed"
