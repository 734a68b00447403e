"""Whether a user may create vcjobs: what the API server is asked, when, and what follows from its
answer or from none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobflow.kube.client import Client
from jobflow.webhook.access_rights import KEPT_SECONDS, MOST_KEPT, AccessRights
from jobflow.webhook.review.envelope import UserInfo
from jobflow.webhook.review.judges import NotReady
from jobflow.webhook.review.review import ReviewOutcome, reviewers
from support.admission.admissions import FakeCluster, FakeRights, review, stored
from support.network.scripted_server import Answer, ScriptedServer, failure
from support.sandbox.manifests import jobflow, template

ANNA = UserInfo(username="anna", uid="7", groups=["dev"], extra={"scopes": ["a"]})
YES, NO = ({"status": {"allowed": allowed}} for allowed in (True, False))
DENIED = (
    'user "anna" may not create jobs.batch.volcano.sh in namespace "team", and JobFlow '
    "creates such jobs for its users; bind the user to a Role that allows the verb create on jobs "
    "of batch.volcano.sh"
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class TestAsking:
    async def test_the_api_server_is_asked_about_the_user_as_it_knows_them(self) -> None:
        async with ScriptedServer() as server, Client.at(server.url) as client:
            server.others.append(Answer(201, YES))
            assert await AccessRights(client).lacking(ANNA, "team") == ""
        (asked,) = server.asked
        assert (asked.method, asked.path) == (
            "POST",
            "/apis/authorization.k8s.io/v1/namespaces/team/localsubjectaccessreviews",
        )
        assert json.loads(asked.body) == {
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

    async def test_who_may_not_is_told_what_is_missing(self) -> None:
        async with ScriptedServer() as server, Client.at(server.url) as client:
            because = {"status": {"allowed": False, "reason": "no RBAC policy matched"}}
            server.others += [Answer(201, NO), Answer(201, because)]
            assert await AccessRights(client).lacking(ANNA, "team") == DENIED
            assert '"team" (no RBAC policy matched), and' in await AccessRights(client).lacking(
                ANNA, "team"
            )

    async def test_an_answer_counts_for_ten_seconds_for_this_user_and_namespace(self) -> None:
        clock = Clock()
        async with ScriptedServer() as server, Client.at(server.url) as client:
            server.others += [Answer(201, NO), *(Answer(201, YES) for _ in range(3))]
            rights = AccessRights(client, clock=clock)
            assert await rights.lacking(ANNA, "team") == await rights.lacking(ANNA, "team") != ""
            assert await rights.lacking(ANNA, "other") == ""
            assert await rights.lacking(UserInfo(username="anna", groups=["ops"]), "team") == ""
            clock.now = KEPT_SECONDS
            assert await rights.lacking(ANNA, "team") == ""
            assert len(server.asked) == 4

    async def test_no_more_than_a_thousand_answers_are_kept(self) -> None:
        async with ScriptedServer() as server, Client.at(server.url) as client:
            rights = AccessRights(client)
            for i in range(MOST_KEPT + 5):
                server.others.append(Answer(201, YES))
                await rights.lacking(ANNA, f"n{i}")
            assert len(rights._kept) == MOST_KEPT

    @pytest.mark.parametrize(
        "answer", [failure(403), failure(500), Answer(200, "<html>"), Answer(end="cut")]
    )
    async def test_without_an_answer_nothing_is_decided_and_nothing_kept(
        self, answer: Answer
    ) -> None:
        async with ScriptedServer() as server, Client.at(server.url) as client:
            server.others += [answer, Answer(201, YES)]
            rights = AccessRights(client)
            with pytest.raises(NotReady) as raised:
                await rights.lacking(ANNA, "team")
            assert str(raised.value).startswith(
                'the API server did not say whether user "anna" may create jobs.batch.volcano.sh '
                'in namespace "team" ('
            )
            assert str(raised.value).endswith("); try again")
            assert await rights.lacking(ANNA, "team") == ""


class TestReviews:
    async def response(
        self, body: bytes, rights: FakeRights | AccessRights | None, kind: str = "jobflows"
    ) -> Any:
        paths = reviewers(FakeCluster(), rights=rights)
        answer = await paths[f"/{kind}/validate"].review(body)
        return answer, json.loads(answer.body)["response"]

    async def test_a_flow_of_somebody_without_the_right_is_refused(self) -> None:
        rights = FakeRights(DENIED)
        body = review("CREATE", stored(jobflow("f", {"a": []})))
        answer, response = await self.response(body, rights)
        assert answer.outcome is ReviewOutcome.REFUSED
        status = response["status"]
        assert (response["allowed"], status["code"], status["reason"]) == (False, 403, "Forbidden")
        assert status["message"] == DENIED
        assert rights.users == [("admin", "default")]

    @pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
    async def test_so_is_a_template_of_somebody_without_it(self, operation: str) -> None:
        """Whoever changes a template decides what flows of others run from it."""
        rights = FakeRights(DENIED)
        new = stored(template("t"))
        old = {**new, "spec": {**new["spec"], "maxRetry": 9}}
        before = old if operation == "UPDATE" else None
        body = review(operation, new, before, kind="JobTemplate")
        _, response = await self.response(body, rights, "jobtemplates")
        assert response["status"]["message"] == DENIED
        same = review("UPDATE", new, new, kind="JobTemplate")
        _, response = await self.response(same, rights, "jobtemplates")
        assert response["allowed"] is True

    async def test_a_flow_of_which_that_cannot_be_told_is_refused_until_it_can(self) -> None:
        body = review("CREATE", stored(jobflow("f", {"a": []})))
        async with Client.at("http://127.0.0.1:1") as client:
            answer, response = await self.response(body, AccessRights(client))
        assert answer.outcome is ReviewOutcome.FAILED
        assert response["status"]["code"] == 503
        assert response["status"]["message"].endswith("; try again")

    async def test_without_the_setting_nobody_is_asked(self) -> None:
        body = review("CREATE", stored(jobflow("f", {"a": []})))
        _, response = await self.response(body, None)
        assert response["allowed"] is True

    @pytest.mark.parametrize(
        "body",
        [
            review("CREATE", stored(jobflow("f", {"a": ["x"]}))),
            review("UPDATE", stored(jobflow("f", {"a": []})), stored(jobflow("f", {"a": []}))),
            review("UPDATE", stored(jobflow("f", {"b": []})), stored(jobflow("f", {"a": []}))),
            review("DELETE", None, stored(jobflow("f", {"a": []}))),
            review("UPDATE", stored(template("t")), stored(template("t")), kind="JobTemplate"),
        ],
        ids=["wrong", "same spec", "another spec", "delete", "same template"],
    )
    async def test_what_starts_nothing_needs_no_right(self, body: bytes) -> None:
        rights = FakeRights(DENIED)
        kind = "jobtemplates" if b'"kind": "JobTemplate"' in body else "jobflows"
        _, response = await self.response(body, rights, kind)
        assert rights.users == []
        assert DENIED not in json.dumps(response)
