"""plan_cron: which flows start, are cancelled and are deleted, and what the status says."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cron import Instantiation, build_flow, scheduled_name
from jobflow.core.planning.cron import LONGEST_WAIT, RemoveFlow, ReplaceFlow, plan_cron
from support.plan.crons import HOUR, MINUTE, NOON, created, cron, flow, name_of, notices, settled


def test_nothing_starts_before_the_first_time() -> None:
    plan = plan_cron(cron(NOON + MINUTE), [], NOON + 30 * MINUTE)
    assert (plan.actions, plan.requeue_after) == ((), LONGEST_WAIT)
    soon = plan_cron(cron(NOON), [], NOON + HOUR - 5 * timedelta(seconds=1))
    assert soon.requeue_after == timedelta(seconds=5)


def test_a_flow_starts_at_its_time_and_is_recorded() -> None:
    now = NOON + HOUR
    subject, plan = settled(cron(), [], now)
    assert created(plan) == [name_of(1)]
    subject, plan = settled(subject, [flow(subject, now)], now)
    assert plan.actions == ()
    assert subject.status.last_schedule_time == now
    assert [each.name for each in subject.status.active or ()] == [name_of(1)]
    assert subject.status.active_count == 1


def test_a_time_whose_flow_has_ended_and_is_deleted_starts_no_other() -> None:
    now = NOON + HOUR
    subject, _ = settled(cron(), [flow(cron(), now)], now)
    assert plan_cron(subject, [], now + MINUTE).actions == ()


def test_a_flow_that_a_crash_left_unrecorded_is_found_by_its_name() -> None:
    now = NOON + HOUR
    plan = plan_cron(cron(), [flow(cron(), now, "Succeed")], now + 5 * MINUTE)
    assert plan.actions == ()
    assert plan.status.last_schedule_time == now
    assert [event.reason for event in plan.events] == ["FlowCreated"]


def test_of_the_times_that_were_missed_only_the_last_one_starts() -> None:
    _, plan = settled(cron(), [], NOON + 5.5 * HOUR)
    assert (created(plan), notices(plan)) == ([name_of(5)], [])


def test_a_cron_that_missed_a_year_starts_one_flow_and_warns() -> None:
    now = datetime(2027, 6, 1, 12, 30, tzinfo=UTC)
    _, plan = settled(cron(), [], now)
    assert created(plan) == [scheduled_name("c", now.replace(minute=0))]
    assert notices(plan) == ["TooManyMissedTimes"]


def test_a_clock_that_is_set_back_starts_nothing_twice() -> None:
    now = NOON + HOUR
    subject, _ = settled(cron(), [flow(cron(), now)], now)
    for back in (MINUTE, HOUR, 1000 * HOUR):
        plan = plan_cron(subject, [flow(cron(), now, "Succeed")], now - back)
        assert created(plan) == []


@pytest.mark.parametrize(
    ("deadline", "minutes", "names", "warned"),
    [
        (600, 9, [name_of(1)], []),
        (600, 10, [], ["ScheduleMissed"]),
        (600, 70, [], ["ScheduleMissed"]),
        (4000, 65, [name_of(2)], []),
        (0, 0, [], ["ScheduleMissed"]),
        (2**62, 70, [name_of(2)], []),
    ],
)
def test_a_flow_starts_within_the_deadline(
    deadline: int, minutes: int, names: list[str], warned: list[str]
) -> None:
    now = NOON + HOUR + minutes * MINUTE
    _, plan = settled(cron(startingDeadlineSeconds=deadline), [], now)
    assert (created(plan), notices(plan)) == (names, warned)


def test_a_suspended_cron_starts_nothing_and_catches_up_when_it_is_resumed() -> None:
    now = NOON + 3.5 * HOUR
    suspended, plan = settled(cron(suspend=True), [], now)
    assert (plan.actions, plan.requeue_after) == ((), None)
    resumed = replace(suspended, spec=replace(suspended.spec, suspend=False))
    assert created(settled(resumed, [], now)[1]) == [name_of(3)]


def test_allow_starts_beside_a_flow_that_runs() -> None:
    running = flow(cron(), NOON + HOUR)
    assert created(settled(cron(), [running], NOON + 2 * HOUR)[1]) == [name_of(2)]


def test_forbid_waits_until_the_flow_has_ended_and_then_starts_the_last_time() -> None:
    subject = cron(concurrencyPolicy="Forbid")
    running, ended = flow(subject, NOON + HOUR), flow(subject, NOON + HOUR, "Failed")
    subject, plan = settled(subject, [running], NOON + 2 * HOUR)
    assert (plan.actions, notices(plan)) == ((), ["ConcurrencyForbidden"])
    assert created(settled(subject, [ended], NOON + 2.2 * HOUR)[1]) == [name_of(2)]


@pytest.mark.parametrize("by", [*Instantiation])
def test_flows_of_users_do_not_count_for_the_policy(by: Instantiation) -> None:
    subject = cron(concurrencyPolicy="Forbid")
    running = flow(subject, NOON + HOUR + MINUTE, by=by)
    _, plan = settled(subject, [running], NOON + 2 * HOUR)
    assert created(plan) == [name_of(2)]
    assert plan.status.active_count == 1


def test_replace_stores_its_decision_cancels_and_starts_when_the_old_flow_has_ended() -> None:
    subject = cron(concurrencyPolicy="Replace", startingDeadlineSeconds=60)
    running, now = flow(subject, NOON + HOUR), NOON + 2 * HOUR
    subject = replace(subject, status=replace(subject.status, last_schedule_time=NOON + HOUR))
    first = plan_cron(subject, [running], now)
    assert (first.actions, first.status.replacing_for) == ((), now)
    subject, plan = settled(subject, [running], now)
    assert plan.actions == (ReplaceFlow(name_of(1), running.metadata.uid),)
    cancelling = flow(subject, NOON + HOUR, reason="Cancelled")
    assert settled(subject, [cancelling], now + MINUTE)[1].actions == ()
    ended = flow(subject, NOON + HOUR, "Failed")
    subject, plan = settled(subject, [ended], now + 30 * MINUTE)  # the deadline has passed
    assert created(plan) == [name_of(2)]
    subject, plan = settled(subject, [ended, flow(subject, now)], now + 31 * MINUTE)
    assert (subject.status.replacing_for, subject.status.last_schedule_time) == (None, now)


def test_replace_starts_the_later_time_if_the_old_flow_takes_long_to_end() -> None:
    subject = cron(concurrencyPolicy="Replace")
    running = flow(subject, NOON + HOUR, reason="Cancelled")
    subject, _ = settled(subject, [running], NOON + 2 * HOUR)
    subject, _ = settled(subject, [running], NOON + 3 * HOUR)
    ended = flow(subject, NOON + HOUR, "Failed")
    assert created(settled(subject, [ended], NOON + 3.1 * HOUR)[1]) == [name_of(3)]


def test_a_suspension_forgets_a_replacement() -> None:
    subject = cron(concurrencyPolicy="Replace")
    subject, _ = settled(subject, [flow(subject, NOON + HOUR)], NOON + 2 * HOUR)
    suspended = replace(subject, spec=replace(subject.spec, suspend=True))
    assert plan_cron(suspended, [], NOON + 2 * HOUR).status.replacing_for is None


def removed(flows: Sequence[JobFlow], *, reused: str = "", **spec: Any) -> list[str]:
    """Return the names of the flows that are deleted. `reused`: the one that another one reuses."""
    now = NOON + 90 * HOUR
    subject, _ = settled(cron(now, **spec), flows, now)
    plan = plan_cron(subject, flows, now, lambda flow: ["g"] * (flow.metadata.name == reused))
    return [action.name for action in plan.actions if isinstance(action, RemoveFlow)]


def test_three_successful_and_one_failed_flow_are_kept() -> None:
    flows = [flow(cron(), NOON + n * HOUR, "Failed" if n % 2 else "Succeed") for n in range(10)]
    assert removed(flows) == [name_of(n) for n in (0, 2, 1, 3, 5, 7)]
    none = removed(flows, successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0)
    assert len(none) == 10
    assert removed(flows, successfulJobsHistoryLimit=9, failedJobsHistoryLimit=9) == []


def test_history_limits_count_manual_flows_but_not_those_of_a_backfill() -> None:
    manual, backfill = Instantiation.MANUAL, Instantiation.BACKFILL
    flows = [flow(cron(), NOON + n * HOUR, "Succeed", by=backfill) for n in range(5)]
    flows += [flow(cron(), NOON + n * HOUR, "Succeed", by=manual) for n in range(4)]
    assert removed(flows) == ["c-manual-1200"]


def test_a_flow_that_is_reused_stays_beyond_the_history_limits() -> None:
    flows = [flow(cron(), NOON + n * HOUR, "Succeed") for n in range(5)]
    assert removed(flows, reused=name_of(1)) == [name_of(0)]


def test_a_flow_is_deleted_only_after_its_end_is_recorded() -> None:
    subject = cron(successfulJobsHistoryLimit=0)
    ended = flow(subject, NOON + HOUR, "Succeed")
    first = plan_cron(subject, [ended], NOON + HOUR + 31 * MINUTE)
    assert first.actions == ()
    assert first.status.last_successful_time == NOON + 1.5 * HOUR


def test_the_end_of_an_active_flow_is_an_event() -> None:
    subject, _ = settled(cron(), [flow(cron(), NOON + HOUR)], NOON + HOUR)
    plan = plan_cron(subject, [flow(cron(), NOON + HOUR, "Failed")], NOON + 1.2 * HOUR)
    assert [(event.type, event.message) for event in plan.events] == [
        ("Warning", f"flow {name_of(1)} has finished: Failed")
    ]


def test_a_cron_that_is_being_deleted_starts_and_deletes_nothing() -> None:
    subject = cron()
    meta = replace(subject.metadata, deletion_timestamp=NOON)
    flows = [flow(subject, NOON + n * HOUR, "Succeed") for n in range(5)]
    assert plan_cron(replace(subject, metadata=meta), flows, NOON + 9 * HOUR).actions == ()


@pytest.mark.parametrize("spec", [{"schedule": "nonsense"}, {"timeZone": "Mars/Olympus"}])
def test_a_schedule_that_was_stored_without_the_webhook_starts_nothing(spec: Any) -> None:
    plan = plan_cron(cron(**spec), [], NOON + 5 * HOUR)
    assert (plan.actions, notices(plan)) == ((), ["ScheduleInvalid"])


def test_a_flow_has_an_owner_and_its_scheduled_time_in_the_zone_of_the_schedule() -> None:
    subject = cron(timeZone="Asia/Kolkata")
    template = {"metadata": {"labels": {"team": "x"}}, "spec": {"flows": [{"name": "a"}]}}
    spec = msgspec.convert(
        {"schedule": "0 * * * *", "jobFlowTemplate": template}, type(subject.spec)
    )
    made = build_flow(replace(subject, spec=replace(spec, time_zone="Asia/Kolkata")), NOON)
    assert made["metadata"] == {
        "name": name_of(0),
        "namespace": "n",
        "labels": {"team": "x", "flow.volcano.sh/cronjobflow": "c"},
        "annotations": {
            "flow.volcano.sh/cronjobflow": "c",
            "flow.volcano.sh/scheduled-time": "2026-06-01T17:30:00+05:30",
        },
        "ownerReferences": [
            {
                "apiVersion": "flow.volcano.sh/v1alpha1",
                "kind": "CronJobFlow",
                "name": "c",
                "uid": "u",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert made["spec"] == template["spec"]
