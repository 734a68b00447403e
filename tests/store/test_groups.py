"""The index of concurrency groups: holders, the line, and whom a change wakes."""

from collections.abc import Mapping
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.control import Concurrency, Param, StepConcurrency
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import FlowState, JobFlowStatus, StepPlace
from jobflow.api.flow.step import Step
from jobflow.api.resources import ObjectMeta
from jobflow.core.spec.concurrency import NO_GROUP, Group, is_waiting
from jobflow.store.groups import Entry, Groups
from support.plan.world_state import NOW

WAITING: dict[str, Any] = {"state": FlowState(phase="Pending", reason="Concurrency")}
HOLDING: dict[str, Any] = {"state": FlowState(phase="Running"), "start_time": NOW}
ENDED: dict[str, Any] = {"state": FlowState(phase="Succeed"), "start_time": NOW}


def member(
    name: str,
    at: int = 0,
    status: dict[str, Any] | None = None,
    *,
    limit: int | None = None,
    policy: str | None = None,
    **meta: Any,
) -> JobFlow:
    return JobFlow(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            creation_timestamp=NOW + timedelta(seconds=at),
            **meta,
        ),
        spec=JobFlowSpec(
            concurrency=Concurrency(group="$(params.g)", limit=limit, policy=policy),
            params=[Param(name="g", value="g")],
        ),
        status=JobFlowStatus(**(WAITING if status is None else status)),
    )


def indexed(*flows: JobFlow) -> Groups:
    groups = Groups()
    for each in flows:
        groups.update(None, each)
    return groups


def changed(flow: JobFlow, **status: Any) -> JobFlow:
    return msgspec.structs.replace(flow, status=msgspec.structs.replace(flow.status, **status))


def of(groups: Groups, flow: JobFlow, noted: Mapping[str, Entry] | None = None) -> Group:
    """Return the group of a flow as it sees it."""
    return groups.of(flow, (False, "g"), noted)


def names(members: Any) -> list[str]:
    return [each.name for each in members]


A, B, C = member("a", 2), member("b", 1), member("c", 1)


def test_flows_wait_in_the_order_of_creation_and_name() -> None:
    groups = indexed(A, B, C)
    assert names(of(groups, A).before) == ["b", "c"]
    assert of(groups, B).before == ()


def test_a_retried_flow_waits_from_its_retry_on() -> None:
    retried = changed(B, queued_time=NOW + timedelta(seconds=9))
    assert names(of(indexed(A, retried, C), retried).before) == ["c", "a"]


def test_flows_that_have_started_hold_a_place_to_the_end() -> None:
    x, y = member("x", status=HOLDING), member("y", status=ENDED)
    suspended = changed(member("z", status=HOLDING), suspended_at=NOW)
    assert names(of(indexed(A, x, y, suspended), A).holders) == ["x", "z"]


def test_another_group_and_another_namespace_do_not_count() -> None:
    other = msgspec.structs.replace(B, spec=JobFlowSpec(concurrency=Concurrency(group="h")))
    elsewhere = msgspec.structs.replace(
        C, metadata=msgspec.structs.replace(C.metadata, namespace="other")
    )
    assert of(indexed(A, other, elsewhere), A) == NO_GROUP


@pytest.mark.parametrize(
    "flow",
    [
        changed(B, suspended_at=NOW),
        changed(B, state=FlowState(phase="Pending", reason="Cancelled")),
        changed(B, state=FlowState(phase="Failed")),
        member("b", 1, deletion_timestamp=NOW),
        msgspec.structs.replace(
            member("b", 1, {}), spec=msgspec.structs.replace(B.spec, suspend=True)
        ),
    ],
)
def test_a_flow_that_cannot_start_is_passed_over(flow: JobFlow) -> None:
    assert not is_waiting(flow)
    assert of(indexed(A, flow), A).before == ()


def test_the_end_of_a_holder_wakes_only_the_first_of_the_line() -> None:
    holder = member("x", status=HOLDING)
    groups = indexed(holder, A, B, C)
    assert groups.update(holder, changed(holder, **ENDED)) == [("ns", "b")]


def test_a_start_wakes_the_next_only_if_there_is_room_for_it() -> None:
    first, second, third = (member(name, limit=2) for name in ("f1", "f2", "f3"))
    groups = indexed(first, second, third)
    assert groups.update(first, changed(first, **HOLDING)) == [("ns", "f2")]
    assert groups.update(second, changed(second, **HOLDING)) == []


def test_progress_of_a_holder_wakes_nobody() -> None:
    holder = member("x", status=HOLDING)
    groups = indexed(holder, A)
    assert groups.update(holder, changed(holder, progress="1/2")) == []


def test_a_flow_that_replaces_others_is_woken_by_every_change() -> None:
    holder, replacing = member("x", status=HOLDING), member("r", 5, policy="Replace")
    groups = indexed(holder, A, replacing)
    cancelled = changed(A, state=FlowState(phase="Failed", reason="Cancelled"))
    assert groups.update(A, cancelled) == [("ns", "r")]


def test_a_deleted_flow_leaves_its_group() -> None:
    holder = member("x", status=HOLDING)
    groups = indexed(holder, A)
    assert groups.update(holder, None) == [("ns", "a")]
    assert of(groups, A) == NO_GROUP


def test_a_flow_that_is_about_to_start_holds_a_place() -> None:
    groups = indexed(A, B, C)
    [entry] = groups.entries_of(changed(B, **HOLDING))
    seen = of(groups, A, {"b": entry})
    assert (names(seen.holders), names(seen.before), seen.moves) == (["b"], ["c"], False)
    assert of(groups, A).moves


def test_a_flow_without_a_group_is_not_indexed() -> None:
    plain = JobFlow(metadata=ObjectMeta(name="p", namespace="ns", uid="u"))
    groups = Groups()
    assert groups.update(None, plain) == []
    assert groups.entries_of(plain) == []


def test_the_limits_of_a_group_are_those_of_its_flows_that_have_not_ended() -> None:
    first, second = member("f1", limit=2), member("f2", limit=3)
    groups = indexed(first, second)
    assert sorted(groups.limits_of("ns", (False, "g"))) == [2, 3]
    assert groups.limits_of("ns", (True, "g")) == []
    groups.update(first, changed(first, **ENDED))
    assert groups.limits_of("ns", (False, "g")) == [3]


def sharing(name: str, at: int, *places: StepPlace, **status: Any) -> JobFlow:
    """A flow of one step that needs a place of two."""
    needed = StepConcurrency(group="g", limit=2)
    known: dict[str, Any] = {"state": FlowState(phase="Pending"), "places": [*places], **status}
    flow = member(name, at, known)
    spec = JobFlowSpec(flows=[Step(name="a", concurrency=needed)])
    return msgspec.structs.replace(flow, spec=spec)


def holding(job: str, slots: int = 1) -> StepPlace:
    return StepPlace(group="g", step="a", job=job, slots=slots)


NEEDS = StepPlace(group="g", step="a", slots=1, limit=2)
OF_STEPS = (True, "g")


def test_steps_wait_in_the_order_of_their_flows_for_what_is_left() -> None:
    groups = indexed(sharing("x", 5, holding("x-a", 2)), sharing("b", 2, NEEDS))
    last = sharing("c", 3, NEEDS)
    groups.update(None, last)
    seen = groups.of(last, OF_STEPS)
    assert (seen.taken, names(seen.holders), names(seen.before)) == (2, ["x"], ["b"])
    assert not seen.moves


def test_places_that_are_freed_wake_the_first_that_waits() -> None:
    holder, flows = sharing("x", 5, holding("x-a", 2)), [sharing(n, 1, NEEDS) for n in "bc"]
    groups = indexed(holder, *flows)
    assert groups.update(holder, sharing("x", 5, holding("x-a"))) == [("ns", "b")]
    assert groups.update(flows[0], sharing("b", 1, holding("b-a"))) == []


def test_a_flow_that_has_ended_holds_no_places_of_steps() -> None:
    ended = sharing("x", 5, holding("x-a", 2), state=FlowState(phase="Failed"))
    assert indexed(ended).of(A, OF_STEPS) == NO_GROUP


def test_a_new_flow_waits_with_its_first_steps() -> None:
    new, later = sharing("n", 1, state=FlowState()), sharing("z", 2, NEEDS)
    assert names(indexed(new, later).of(later, OF_STEPS).before) == ["n"]
    suspended = msgspec.structs.replace(new, spec=msgspec.structs.replace(new.spec, suspend=True))
    assert indexed(suspended, later).of(later, OF_STEPS).before == ()


def test_a_child_flow_waits_in_the_order_of_its_outermost_flow() -> None:
    outer, child, other = sharing("o", 1), sharing("o-c", 9, NEEDS), sharing("p", 2, NEEDS)
    groups = Groups(lambda flow: outer if flow.metadata.name == "o-c" else None)
    for each in (child, other):
        groups.update(None, each)
    assert names(groups.of(other, OF_STEPS).before) == ["o-c"]


@pytest.mark.long
def test_the_index_is_as_if_it_were_made_anew() -> None:
    dice, groups, flows = Random(1), Groups(), dict[str, JobFlow]()
    states = [WAITING, HOLDING, ENDED, WAITING | {"suspended_at": NOW}, {}]
    for _ in range(400):
        name = f"f{dice.randrange(6)}"
        old = flows.pop(name, None)
        new = None
        if dice.random() < 0.85:
            new = member(name, dice.randrange(3), dice.choice(states), limit=dice.randrange(1, 3))
            flows[name] = new
        if old is not None or new is not None:
            groups.update(old, new)
        for each in flows.values():
            assert of(groups, each) == of(indexed(*flows.values()), each)
