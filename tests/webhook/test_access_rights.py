"""Users' rights to create vcjobs: requests to the API server, and reviews with its answers."""

import json
import time
from collections.abc import Callable

import pytest

from jobflow.api.resources import JOBFLOWS, JOBS
from jobflow.kube.client import Client
from jobflow.webhook.access_rights import KEPT_SECONDS, MOST_KEPT, AccessRights, ControllerUsers
from jobflow.webhook.review.envelope import NotReady, ReviewOutcome, UserInfo
from jobflow.webhook.review.judges import Right
from support.admission.admissions import FakeRights, Ticks, respond, review, stored
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer, failure
from support.sandbox.manifests import jobflow, template

ANNA = UserInfo(username="anna", uid="7", groups=["dev"], extra={"scopes": ["a"]})
FLOW, TEMPLATE = stored(jobflow("f", {"a": []})), stored(template("t"))
YES, NO = ({"status": {"allowed": allowed}} for allowed in (True, False))
DENIED = (
    'user "anna" may not create jobs.batch.volcano.sh in namespace "team", and JobFlow '
    "creates such jobs for its users; bind the user to a Role that allows the verb create on jobs "
    "of batch.volcano.sh"
)


def checking(client: Client, clock: Callable[[], float] = time.monotonic) -> AccessRights:
    """Return a check of the right to create vcjobs."""
    return AccessRights(client, ControllerUsers(client), [JOBS], clock=clock)


def jobs_in(namespace: str) -> Right:
    need = ", and JobFlow creates such jobs for its users"
    return Right("create", JOBS, namespace, need=need)


class TestAccessReviews:
    async def test_the_request_names_the_user_and_the_right(self) -> None:
        async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
            server.others.append(Answer(201, YES))
            assert await checking(client).lacking(ANNA, jobs_in("team")) is None
        (request,) = server.requests
        assert (request.method, request.path) == (
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews",
        )
        assert json.loads(request.body) == {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "LocalSubjectAccessReview",
            "metadata": {"namespace": "team"},
            "spec": {
                "user": "anna",
                "uid": "7",
                "groups": ["dev"],
                "extra": {"scopes": ["a"]},
                "resourceAttributes": {
                    "namespace": "team",
                    "verb": "create",
                    "group": "batch.volcano.sh",
                    "version": "v1alpha1",
                    "resource": "jobs",
                },
            },
        }

    async def test_the_message_names_the_missing_right(self) -> None:
        async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
            refusal = {"status": {"allowed": False, "reason": "no RBAC policy matched"}}
            server.others += [Answer(201, NO), Answer(201, refusal)]
            assert await checking(client).lacking(ANNA, jobs_in("team")) == DENIED
            message = await checking(client).lacking(ANNA, jobs_in("team"))
            assert '"team" (no RBAC policy matched), and' in message

    async def test_only_the_configured_rights_are_asked_for(self) -> None:
        async with Client(anonymous("http://127.0.0.1:1")) as client:
            assert await checking(client).lacking(ANNA, Right("update", JOBFLOWS, "team")) is None

    async def test_an_answer_is_reused_for_ten_seconds(self) -> None:
        clock = Ticks()
        async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
            server.others += [Answer(201, NO), *(Answer(201, YES) for _ in range(3))]
            rights = checking(client, clock)
            assert (
                await rights.lacking(ANNA, jobs_in("team"))
                == await rights.lacking(ANNA, jobs_in("team"))
                != ""
            )
            assert await rights.lacking(ANNA, jobs_in("other")) is None
            assert (
                await rights.lacking(UserInfo(username="anna", groups=["ops"]), jobs_in("team"))
                is None
            )
            clock.now = KEPT_SECONDS
            assert await rights.lacking(ANNA, jobs_in("team")) is None
            assert len(server.requests) == 4

    @pytest.mark.long
    async def test_at_most_a_thousand_answers_are_stored(self) -> None:
        async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
            rights = checking(client)
            for i in range(MOST_KEPT + 5):
                server.others.append(Answer(201, YES))
                await rights.lacking(ANNA, jobs_in(f"n{i}"))
            assert len(rights._kept) == MOST_KEPT

    @pytest.mark.parametrize(
        "answer",
        [
            Answer(403, failure(403)),
            Answer(500, failure(500)),
            Answer(200, "<html>"),
            Answer(end="cut"),
        ],
    )
    async def test_without_an_answer_the_right_is_unknown(self, answer: Answer) -> None:
        async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
            server.others += [answer, Answer(201, YES)]
            rights = checking(client)
            with pytest.raises(NotReady) as raised:
                await rights.lacking(ANNA, jobs_in("team"))
            assert str(raised.value).startswith(
                'the API server did not say whether user "anna" may create jobs.batch.volcano.sh '
                'in namespace "team" ('
            )
            assert str(raised.value).endswith("); try again")
            assert await rights.lacking(ANNA, jobs_in("team")) is None


class TestReviews:
    async def test_a_flow_of_a_user_without_the_right_is_refused(self) -> None:
        rights = FakeRights(DENIED)
        response = await respond(review("CREATE", FLOW), None, rights)
        assert response.outcome is ReviewOutcome.REFUSED
        assert (response.allowed, response.code) == (False, 403)
        assert (response.status["reason"], response.message) == ("Forbidden", DENIED)
        assert rights.users == [("admin", "default")]

    @pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
    async def test_a_template_of_a_user_without_the_right_is_refused(self, operation: str) -> None:
        """A user who changes a template decides what the flows of other users run."""
        rights = FakeRights(DENIED)
        old = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "maxRetry": 9}}
        body = review(operation, TEMPLATE, old if operation == "UPDATE" else None)
        assert (await respond(body, None, rights)).message == DENIED
        assert (await respond(review("UPDATE", TEMPLATE, TEMPLATE), None, rights)).allowed

    async def test_a_flow_is_refused_while_the_right_is_unknown(self) -> None:
        async with Client(anonymous("http://127.0.0.1:1")) as client:
            response = await respond(review("CREATE", FLOW), None, checking(client))
        assert (response.outcome, response.code) == (ReviewOutcome.FAILED, 503)
        assert response.message.endswith("; try again")

    @pytest.mark.parametrize(
        "body",
        [
            review("CREATE", stored(jobflow("f", {"a": ["x"]}))),
            review("UPDATE", FLOW, FLOW),
            review("UPDATE", stored(jobflow("f", {"b": []})), FLOW),
            review("DELETE", None, FLOW),
            review("UPDATE", TEMPLATE, TEMPLATE),
        ],
        ids=["invalid", "same spec", "another spec", "delete", "same template"],
    )
    async def test_a_request_that_starts_no_job_needs_no_right(self, body: bytes) -> None:
        rights = FakeRights(DENIED)
        assert DENIED not in json.dumps((await respond(body, None, rights)).json)
        assert rights.users == []
