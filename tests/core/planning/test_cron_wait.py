"""plan_cron with Wait: every scheduled time gets its flow, one after the other."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jobflow.api.flow.cronjobflow import CronJobFlow
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.labels import SKIP
from jobflow.core.cron import Instantiation
from jobflow.core.planning.cron import CreateFlow, CronPlan, ForgetSkip, RemoveFlow
from support.plan.crons import HOUR, NOON, created, cron, flow, name_of, notices, settled


@dataclass
class Schedule:
    """A CronJobFlow with Wait, which is due each hour from 13:00, and its flows that exist."""

    cron: CronJobFlow
    hours: float = 1
    """The present time, in hours from noon."""
    flows: dict[str, JobFlow] = field(default_factory=dict)

    def plan(self) -> CronPlan:
        """Plan until the status is written; do what the last plan says."""
        now = NOON + timedelta(hours=self.hours)
        self.cron, plan = settled(self.cron, [*self.flows.values()], now)
        for action in plan.actions:
            if isinstance(action, CreateFlow):
                self.flows[action.name] = msgspec.convert(
                    {**action.manifest, "status": {"state": {"phase": "Running"}}}, JobFlow
                )
            elif isinstance(action, RemoveFlow):
                del self.flows[action.name]
            elif isinstance(action, ForgetSkip):
                self.edit(metadata=replace(self.cron.metadata, annotations=None))
        return plan

    def end(self, hour: int, phase: str = "Succeed", **status: Any) -> CronPlan:
        """End the flow of an hour, or change its state, and plan."""
        self.flows[name_of(hour)] = flow(self.cron, NOON + hour * HOUR, phase, **status)
        return self.plan()

    def edit(self, **fields: Any) -> None:
        self.cron = replace(self.cron, **fields)

    def change(self, **spec: Any) -> None:
        """Change fields of the spec."""
        self.edit(spec=replace(self.cron.spec, **spec))

    def skip(self, hour: int) -> None:
        meta = replace(self.cron.metadata, annotations={SKIP: name_of(hour)})
        self.edit(metadata=meta)

    @property
    def waits_for(self) -> str | None:
        return self.cron.status.waits_for


def waiting(hours: float = 1, **spec: Any) -> Schedule:
    return Schedule(cron(concurrencyPolicy="Wait", **spec), hours)


def strict(hours: float = 1, **spec: Any) -> Schedule:
    """Return one that requires success."""
    return waiting(hours, requirePreviousSuccess=True, **spec)


def failed(hours: float = 1, **spec: Any) -> Schedule:
    """Return one that requires success, whose first flow has failed."""
    schedule = strict(hours, **spec)
    schedule.plan()
    schedule.end(1, "Failed", reason="StepFailed")
    return schedule


def test_a_flow_is_announced_before_it_is_created() -> None:
    schedule = waiting()
    assert created(schedule.plan()) == [name_of(1)]
    assert (schedule.waits_for, schedule.cron.status.last_schedule_time) == (name_of(1), None)
    schedule.plan()
    assert schedule.cron.status.last_schedule_time == NOON + HOUR


def test_each_time_that_was_missed_gets_its_flow_in_order() -> None:
    schedule = waiting(hours=3.5)
    assert created(schedule.plan()) == [name_of(1)]
    assert notices(schedule.plan()) == ["WaitsForFlow"]
    assert created(schedule.end(1, "Failed")) == [name_of(2)]
    assert created(schedule.end(2)) == [name_of(3)]
    assert created(schedule.end(3)) == []
    assert schedule.waits_for is None


def test_a_month_of_missed_hours_is_made_up_for_hour_by_hour() -> None:
    schedule = waiting(hours=30 * 24 + 0.5)
    assert "TooManyMissedTimes" in notices(schedule.plan())
    for hour in range(1, 30 * 24):
        assert created(schedule.end(hour)) == [name_of(hour + 1)]
    assert created(schedule.end(30 * 24)) == []


def test_a_suspension_is_made_up_for() -> None:
    schedule = waiting(suspend=True)
    assert created(schedule.plan()) == []
    schedule.hours = 3
    schedule.change(suspend=False)
    assert created(schedule.plan()) == [name_of(1)]


def test_the_deadline_drops_what_is_too_old() -> None:
    schedule = waiting(hours=5.5, startingDeadlineSeconds=2 * 3600)
    plan = schedule.plan()
    assert created(plan) == [name_of(4)]
    assert [notice.message for notice in plan.notices] == [
        "no flow starts for 2026-06-01T15:00:00Z, because that is too long ago "
        "(spec.startingDeadlineSeconds)"
    ]


def test_the_template_is_that_of_the_start() -> None:
    schedule = waiting(hours=2)
    schedule.plan()
    template = msgspec.convert(
        {"spec": {"flows": [{"name": "b"}]}}, type(schedule.cron.spec.job_flow_template)
    )
    schedule.change(job_flow_template=template)
    schedule.end(1)
    assert schedule.flows[name_of(2)].steps[0].name == "b"


def test_times_that_wait_follow_a_schedule_that_changes() -> None:
    schedule = waiting(hours=2.7)
    schedule.plan()
    schedule.change(schedule="30 * * * *")
    assert created(schedule.end(1)) == [name_of(1.5)]


def test_times_that_wait_are_dropped_by_a_schedule_that_goes_back_to_allow() -> None:
    schedule = failed(hours=5.5)
    schedule.change(concurrency_policy="Allow")
    assert created(schedule.plan()) == [name_of(5)]
    assert schedule.waits_for is None


def test_a_flow_that_another_policy_started_is_waited_for() -> None:
    schedule = strict(hours=2)
    schedule.change(concurrency_policy="Allow")
    schedule.hours = 1
    schedule.plan()
    schedule.plan()
    schedule.change(concurrency_policy="Wait")
    schedule.hours = 2
    schedule.plan()
    assert schedule.waits_for == name_of(1)
    assert created(schedule.end(1, "Failed")) == []


def test_a_time_that_has_a_flow_of_a_backfill_gets_no_other() -> None:
    schedule = strict(hours=2)
    done = flow(schedule.cron, NOON + HOUR, "Succeed", by=Instantiation.BACKFILL)
    schedule.flows[name_of(1)] = done
    assert created(schedule.plan()) == [name_of(2)]


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_a_flow_of_a_backfill_is_waited_for_in_its_turn(phase: str) -> None:
    schedule = strict(hours=2)
    schedule.flows[name_of(1)] = flow(schedule.cron, NOON + HOUR, phase, by=Instantiation.BACKFILL)
    plan = schedule.plan()
    assert (created(plan), notices(plan)) == ([], ["WaitsForFlow"])


def test_a_flow_that_is_deleted_while_it_runs_is_not_made_again() -> None:
    schedule = waiting(hours=2)
    schedule.plan()
    schedule.plan()
    schedule.flows.clear()
    assert created(schedule.plan()) == [name_of(2)]


# ------------------------------------------------------------------ requirePreviousSuccess


def test_the_next_flow_starts_when_the_one_before_has_succeeded() -> None:
    schedule = failed(hours=2)
    plan = schedule.plan()
    assert (created(plan), schedule.waits_for) == ([], name_of(1))
    assert [notice.message for notice in plan.notices] == [
        f"no flow starts until flow {name_of(1)} has succeeded, which is Failed (StepFailed): "
        f"retry it (`jobflow retry {name_of(1)} -n n`), or delete it, then its time is made again "
        f"(`jobflow delete {name_of(1)} -n n`), or go on without it (`jobflow skip cjf/c -n n`)"
    ]
    schedule.end(1, "Running")
    assert created(schedule.end(1)) == [name_of(2)]


def test_a_flow_that_its_own_concurrency_policy_ended_has_not_succeeded() -> None:
    schedule = strict(hours=2)
    schedule.plan()
    assert created(schedule.end(1, reason="Concurrency")) == []
    assert schedule.waits_for == name_of(1)


def test_a_deleted_flow_is_made_again_from_the_present_template_whatever_its_deadline() -> None:
    schedule = failed(startingDeadlineSeconds=600)
    schedule.hours = 48
    schedule.change(schedule="30 * * * *")
    schedule.flows.clear()
    assert created(schedule.plan()) == [name_of(1)]
    assert schedule.waits_for == name_of(1)


def test_a_deleted_flow_is_not_made_again_during_a_suspension() -> None:
    schedule = failed(hours=2)
    schedule.change(suspend=True)
    schedule.flows.clear()
    assert created(schedule.plan()) == []
    schedule.change(suspend=False)
    assert created(schedule.plan()) == [name_of(1)]


def test_a_skip_settles_the_flow_and_is_forgotten() -> None:
    schedule = failed()
    schedule.skip(1)
    assert ForgetSkip() in schedule.plan().actions
    assert (schedule.waits_for, schedule.cron.metadata.annotations) == (None, None)
    schedule.hours = 2
    assert created(schedule.plan()) == [name_of(2)]


def test_a_skip_of_another_flow_or_of_one_that_runs_settles_nothing() -> None:
    schedule = failed(hours=2)
    schedule.skip(2)
    assert created(schedule.plan()) == []
    schedule.end(1, "Running")
    schedule.skip(1)
    schedule.plan()
    assert created(schedule.end(1, "Failed")) == []


def test_a_skip_of_a_deleted_flow_gives_up_its_time() -> None:
    schedule = failed(hours=2, suspend=False)
    schedule.flows.clear()
    schedule.skip(1)
    assert created(schedule.plan()) == [name_of(2)]


def test_history_leaves_the_flow_that_is_waited_for() -> None:
    schedule = failed(failedJobsHistoryLimit=0)
    schedule.plan()
    assert [*schedule.flows] == [name_of(1)]
    schedule.skip(1)
    schedule.plan()
    schedule.plan()
    assert schedule.flows == {}


def test_a_schedule_that_requires_no_success_any_more_goes_on() -> None:
    schedule = failed(hours=2)
    schedule.change(require_previous_success=False)
    assert created(schedule.plan()) == [name_of(2)]


def test_success_is_required_with_wait_only() -> None:
    schedule = strict(hours=2)
    schedule.change(concurrency_policy="Forbid")
    schedule.flows[name_of(1)] = flow(schedule.cron, NOON + HOUR, "Failed")
    assert created(schedule.plan()) == [name_of(2)]
