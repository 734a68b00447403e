"""Large reviews, judged by a process of their own: which go there, that they are answered as any
other, and what becomes of one that takes too long or too much. The process is a real one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobflow.webhook.dry_run.template_pods import DryRun
from jobflow.webhook.large_reviews import offload as aside_module
from jobflow.webhook.large_reviews.offload import MODULE, Aside
from jobflow.webhook.review.review import MOST_BYTES, Answer, Outcome, reviewers
from support.admission.admissions import UID, FakeCluster, FakeRights, review, stored
from support.sandbox.manifests import jobflow, template

PATCH = {"jobSpec": {"minAvailable": 1, "queue": "default"}}
POD = {
    "spec": {
        "containers": [{"name": "main", "image": "busybox:1.36"}],
        "restartPolicy": "Never",
    }
}


def flow(*steps: dict[str, Any], **spec: Any) -> bytes:
    made = stored(jobflow("f", {}))
    return review("CREATE", made | {"spec": {"flows": list(steps)} | spec})


def template_with(*tasks: dict[str, Any]) -> bytes:
    made = stored(template("t"))
    return review("CREATE", made | {"spec": {"tasks": tasks}}, kind="JobTemplate")


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
    "wrong types": flow(*[1] * 200_000),  # type: ignore[list-item]
    "no JSON": b"[" * (MOST_BYTES + 1),
}


async def answered(
    cluster: FakeCluster, elsewhere: Aside | None, body: bytes, rights: FakeRights | None = None
) -> Answer:
    kind = "jobtemplates" if b'"kind": "JobTemplate"' in body else "jobflows"
    return await reviewers(cluster, elsewhere, rights)[f"/{kind}/validate"].review(body)


def status(answer: Answer) -> dict[str, Any]:
    response = json.loads(answer.body)["response"]
    assert (response["uid"], response["allowed"]) == (UID, False)
    found: dict[str, Any] = response["status"]
    return found


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster({"a": stored(template("a"))})


@asynccontextmanager
async def aside_of(
    cluster: FakeCluster, rights: FakeRights | None = None, **more: float
) -> AsyncIterator[Aside]:
    made = Aside(cluster, rights, **more)
    try:
        yield made
    finally:
        await made.close()


@pytest.mark.parametrize("body", SMALL.values(), ids=SMALL.keys())
async def test_the_event_loop_judges_what_takes_no_time(body: bytes, cluster: FakeCluster) -> None:
    async with aside_of(cluster) as aside:
        assert (await answered(cluster, aside, body)).outcome is Outcome.ALLOWED
        assert aside.pid is None


async def test_large_reviews_are_answered_by_one_process_as_any_other(cluster: FakeCluster) -> None:
    pids = set()
    async with aside_of(cluster) as aside:
        for name, body in LARGE.items():
            there = await answered(cluster, aside, body)
            here = await answered(cluster, None, body)
            assert (there.body, there.outcome, there.code) == (here.body, here.outcome, here.code)
            assert [(v.path, v.reason) for v in there.violations] == [
                (v.path, v.reason) for v in here.violations
            ], name
            pids.add(aside.pid)
    assert len(pids) == 1 and None not in pids
    assert aside.pid is None


async def test_what_the_process_needs_of_the_cluster_it_is_told(cluster: FakeCluster) -> None:
    cluster.known_queues = {"default": "Closed"}
    rights = FakeRights("you may not")
    async with aside_of(cluster, rights) as aside:
        answer = await answered(cluster, aside, flow(*plain(900, patch=PATCH)))
        assert (status(answer)["code"], status(answer)["message"]) == (403, "you may not")
        assert answer.outcome is Outcome.REFUSED
        assert rights.users == [("admin", "default")]
        rights.lacks = ""
        steps = [*plain(900, patch=PATCH), {"name": "b"}]
        answer = await answered(cluster, aside, flow(*steps))
        assert json.loads(answer.body)["response"]["warnings"] == [
            'JobTemplate "b" does not exist yet: its steps wait until it does',
            (
                'queue "default" (Closed) is not Open: Volcano refuses jobs for a queue '
                "that is not Open"
            ),
        ]


async def test_pod_templates_of_a_large_template_are_tried_by_the_replica() -> None:
    cluster = FakeCluster(says=lambda pod: DryRun(warnings=('unknown field "template.x"',)))
    tasks = [task(f"t{i}", metadata={"labels": {"i": str(i)}}) for i in range(6_000)]
    async with aside_of(cluster) as aside:
        answer = await answered(cluster, aside, template_with(*tasks))
        assert aside.pid is not None
    assert len(cluster.tried) == 64
    unknown, untried = json.loads(answer.body)["response"]["warnings"]
    assert unknown.startswith("unknown fields spec.tasks[0].template.x, spec.tasks[1].")
    assert untried.startswith(
        "5936 of 6000 different pod templates were not checked by the API server"
    )


async def test_nothing_large_is_judged_while_that_may_not_be(cluster: FakeCluster) -> None:
    cluster.why_unfit = "a newer CRD"
    async with aside_of(cluster) as aside:
        answer = await answered(cluster, aside, LARGE["many bytes"])
    assert (status(answer)["code"], status(answer)["message"]) == (503, "a newer CRD; try again")


async def test_a_review_that_takes_too_long_is_given_up_and_the_next_one_judged(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aside_of(cluster, seconds=0.01) as aside:
        answer = await answered(cluster, aside, LARGE["many patches"])
        assert aside.pid is None
        assert (status(answer)["code"], status(answer)["reason"]) == (504, "Timeout")
        assert status(answer)["message"].startswith(
            "the review was not finished within 0.01 s; try again"
        )
        assert answer.outcome is Outcome.FAILED
        aside._seconds = 30
        assert (await answered(cluster, aside, LARGE["many patches"])).outcome is Outcome.ALLOWED


async def test_a_process_that_is_killed_is_started_again(cluster: FakeCluster) -> None:
    async with aside_of(cluster) as aside:
        await answered(cluster, aside, LARGE["many patches"])
        first = aside.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        answer = await answered(cluster, aside, LARGE["many patches"])
        if answer.outcome is Outcome.FAILED:  # it was asked before its end was known
            assert status(answer)["code"] == 500
            assert status(answer)["message"].startswith("the process for large reviews end")
            answer = await answered(cluster, aside, LARGE["many patches"])
        assert answer.outcome is Outcome.ALLOWED
        assert aside.pid not in (None, first)


async def test_a_review_that_takes_too_much_memory_is_refused_and_the_next_one_judged(
    cluster: FakeCluster,
) -> None:
    much = flow({"name": "a", "patch": {"jobSpec": {"tasks": [{}] * 2_000_000}}})
    async with aside_of(cluster, seconds=60) as aside:
        answer = await answered(cluster, aside, much)
        assert status(answer)["code"] == 500
        assert "more memory than it has" in status(answer)["message"]
        assert (await answered(cluster, aside, LARGE["many patches"])).outcome is Outcome.ALLOWED


async def test_too_many_large_reviews_at_once_are_asked_to_come_back(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aside_module, "MOST_WAITING", 2)
    async with aside_of(cluster, seconds=60) as aside:
        bodies = [LARGE["many patches"]] * 3
        first, second, third = await asyncio.gather(
            *(answered(cluster, aside, body) for body in bodies)
        )
    assert [first.outcome, second.outcome] == [Outcome.ALLOWED] * 2
    assert (status(third)["code"], status(third)["details"]["retryAfterSeconds"]) == (429, 1)
    assert status(third)["message"] == "2 large reviews are under way; try again"


async def test_an_idle_process_is_ended(cluster: FakeCluster) -> None:
    async with aside_of(cluster, idle_seconds=0.0) as aside:
        await answered(cluster, aside, LARGE["many patches"])
        async with asyncio.timeout(10):
            while aside.pid is not None:  # noqa: ASYNC110 - the end of a timer
                await asyncio.sleep(0.01)


def test_the_process_ends_with_its_replica() -> None:
    done = subprocess.run(
        [sys.executable, "-m", MODULE], input=b"", capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
