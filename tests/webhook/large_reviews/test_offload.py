"""Offload of large reviews to a real worker process: their choice, equal answers, and limits."""

import asyncio
import os
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.admission.validate import find_violations
from jobflow.webhook import large_reviews
from jobflow.webhook.large_reviews import MODULE
from jobflow.webhook.review.envelope import ReviewOutcome
from jobflow.webhook.review.review import MOST_BYTES
from jobflow.webhook.tried_pods import DryRun
from support.admission.admissions import FakeCluster, FakeRights, answer_to, respond, review, stored
from support.admission.review_process import PATIENT, aside_of
from support.sandbox.manifests import jobflow, template

PATCH = {"jobSpec": {"minAvailable": 1, "queue": "default"}}
POD = {
    "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], "restartPolicy": "Never"}
}


def flow(*steps: dict[str, Any], **spec: Any) -> bytes:
    manifest = stored(jobflow("f", {}))
    return review("CREATE", manifest | {"spec": {"flows": list(steps)} | spec})


def template_with(*tasks: dict[str, Any]) -> bytes:
    manifest = stored(template("t"))
    return review("CREATE", manifest | {"spec": {"tasks": tasks}})


def plain(count: int, **step: Any) -> list[dict[str, Any]]:
    return [{"name": f"s{i}", "template": "a", **step} for i in range(count)]


def task(name: str, **pod: Any) -> dict[str, Any]:
    return {"name": name, "replicas": 1, "template": POD | pod}


PARAMS = [{"name": "x", "value": 1}]
SMALL = {
    "a small flow": flow(*plain(3)),
    "a long flow": flow(*plain(1_000)),
    "a flow with some conditions": flow(
        *({"name": f"s{i}", "when": f"params.x > {i}"} for i in range(20)), params=PARAMS
    ),
    "an update of metadata": review(
        "UPDATE",
        stored(jobflow("f", {"a": []}), labels={"a": "b"}),
        stored(jobflow("f", {"a": []})),
    ),
}
LARGE = {
    "many bytes": flow(*plain(3_000, dependsOn={"targets": ["x" * 100]})),
    "many patches": flow(*plain(1_000, patch=PATCH)),
    "many conditions": flow(
        *({"name": f"s{i}", "when": f"params.x > {i}"} for i in range(1_000)), params=PARAMS
    ),
    "many cases": flow(
        *({"name": f"s{i}", "switch": [{"template": "a", "patch": PATCH}] * 100} for i in range(9))
    ),
    "many empty tasks in a patch": flow(
        {"name": "a", "patch": {"jobSpec": {"tasks": [{}] * 20_000}}}
    ),
    "many empty tasks in a template": template_with(*[{}] * 40_000),
    "invalid types": flow(*[1] * 200_000),  # type: ignore[list-item]
    "no JSON": b"[" * (MOST_BYTES + 1),
}


MANY_PATCHES = LARGE["many patches"]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({"a": stored(template("a"))})


@pytest.mark.parametrize("body", SMALL.values(), ids=SMALL.keys())
async def test_the_event_loop_judges_small_reviews(body: bytes, cluster: FakeCluster) -> None:
    async with aside_of(cluster) as aside:
        assert (await respond(body, cluster, large_reviews=aside)).allowed
        assert aside.pid is None


@pytest.mark.long
async def test_large_reviews_get_the_same_answers_from_one_process(cluster: FakeCluster) -> None:
    pids = set()
    async with aside_of(cluster) as aside:
        for name, body in LARGE.items():
            remote = await answer_to(body, cluster, large_reviews=aside)
            local = await answer_to(body, cluster)
            assert (remote.body, remote.outcome, remote.code) == (
                local.body,
                local.outcome,
                local.code,
            )
            assert [(v.path, v.reason) for v in remote.violations] == [
                (v.path, v.reason) for v in local.violations
            ], name
            pids.add(aside.pid)
    assert len(pids) == 1 and None not in pids
    assert aside.pid is None


async def test_the_process_requests_rights_templates_and_queues(cluster: FakeCluster) -> None:
    cluster.known_queues = {"default": "Closed"}
    rights = FakeRights("you may not")
    steps = plain(900, patch=PATCH)
    async with aside_of(cluster, rights) as aside:
        replacing = flow(*steps, concurrency={"group": "g", "policy": "Replace"})
        refused = await respond(replacing, cluster, large_reviews=aside)
        assert (refused.code, refused.message) == (403, "you may not")
        assert refused.outcome is ReviewOutcome.REFUSED
        assert rights.users == [("admin", "default")]
        assert rights.asked == ['update jobflows.flow.volcano.sh in namespace "default"']
        rights.lacks = None
        warned = await respond(flow(*steps, {"name": "b"}), cluster, large_reviews=aside)
    assert warned.warnings == [
        'JobTemplate "b" does not exist yet: its steps wait until it does',
        'queue "default" (Closed) is not Open: Volcano refuses jobs for a queue that is not Open',
    ]


@pytest.mark.long
async def test_the_replica_tries_pod_templates_of_a_large_template() -> None:
    cluster = FakeCluster(says=lambda pod: DryRun(warnings=('unknown field "template.x"',)))
    tasks = [task(f"t{i}", metadata={"labels": {"i": str(i)}}) for i in range(6_000)]
    async with aside_of(cluster) as aside:
        response = await respond(template_with(*tasks), cluster, large_reviews=aside)
        assert aside.pid is not None
    assert len(cluster.tried) == 64
    unknown, untried = response.warnings
    assert unknown.startswith("unknown fields spec.tasks[0].template.x, spec.tasks[1].")
    assert untried.startswith(
        "5936 of 6000 different pod templates were not checked by the API server"
    )


async def test_no_large_review_is_judged_while_the_cluster_is_unfit(cluster: FakeCluster) -> None:
    cluster.why_unfit = "a newer CRD"
    async with aside_of(cluster) as aside:
        response = await respond(LARGE["many bytes"], cluster, large_reviews=aside)
    assert (response.code, response.message) == (503, "a newer CRD; try again")


async def test_a_slow_review_is_ended_and_the_next_one_judged(cluster: FakeCluster) -> None:
    async with aside_of(cluster, seconds=0.01) as aside:
        response = await respond(MANY_PATCHES, cluster, large_reviews=aside)
        assert aside.pid is None
        assert (response.code, response.status["reason"]) == (504, "Timeout")
        assert response.message.startswith("the review was not finished within 0.01 s; try again")
        assert response.outcome is ReviewOutcome.FAILED
        aside.seconds = PATIENT
        assert (await respond(MANY_PATCHES, cluster, large_reviews=aside)).allowed


@pytest.mark.long
async def test_a_killed_process_is_restarted(cluster: FakeCluster) -> None:
    async with aside_of(cluster) as aside:
        await respond(MANY_PATCHES, cluster, large_reviews=aside)
        first = aside.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        response = await respond(MANY_PATCHES, cluster, large_reviews=aside)
        if response.outcome is ReviewOutcome.FAILED:  # the end of the process was not seen yet
            assert response.code == 500
            assert response.message.startswith("the process for large reviews end")
            response = await respond(MANY_PATCHES, cluster, large_reviews=aside)
        assert response.allowed
        assert aside.pid not in (None, first)


@pytest.mark.long
async def test_a_review_that_needs_too_much_memory_is_refused(cluster: FakeCluster) -> None:
    # a new object of this size would be refused by its size alone
    spec = {"tasks": [{}] * 2_000_000}
    old, new = ({**stored(template("t")), "spec": each} for each in (spec | {"queue": "q"}, spec))
    async with aside_of(cluster) as aside:
        response = await respond(review("UPDATE", new, old), cluster, large_reviews=aside)
        assert response.code == 500
        assert "more memory than it has" in response.message
        assert (await respond(MANY_PATCHES, cluster, large_reviews=aside)).allowed


@pytest.mark.long
async def test_more_large_reviews_than_the_limit_are_asked_to_retry(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_reviews, "MOST_WAITING", 2)
    async with aside_of(cluster) as aside:
        first, second, third = await asyncio.gather(
            *(respond(MANY_PATCHES, cluster, large_reviews=aside) for _ in range(3))
        )
    assert first.allowed and second.allowed
    assert (third.code, third.status["details"]["retryAfterSeconds"]) == (429, 1)
    assert third.message == "2 large reviews are under way; try again"


@pytest.mark.long
async def test_an_idle_process_is_ended(cluster: FakeCluster) -> None:
    async with aside_of(cluster, idle_seconds=0.0) as aside:
        await respond(MANY_PATCHES, cluster, large_reviews=aside)
        async with asyncio.timeout(10):
            while aside.pid is not None:  # noqa: ASYNC110 - the end of a timer
                await asyncio.sleep(0.01)


def test_the_process_ends_with_its_input() -> None:
    process = subprocess.run(
        [sys.executable, "-m", MODULE], input=b"", capture_output=True, timeout=60
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, b"", b"")


async def test_the_process_judges_flows_that_were_stored_without_review(
    cluster: FakeCluster,
) -> None:
    steps = [{"name": "a", "dependsOn": {"targets": ["x"]}}, {"name": "b", "when": "1 +"}]
    stored_flow = msgspec.convert({"spec": {"flows": steps}}, JobFlow)
    async with aside_of(cluster) as aside:
        found = await aside.violations(stored_flow)
        assert aside.pid is not None
    assert list(found) == list(find_violations(stored_flow) or ())
    assert [each.path for each in found] == [
        "metadata.name",
        "spec.flows[0].dependsOn.targets[0]",
        "spec.flows[1].when",
    ]
