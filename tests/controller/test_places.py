"""Places in concurrency groups that are taken but not known to be stored."""

from datetime import timedelta
from typing import Any

import msgspec

from jobflow.api.flow.control import Concurrency
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import JobFlowStatus
from jobflow.api.resources import ObjectMeta
from jobflow.controller.places import Places
from jobflow.kube.cache import Key
from jobflow.store import Store
from support.plan.world_state import NOW


def member(name: str, version: str = "1", **status: Any) -> JobFlow:
    found = JobFlow(
        metadata=ObjectMeta(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            resource_version=version,
            creation_timestamp=NOW + timedelta(seconds=ord(name)),
        ),
        spec=JobFlowSpec(concurrency=Concurrency(group="g")),
    )
    return msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, **status))


def places_of(*flows: JobFlow) -> tuple[Store, Places]:
    store = Store()
    store.flows.replace(list(flows), "1")
    return store, Places(store)


def started(flow: JobFlow) -> JobFlowStatus:
    return msgspec.structs.replace(flow.status, start_time=NOW)


def learn(store: Store, places: Places, flow: JobFlow) -> list[Key]:
    """Learn of a later version of a flow. Return the flows that its notes held up."""
    store.flows.learn(flow)
    return places.flow_changed(flow)


def holders(places: Places, flow: JobFlow) -> list[str]:
    return [each.name for each in places.of(flow)[False, "g"].holders]


def test_a_place_is_taken_before_the_answer_arrives() -> None:
    a, b = member("a"), member("b")
    _, places = places_of(a, b)
    assert holders(places, b) == []
    places.note(a, started(a))
    assert holders(places, b) == ["a"]
    assert holders(places, a) == []


def test_a_lost_answer_does_not_free_the_place() -> None:
    """Only a later version of the flow tells whether its start was stored."""
    a, b = member("a"), member("b")
    store, places = places_of(a, b)
    places.note(a, started(a))
    assert holders(places, b) == ["a"]
    learn(store, places, member("a", "2", start_time=NOW))
    assert holders(places, b) == ["a"]


def test_a_start_that_was_not_stored_frees_the_place() -> None:
    a, b = member("a"), member("b")
    store, places = places_of(a, b)
    places.note(a, started(a))
    assert learn(store, places, member("a", "2", suspended_at=NOW)) == [("ns", "b")]
    assert holders(places, b) == []


def test_a_flow_that_is_gone_frees_its_place() -> None:
    a, b = member("a"), member("b")
    store, places = places_of(a, b)
    places.note(a, started(a))
    store.flows.replace([b], "3")
    assert places.flow_changed(a) == [("ns", "b")]
    assert holders(places, b) == []


def test_a_flow_without_a_group_takes_no_place() -> None:
    plain = JobFlow(metadata=ObjectMeta(name="p", namespace="ns", uid="u", resource_version="1"))
    _, places = places_of(plain)
    places.note(plain, started(plain))
    assert places.of(plain) == {}
