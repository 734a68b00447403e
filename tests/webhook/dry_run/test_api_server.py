"""Dry runs by an API server with answers from the test: requests, faults and failures."""

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from jobflow.api.resources import Status
from jobflow.kube.answers import ApiError
from jobflow.kube.client import Client
from jobflow.kube.credentials import Credentials, Login
from jobflow.webhook import cluster as dry_runs
from jobflow.webhook.cluster import AT_ONCE, DryRuns
from jobflow.webhook.tried_pods import DryRun
from support.admission.admissions import INVALID_PORT, Ticks
from support.network.anonymous import anonymous
from support.network.scripted_server import Answer, ScriptedServer, failure

PATH = "/api/v1/namespaces/team/podtemplates"
POD = {"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}}
CAUSES = [msgspec.to_builtins(INVALID_PORT)]
UNREADABLE = (
    'PodTemplate in version "v1" cannot be handled as a PodTemplate: quantities must match the '
    "regular expression '^x$'"
)


class Tries:
    def __init__(self, client: Client) -> None:
        self.results: Counter[str] = Counter()
        self.clock = Ticks()
        self._runs = DryRuns(client, self._observe, clock=self.clock)

    async def one(self, template: Mapping[str, Any] = POD) -> DryRun:
        (answer,) = await self.of(template)
        assert answer is not None
        return answer

    async def of(self, *templates: Mapping[str, Any]) -> list[DryRun | None]:
        return await self._runs.of(
            "team", [json.dumps(template).encode() for template in templates]
        )

    def _observe(self, result: str) -> None:
        self.results[result] += 1


async def dry_run_with(answer: Answer) -> tuple[DryRun, Counter[str]]:
    async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
        server.others.append(answer)
        tries = Tries(client)
        return await tries.one(), tries.results


async def test_a_dry_run_has_a_generated_name() -> None:
    async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
        server.others.append(Answer(201, {"kind": "PodTemplate"}))
        assert await Tries(client).one() == DryRun()
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", PATH)
    assert request.query == {"dryRun": "All", "fieldValidation": "Warn"}
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"generateName": "jobflow-"},
        "template": POD,
    }


async def test_faults_have_the_messages_of_the_server() -> None:
    answer, results = await dry_run_with(
        Answer(422, failure(422, "Invalid", "many", causes=CAUSES))
    )
    assert answer == DryRun(faults=(INVALID_PORT,))
    assert results == {"refused": 1}


@pytest.mark.parametrize(
    "causes",
    [
        None,
        [],
        [{"message": "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"}],
        [{"field": "metadata.labels", "message": "say whose it is"}],
        [{"field": "templates", "message": "?"}],
    ],
)
async def test_a_denial_that_names_no_field_of_the_template_is_ignored(causes: Any) -> None:
    refusal = failure(422, "Invalid", "no", causes=causes)
    answer, results = await dry_run_with(Answer(422, refusal))
    assert (answer, results) == (DryRun(), {"error": 1})


async def test_a_template_that_cannot_be_decoded_is_refused() -> None:
    answer, results = await dry_run_with(Answer(400, failure(400, "BadRequest", UNREADABLE)))
    (fault,) = answer.faults
    assert (fault.field, fault.reason) == ("template", "FieldValueTypeInvalid")
    assert fault.message == "quantities must match the regular expression '^x$'"
    assert results == {"refused": 1}


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (Answer(400, failure(400, "BadRequest", "denied by a webhook")), "error"),
        (Answer(401, failure(401)), "error"),
        (Answer(403, failure(403, "Forbidden", "exceeded quota")), "forbidden"),
        (Answer(403, failure(403, "Forbidden", "violates PodSecurity")), "forbidden"),
        (Answer(404, failure(404)), "not_served"),
        (Answer(409, failure(409, "AlreadyExists")), "error"),
        (Answer(413, b"too large"), "error"),
        (Answer(429, failure(429)), "busy"),
        (Answer(500, failure(500)), "error"),
        (Answer(503, b"<html>"), "error"),
        (Answer(504, failure(504)), "timeout"),
        (Answer(end="cut"), "unreachable"),
        (Answer(422, b""), "error"),
        (Answer(422, b"", end="cut"), "unreachable"),
    ],
    ids=lambda each: f"{each.code} {each.end}" if isinstance(each, Answer) else each,
)
async def test_other_failures_are_ignored(answer: Answer, result: str) -> None:
    found, results = await dry_run_with(answer)
    assert found == DryRun()
    assert results == {result: 1}


async def test_warnings_are_returned_with_and_without_faults() -> None:
    head = {"Warning": '299 - "unknown field \\"template.spec.comand\\"", 299 api "b, c"'}
    reported = ('unknown field "template.spec.comand"', "b, c")
    answer, _ = await dry_run_with(Answer(201, {}, headers=head))
    assert answer == DryRun(warnings=reported)
    refusal = failure(422, "Invalid", "", causes=CAUSES)
    answer, _ = await dry_run_with(Answer(422, refusal, headers=head))
    assert answer.warnings == reported and answer.faults


async def test_dry_runs_share_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
        refusal = failure(422, "Invalid", "", causes=CAUSES)
        server.others += [Answer(422, refusal), Answer(end="hang"), Answer(end="hang")]
        tries = Tries(client)
        monkeypatch.setattr(dry_runs, "SECONDS", 0.3)
        answers = await tries.of(POD, {"metadata": {}}, {"metadata": {"labels": {}}})
    assert [len(answer.faults) for answer in answers if answer is not None] == [1]
    assert answers.count(None) == 2
    assert tries.results == {"refused": 1, "timeout": 2}


class Counting(Client):
    """A client that answers all requests once `expected` requests are running."""

    def __init__(self, expected: int) -> None:
        super().__init__(Credentials(Login("http://127.0.0.1:1")))
        self.most = 0
        self._expected = expected
        self._now = 0
        self._full = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        self._now += 1
        self.most = max(self.most, self._now)
        if self._now == self._expected:
            self._full.set()
        await self._full.wait()
        self._now -= 1
        return b"{}"


async def test_concurrent_dry_runs_are_limited() -> None:
    client = Counting(AT_ONCE)
    tries = Tries(client)
    templates = [{"metadata": {"labels": {"n": str(i)}}} for i in range(3 * AT_ONCE)]
    assert await tries.of(*templates) == [DryRun()] * len(templates)
    assert (client.most, tries.results) == (AT_ONCE, {"passed": len(templates)})


async def test_a_cancelled_review_cancels_its_dry_runs() -> None:
    async with ScriptedServer() as server, Client(anonymous(server.url)) as client:
        server.others.append(Answer(end="hang"))
        review = asyncio.create_task(Tries(client).one())
        await server.until(lambda: server.requests)
        review.cancel()
        with pytest.raises(asyncio.CancelledError):
            await review


class Failing(Client):
    """A client whose requests raise the error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(Credentials(Login("http://127.0.0.1:1")))
        self.error = error

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        raise self.error


def api_error(code: int, reason: str) -> ApiError:
    return ApiError(Status(code=code, reason=reason))


async def test_a_request_that_times_out_is_ignored() -> None:
    tries = Tries(Failing(TimeoutError()))
    assert await tries.of(POD) == [None]
    assert tries.results == {"timeout": 1}


async def test_each_result_is_logged_once_a_minute() -> None:
    client = Failing(api_error(403, "Forbidden"))
    tries = Tries(client)

    async def logged_lines() -> list[str]:
        with capture_logs() as lines:
            for _ in range(50):
                await tries.one()
        return [f"{line['log_level']}: {line['event']}: {line['error']}" for line in lines]

    assert await logged_lines() == ["warning: pod template not checked: 403 Forbidden: "]
    assert await logged_lines() == []
    client.error = api_error(404, "NotFound")
    assert await logged_lines() == ["info: pod template not checked: 404 NotFound: "]
    tries.clock.now = 61.0
    assert len(await logged_lines()) == 1
    assert tries.results == {"forbidden": 100, "not_served": 100}
