"""Which jobs are those of a flow, whatever somebody edits or puts in their place."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from jobflow.api import labels
from jobflow.api.flow.control import ForEach, Retry
from jobflow.api.flow.status import JobFlowStatus
from jobflow.core.planning.observed.identity import find_edits, pack_uid
from jobflow.core.planning.status.size_limit import MOST
from support.plan.plan_world import World, flow, world_of
from support.plan.status_room import drop_everything
from support.plan.steps import Step, step

EDITS: dict[str, dict[str, Any]] = {
    "step": {"annotations": {labels.STEP: "b"}},
    "unknown step": {"annotations": {labels.STEP: "zzz"}},
    "label": {"annotations": None, "labels": {labels.STEP: "b", labels.ATTEMPT: "7"}},
    "attempt": {"labels": {labels.STEP: "a"}},
    "all": {"annotations": None, "labels": None},
    "owner": {"owner_references": None},
}


def running() -> World:
    return flow("a", b="a").settled().ended("f-a", "Running").settled()


def namesake(world: World, name: str = "f-a", phase: str = "Running") -> World:
    """Somebody deletes a job and creates one of its name, with its labels and owner."""
    world = world.later(5).ended(name, phase).with_metadata(name, uid="uid-of-another")
    return world.with_metadata(name, creation_timestamp=world.now)


def test_the_status_has_the_uid_of_a_job_until_its_attempt_has_ended() -> None:
    world = flow(a=step(retry=Retry(limit=1))).settled()
    assert world.plan().conditions["a"].uid == "uid-f-a"
    world = world.ended("f-a", "Failed").settled()
    assert world.plan().conditions["a"].uid == ""
    world = world.later(60).settled()
    assert world.plan().conditions["a"].uid == "uid-f-a-r1"
    world = world.ended("f-a-r1", "Completed").settled()
    assert world.plan().conditions["a"].uid == ""


def test_a_uid_is_stored_as_its_bytes() -> None:
    assert pack_uid("8d2f1ec4-5f7b-4a2e-9f57-0b5a3f1f7a10") == "jS8exF97Si6fVwtaPx96EA"


def test_items_have_uids_too() -> None:
    world = flow(a=step(for_each=ForEach(count=2))).settled()
    runs = world.plan().conditions["a"].runs or []
    assert [run.uid for run in runs] == ["uid-f-a-0", "uid-f-a-1"]


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_an_edited_job_stays_the_job_of_its_step(edit: dict[str, Any]) -> None:
    world = running().with_metadata("f-a", **edit)
    assert world.plan().nothing
    assert world.ended("f-a", "Completed").plan().creates == ["f-b"]


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_a_job_that_the_status_does_not_know_is_taken_by_its_name(edit: dict[str, Any]) -> None:
    edited = {**edit, "owner_references": running().jobs["f-a"].metadata.owner_references}
    world = flow("a", b="a").with_jobs(a="Running").with_metadata("f-a", **edited)
    planned = world.plan()
    assert (planned.creates, planned.phases["a"]) == ([], "Running")
    assert planned.conditions["a"].attempts == 1


def test_an_edited_item_stays_in_its_place() -> None:
    world = flow(a=step(for_each=ForEach(count=2)), b="a").settled().settled()
    edit = {labels.STEP: "b", labels.INDEX: "0"}
    world = world.with_metadata("f-a-1", annotations=edit, labels=edit).settled()
    world = world.ended("f-a-0", "Completed").ended("f-a-1", "Completed").settled()
    assert world.plan().phases == {"a": "Completed", "b": "Pending"}


def test_an_edited_later_attempt_of_an_item_is_taken_by_its_name() -> None:
    each = step(for_each=ForEach(count=2), retry=Retry(limit=3))
    world = flow(a=each).settled().settled().ended("f-a-1", "Failed").settled().later(60)
    world = world.apply(write=False).with_metadata("f-a-1-r1", annotations=None, labels=None)
    runs = world.plan().conditions["a"].runs or []
    assert [(run.job, run.attempts) for run in runs] == [("f-a-0", 1), ("f-a-1-r1", 2)]


@pytest.mark.parametrize("phase", ["Running", "Completed", "Failed"])
def test_a_namesake_is_not_taken(phase: str) -> None:
    world = namesake(running(), phase=phase)
    planned = world.plan()
    assert planned.held_up == {"a": "JobLost"}
    assert "another job has its name now" in planned.conditions["a"].message
    assert planned.events == ["JobLost"]
    assert world.settled().later(1).plan().creates == ["f-a-r1"]


def test_a_namesake_neither_delays_the_flow_nor_is_it_deleted() -> None:
    world = namesake(running()).settled().later(1).settled()
    world = replace(world, flow=world.with_spec(job_retain_policy="delete").flow)
    assert world.plan().conditions["a"].uid == "uid-f-a-r1"
    world = world.ended("f-a-r1", "Completed").settled().ended("f-b", "Completed").settled()
    assert world.end == ("Succeed", "")
    assert world.deleted == {"f-a-r1", "f-b"}


def test_a_namesake_is_not_deleted_with_a_cancelled_flow() -> None:
    world = namesake(running()).settled().later(1).settled().cancelled()
    assert "f-a" not in world.ended("f-a-r1", "Aborted").settled().deleted


def test_a_namesake_of_a_job_that_has_ended_is_not_deleted() -> None:
    world = namesake(running().ended("f-a", "Completed").settled())
    world = replace(world, flow=world.with_spec(job_retain_policy="delete").flow)
    world = world.ended("f-b", "Completed").settled()
    assert (world.end, world.deleted) == (("Succeed", ""), {"f-b"})


def test_a_lost_job_that_exists_again_is_taken_again() -> None:
    """The API server was restored from a backup."""
    job = running().jobs["f-a"]
    world = running().without_jobs("a").with_missing("f-a").settled()
    assert world.plan().held_up == {"a": "JobLost"}
    assert world.with_job(job).plan().phases["a"] == "Running"


def older_version(world: World) -> World:
    """The controller of a version that does not know UIDs goes on."""
    known = world.flow.status.conditions or {}
    uids = {key: condition.uid for key, condition in known.items()}
    world = world.settled()
    conditions = {
        key: msgspec.structs.replace(condition, uid=uids[key])
        for key, condition in (world.flow.status.conditions or {}).items()
    }
    return world.with_status_fields(conditions=conditions)


@pytest.mark.parametrize("kept", [True, False], ids=["old job kept", "old job gone"])
def test_the_uid_of_an_earlier_attempt_beside_a_later_name_is_replaced(kept: bool) -> None:
    world = flow("a").settled().ended("f-a", "Running").settled()
    old = world.jobs["f-a"]
    world = world.without_jobs("a").with_missing("f-a")
    world = older_version(older_version(world).later(5)).ended("f-a-r1", "Running").later(5)
    assert world.flow.status.conditions and world.flow.status.conditions["f-a"].uid == "uid-f-a"
    world = world.with_job(old) if kept else world
    planned = world.plan()
    assert (planned.phases["a"], planned.conditions["a"].uid) == ("Running", "uid-f-a-r1")


def test_a_status_of_an_older_version_takes_the_job_at_first_sight() -> None:
    world = running().with_condition("a", uid="")
    assert world.plan().conditions["a"].uid == "uid-f-a"
    assert world.settled().plan().nothing


def test_a_job_that_a_backup_has_created_again_is_taken_at_first_sight() -> None:
    """Its creation is another than the status says, which has no UID."""
    world = namesake(running().with_condition("a", uid=""))
    planned = world.plan()
    assert (planned.creates, planned.conditions["a"].uid) == ([], "uid-of-another")


def test_uids_are_dropped_last(monkeypatch: pytest.MonkeyPatch) -> None:
    drop_everything(monkeypatch)
    world = running()
    assert (world.flow.status.conditions or {})["f-a"].uid == ""
    assert world.ended("f-a", "Completed").plan().creates == ["f-b"]


def test_the_uids_of_five_thousand_jobs_fit() -> None:
    names = [f"step-{n:04}".ljust(20, "s") for n in range(5000)]
    world = world_of([Step(name=name) for name in names], name="f" * 20)
    jobs = dict.fromkeys(names, "Running")
    world = world.with_jobs(**jobs)
    uid = "8d2f1ec4-5f7b-4a2e-9f57-{:012}"
    for number, (name, job) in enumerate(world.jobs.items()):
        metadata = msgspec.structs.replace(job.metadata, uid=uid.format(number))
        world.jobs[name] = msgspec.structs.replace(job, metadata=metadata)  # type: ignore[index]
    status: JobFlowStatus = world.later(timedelta(hours=1).total_seconds()).plan().status
    assert all(condition.uid for condition in (status.conditions or {}).values())
    assert len(msgspec.json.encode(status)) < MOST


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": {labels.STEP: "a", labels.ATTEMPT: "1", "team": "x"}}, ""),
        ({"annotations": {labels.STEP: "b"}}, "the annotation flow.volcano.sh/step"),
        ({"owner_references": None}, "the owner references"),
    ],
)
def test_an_edit_that_says_whose_job_it_is_is_an_event(
    changes: dict[str, Any], message: str
) -> None:
    world = running()
    old, new = (
        each.jobs["f-a"].metadata for each in (world, world.with_metadata("f-a", **changes))
    )
    event = find_edits(old, new)
    assert message in event.message if event else not message


def test_the_garbage_collector_edits_owner_references_without_an_event() -> None:
    """It does so when the flow is deleted in the foreground."""
    old = running().jobs["f-a"].metadata
    (owner,) = old.owner_references or ()
    freed = [msgspec.structs.replace(owner, block_owner_deletion=False)]
    assert find_edits(old, msgspec.structs.replace(old, owner_references=freed)) is None
