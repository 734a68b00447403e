"""Bounds of a review and of a plan for any input, counted in Python's instructions.

The machine of docs/performance.md runs some 50 million a second, so the bound of a review on the
event loop and of a plan is about a tenth of a second, and that of a review aside a second.
"""

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.planning.actions import CreateJob
from jobflow.core.planning.decision import MAX_CREATE_BYTES
from jobflow.core.planning.plan import plan
from jobflow.webhook.review.answer import Answer
from jobflow.webhook.review.review import MOST_BYTES, PathReviewer, reviewers
from support.admission.admissions import review
from support.admission.hostile_cluster import ELSEWHERE, Aside, answer_of, hostile_cluster
from support.laws.counted_work import opcodes_run
from support.laws.hostile_shapes import Json, shapes
from support.plan.plan_world import World
from support.plan.world_state import FLOW_UID

pytestmark = [pytest.mark.no_cover, pytest.mark.law]

ON_THE_LOOP = 5_000_000
ASIDE = 50_000_000
PLAN = 5_000_000
LARGEST = 1 << 12
"""The number with which a shape begins; it is halved until the event loop judges it."""
PLANS = 3
NOW = datetime(2026, 8, 1, 12, tzinfo=UTC)

CLUSTER = hostile_cluster()
LOOP = reviewers(CLUSTER, Aside())["/jobflows/validate"]
PROCESS = reviewers(CLUSTER)["/jobflows/validate"]


def body_of(spec: Json) -> bytes:
    metadata = {"name": "f", "namespace": "default"}
    return review("CREATE", {"metadata": metadata, "spec": spec})


def counted(reviewer: PathReviewer, body: bytes) -> tuple[Answer, int]:
    answers = []
    answer_of(reviewer, body)  # fills the caches
    count = opcodes_run(lambda: answers.append(answer_of(reviewer, body)))
    return answers[0], count


def largest_on_the_loop(shape: Callable[[int], Json]) -> Json:
    count = LARGEST
    while count > 1:
        body = body_of(spec := shape(count))
        if len(body) <= MOST_BYTES and answer_of(LOOP, body) is not ELSEWHERE:
            return spec
        count //= 2
    return shape(1)


def check_review(spec: Json) -> None:
    answer, count = counted(LOOP, body_of(spec))
    assert count < ON_THE_LOOP
    if answer is ELSEWHERE:
        _, count = counted(PROCESS, body_of(spec))
        assert count < ASIDE


def check_plans(spec: Json) -> None:
    metadata = {"name": "f", "namespace": "ns", "uid": FLOW_UID, "generation": 1}
    try:
        raw = msgspec.json.encode({"metadata": metadata, "spec": spec})
        flow = msgspec.json.decode(raw, type=JobFlow)
    except (msgspec.ValidationError, RecursionError):
        return
    world = World(flow, dict(CLUSTER.templates("ns")), now=NOW)
    for _ in range(PLANS):
        view, made = world.view, []
        plan(world.flow, view, now=world.now)  # compiles the spec
        world_now = world
        count = opcodes_run(lambda: made.append(plan(world_now.flow, view, now=world_now.now)))
        assert count < PLAN
        creates = [each for each in made[0].actions if isinstance(each, CreateJob)]
        assert sum(len(msgspec.json.encode(each.manifest)) for each in creates) < MAX_CREATE_BYTES
        world = world.apply()


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", shapes())
def test_the_largest_flow_on_the_event_loop_is_judged_in_bounded_work(name: str) -> None:
    check_review(largest_on_the_loop(shapes()[name]))
