"""Events that are read about pods that do not say why they do not start."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from jobflow.api.resources import EVENTS
from jobflow.controller.probes import pod_warnings
from jobflow.controller.probes.pod_warnings import PodWarnings
from jobflow.core.planning.actions import PodWarning
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.running_controller import NAMESPACE, Cluster
from support.time.alongside import until

F, UID = (NAMESPACE, "f"), "uid-f"
WANT = PodWarning("a", "f-a-main-0", "uid-pod")


class Asked:
    """A keeper that runs, and the flows of which an answer has changed."""

    def __init__(self, world: Cluster) -> None:
        self.world = world
        self.changed: list[Any] = []
        self.keeper = PodWarnings(world.client, self.changed.append)

    async def warn(self, reason: str, second: int, *, kind: str = "Warning", **about: str) -> None:
        event = {
            **EVENTS.type_meta,
            "metadata": {"generateName": "e."},
            "involvedObject": {
                "kind": "Pod",
                "name": WANT.pod,
                "namespace": NAMESPACE,
                "uid": WANT.uid,
                **about,
            },
            "type": kind,
            "reason": reason,
            "message": "told",
            "lastTimestamp": f"2026-01-01T12:00:{second:02}Z",
        }
        await self.world.client.create(EVENTS, NAMESPACE, json.dumps(event).encode())

    @property
    def answer(self) -> str | None:
        return self.keeper.results(UID).get(WANT.key)

    @property
    def requests(self) -> int:
        seen = self.world.server.requests
        return sum((each.method, each.path) == ("GET", EVENTS.path(NAMESPACE)) for each in seen)


@pytest_asyncio.fixture
async def asked(world: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    monkeypatch.setattr(pod_warnings, "FIRST_WAIT", 0.02)
    asked = Asked(world)
    task = asyncio.create_task(asked.keeper.run())
    yield asked
    task.cancel()
    await asyncio.wait([task])


async def test_the_last_warning_of_a_pod_is_the_answer(asked: Asked) -> None:
    await asked.warn("FailedMount", 1)
    await asked.warn("FailedScheduling", 2)
    await asked.warn("Evicted", 3, uid="an earlier pod of this name")
    asked.keeper.want(F, UID, [WANT])
    await until(lambda: asked.answer == "FailedMount: told")
    assert asked.changed == [F]


async def test_a_pod_is_asked_about_until_it_is_no_longer_wanted(asked: Asked) -> None:
    asked.keeper.want(F, UID, [WANT])
    await until(lambda: asked.answer == "")
    await asked.warn("FailedMount", 1)
    await until(lambda: asked.answer == "FailedMount: told")
    await asked.warn("Pulling", 2, kind="Normal")
    await until(lambda: asked.answer == "")
    asked.keeper.want(F, UID, [])
    assert asked.keeper.results(UID) == {}
    seen = asked.requests
    await asyncio.sleep(0.2)
    assert asked.requests == seen


async def test_an_error_of_the_server_is_no_answer(asked: Asked) -> None:
    await asked.warn("FailedMount", 1)
    stopping = failure(503, "ServiceUnavailable", "shutting down")
    asked.world.fails("GET", EVENTS.path(NAMESPACE), stopping, times=2)
    asked.keeper.want(F, UID, [WANT])
    await until(lambda: asked.answer == "FailedMount: told")


async def test_without_the_right_to_read_events_nothing_more_is_asked(asked: Asked) -> None:
    forbidden = failure(403, "Forbidden", "no")
    asked.world.fails("GET", EVENTS.path(NAMESPACE), forbidden, times=None)
    asked.keeper.want(F, UID, [WANT])
    await until(lambda: asked.requests > 0)
    await asyncio.sleep(0.2)
    assert asked.requests == 1
    assert asked.answer is None


async def test_another_flow_of_the_name_has_answers_of_its_own(asked: Asked) -> None:
    await asked.warn("FailedMount", 1)
    asked.keeper.want(F, UID, [WANT])
    await until(lambda: asked.answer == "FailedMount: told")
    asked.keeper.want(F, "uid-later", [WANT])
    assert asked.keeper.results(UID) == asked.keeper.results("uid-later") == {}
    asked.keeper.forget(F)
    assert asked.keeper.results("uid-later") == {}
