"""Which users the controller is: asked of the API server once, and named by settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from jobflow.kube.client import Client
from jobflow.webhook.access_rights import ControllerUsers
from jobflow.webhook.review.envelope import NotReady
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer, failure

OURS = {"status": {"userInfo": {"username": "system:serviceaccount:jf:jobflow"}}}


@asynccontextmanager
async def asking(answer: Answer) -> AsyncIterator[ControllerUsers]:
    """The users of a controller whose API server has given this answer."""
    async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
        server.others.append(answer)
        users = ControllerUsers(client, ["other"])
        before = users.waiting_for()
        task = asyncio.create_task(users.run())
        async with asyncio.timeout(10):
            while users.waiting_for() == before:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        try:
            yield users
        finally:
            task.cancel()


async def test_the_user_of_the_replica_and_named_users_are_the_controller() -> None:
    async with asking(Answer(201, OURS)) as users:
        assert users.waiting_for() == []
        assert users.has("system:serviceaccount:jf:jobflow") and users.has("other")
        assert not users.has("ann")


async def test_nobody_else_is_judged_until_the_api_server_has_answered() -> None:
    async with asking(Answer(500, failure(500))) as users:
        (clause,) = users.waiting_for()
        assert clause.startswith("the API server to name the user of this replica: 500")
        assert users.has("other")
        with pytest.raises(NotReady):
            users.has("ann")


@pytest.mark.parametrize("code", [403, 404])
async def test_without_self_subject_reviews_only_named_users_are_the_controller(code: int) -> None:
    async with asking(Answer(code, failure(code))) as users:
        assert users.waiting_for() == []
        assert users.has("other") and not users.has("ann")
