"""Bounds of a review and of a plan for any input, counted in Python's instructions.

Python runs some 80 million a second, so the bound of a review on the event loop and of a plan is
about a tenth of a second, and that of a review aside a second.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.analysis.flow_facts import FlowFacts, Known
from jobflow.core.admission.rule import findings
from jobflow.core.admission.validate import LIMITS
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.decision import MAX_CREATE_BYTES
from jobflow.core.planning.plan import plan
from jobflow.webhook.review.envelope import Answer
from jobflow.webhook.review.review import MOST_BYTES, PathReviewer, reviewers
from support.admission.admissions import review
from support.admission.hostile_cluster import (
    LARGE,
    HostileCluster,
    MarksReviews,
    answer_of,
    hostile_cluster,
)
from support.laws.counted_work import opcodes_run
from support.laws.effort_of_laws import STRIDE
from support.laws.hostile_shapes import Json, mixed, shapes
from support.plan.plan_world import World
from support.plan.world_state import FLOW_UID

pytestmark = [pytest.mark.no_cover, pytest.mark.law]

ON_THE_LOOP = 8_000_000
ASIDE = 80_000_000
PLAN = 8_000_000
LARGEST = 1 << 12
"""The number with which a shape begins; it is halved until the event loop judges it."""
MOST_OF_A_SERVER = 3 << 20
"""Bytes of an object that an API server passes to a webhook."""
MOST_OF_ETCD = 3 << 19
"""Bytes of an object that etcd stores, unless it is configured otherwise."""
PLANS = 2
BATCHES = 8
MIXED = 2_000 // STRIDE
"""Flows of several shapes in a long run."""
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)


@cache
def world_of_reviews() -> tuple[HostileCluster, PathReviewer, PathReviewer]:
    """The cluster, and the reviewers of flows on the event loop and aside."""
    cluster = hostile_cluster()
    path = "/jobflows/validate"
    return cluster, reviewers(cluster, MarksReviews())[path], reviewers(cluster)[path]


def body_of(spec: Json) -> bytes:
    return review("CREATE", {"metadata": {"name": "f", "namespace": "default"}, "spec": spec})


def counted(reviewer: PathReviewer, body: bytes) -> tuple[Answer, int]:
    answer = answer_of(reviewer, body)  # fills the caches
    return answer, opcodes_run(partial(answer_of, reviewer, body))


def largest_on_the_loop(shape: Callable[[int], Json]) -> Json:
    _, loop, _ = world_of_reviews()
    count = LARGEST
    while count > 1:
        body = body_of(spec := shape(count))
        if len(body) <= MOST_BYTES and answer_of(loop, body) is not LARGE:
            return spec
        count //= 2
    return shape(1)


def largest(
    shape: Callable[[int], Json], size: int, fits: Callable[[Json], bool] = lambda spec: True
) -> Json:
    """Return about the largest flow of a shape that has at most `size` bytes and fits."""
    count = LARGEST << 3
    while count > 1 and not (len(body_of(spec := shape(count))) <= size and fits(spec)):
        count -= -(-count // 8)
    return shape(count)


def check_review(spec: Json) -> None:
    _, loop, process = world_of_reviews()
    answer, count = counted(loop, body_of(spec))
    assert count < ON_THE_LOOP
    if answer is LARGE:
        assert counted(process, body_of(spec))[1] < ASIDE


def check_plans(spec: Json) -> None:
    """Check the first plans, also of a flow that a review refuses."""
    metadata = {"name": "f", "namespace": "ns", "uid": FLOW_UID, "generation": 1}
    raw = msgspec.json.encode({"metadata": metadata, "spec": spec})
    try:
        flow = msgspec.json.decode(raw, type=JobFlow)
    except msgspec.ValidationError:
        return  # no controller reads it
    cluster, _, _ = world_of_reviews()
    world = World(flow, dict(cluster.templates("ns")), now=NOW)
    for _ in range(PLANS):
        made = plan(flow := world.flow, view := world.view, now=NOW)  # compiles the spec
        assert opcodes_run(partial(plan, flow, view, now=NOW)) < PLAN
        creates = (each for each in made.actions if isinstance(each, CreateJob))
        assert sum(len(msgspec.json.encode(each.manifest)) for each in creates) < MAX_CREATE_BYTES
        world = world.with_status(made.status)


@pytest.mark.sampled(150, ci=30)
@pytest.mark.parametrize("name", shapes())
def test_the_largest_flow_on_the_event_loop_is_judged_and_planned_in_bounded_work(
    name: str,
) -> None:
    spec = largest_on_the_loop(shapes()[name])
    check_review(spec)
    check_plans(spec)


@pytest.mark.long
@pytest.mark.parametrize("batch", range(BATCHES))
def test_flows_of_several_shapes_are_judged_and_planned_in_bounded_work(batch: int) -> None:
    for seed in range(batch, MIXED, BATCHES):
        spec = mixed(seed)
        check_review(spec)
        check_plans(spec)


@pytest.mark.long
@pytest.mark.sampled(6, ci=6)
@pytest.mark.parametrize("name", [*shapes()][::25])
def test_the_largest_flow_that_is_stored_is_judged_in_bounded_work(name: str) -> None:
    def fits(spec: Json) -> bool:
        try:
            flow = msgspec.convert({"metadata": {"name": "f"}, "spec": spec}, JobFlow)
        except msgspec.ValidationError:
            return True  # no rule reads it
        return not findings(LIMITS, FlowFacts(flow, Known()))

    spec = largest(shapes()[name], MOST_OF_ETCD, fits)
    assert counted(world_of_reviews()[2], body_of(spec))[1] < ASIDE


@pytest.mark.long
@pytest.mark.sampled(6, ci=6)
@pytest.mark.parametrize("name", [*shapes()][::50])
def test_the_largest_flow_that_an_api_server_takes_is_judged_in_bounded_work(name: str) -> None:
    spec = largest(shapes()[name], MOST_OF_A_SERVER)
    assert counted(world_of_reviews()[2], body_of(spec))[1] < ASIDE
