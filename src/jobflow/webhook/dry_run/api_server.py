"""Has the API server try pod templates without storing them. What its answers mean for a
JobTemplate is `pod_templates`; what keeps it from answering refuses nothing.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum

import msgspec
import structlog

from jobflow.api.resources import POD_TEMPLATES, StatusCause
from jobflow.core.violations import Reason
from jobflow.kube.client import Client
from jobflow.kube.errors import NETWORK_ERRORS, ApiError
from jobflow.webhook.dry_run.decode_errors import unreadable
from jobflow.webhook.dry_run.template_pods import SECONDS, DryRun

AT_ONCE = 8
"""Dry runs of one review that are under way at a time."""
SAID_EVERY = 60.0
"""Seconds in which one kind of trouble is logged once."""
QUERY = (("dryRun", "All"), ("fieldValidation", "Warn"))

_UNREADABLE = re.compile(r"cannot be handled as a PodTemplate: (.+)", re.DOTALL)
"""A wrong type or a malformed quantity, told before anything is validated
(k8s.io/apiserver, endpoints/handlers/rest.go, transformDecodeError)."""

_IN_TEMPLATE = re.compile(r"template(?=[.\[]|$)")

log = structlog.get_logger(__name__)


class Result(StrEnum):
    """What came of a dry run, for the metrics."""

    PASSED = "passed"
    REFUSED = "refused"
    FORBIDDEN = "forbidden"
    NOT_SERVED = "not_served"
    BUSY = "busy"
    ERROR = "error"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"


_TROUBLES = {403: Result.FORBIDDEN, 404: Result.NOT_SERVED, 429: Result.BUSY, 504: Result.TIMEOUT}

Observe = Callable[[str], None]
"""Told of every dry run what came of it."""


class DryRuns:
    """Dry runs by one client."""

    def __init__(
        self, client: Client, observe: Observe, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._observe = observe
        self._clock = clock
        self._said: dict[Result, float] = {}

    async def of(self, namespace: str, templates: Sequence[bytes]) -> list[DryRun | None]:
        """What the API server says of each of these pod templates, in JSON, after SECONDS at the
        latest; None of those that it has not answered by then."""
        answers: list[DryRun | None] = [None] * len(templates)
        room = asyncio.Semaphore(AT_ONCE)

        async def ask(i: int) -> None:
            async with room:
                answers[i] = await self._tried(namespace, templates[i])

        with suppress(TimeoutError):
            async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
                for i in range(len(templates)):
                    group.create_task(ask(i))
        for _ in range(answers.count(None)):
            self._let_pass(Result.TIMEOUT, namespace, f"no answer within {SECONDS:g} s")
        return answers

    async def _tried(self, namespace: str, template: bytes) -> DryRun | None:
        """None where time ran out."""
        warnings: list[str] = []
        try:
            await self._client.request(
                "POST",
                POD_TEMPLATES.path(namespace),
                query=QUERY,
                body=_body(template),
                timeout=SECONDS,
                warnings=warnings,
            )
        except ApiError as error:
            return self._refused(namespace, template, error, warnings)
        except TimeoutError:
            return None
        except NETWORK_ERRORS as error:
            self._let_pass(Result.UNREACHABLE, namespace, str(error) or type(error).__name__)
            return DryRun()
        self._observe(Result.PASSED)
        return DryRun(warnings=tuple(warnings))

    def _refused(
        self, namespace: str, template: bytes, error: ApiError, warnings: Sequence[str]
    ) -> DryRun:
        """Only what cannot be a pod template counts: whether this one would be let in, now and
        here, is for those to say who let pods in."""
        faults = tuple(_faults(error, template))
        if not faults:
            self._let_pass(_TROUBLES.get(error.code, Result.ERROR), namespace, str(error))
            return DryRun()
        self._observe(Result.REFUSED)
        return DryRun(faults, tuple(warnings))

    def _let_pass(self, result: Result, namespace: str, why: str) -> None:
        self._observe(result)
        now = self._clock()
        if result not in self._said or now - self._said[result] >= SAID_EVERY:
            self._said[result] = now
            say = log.info if result is Result.NOT_SERVED else log.warning  # as in the sandbox
            say("pod template not checked", namespace=namespace, result=result, error=why)


def _faults(error: ApiError, template: bytes) -> Iterator[StatusCause]:
    """What an answer says against the template itself. An admission policy of the cluster's denies
    by 422 too, but names no field."""
    details = error.status.details
    if error.code == 422 and details is not None:
        yield from (cause for cause in details.causes or () if _IN_TEMPLATE.match(cause.field))
    elif error.code == 400 and (found := _UNREADABLE.search(error.message)) is not None:
        for place in unreadable(msgspec.json.decode(template), found[1]):
            yield StatusCause(reason=Reason.TYPE_INVALID, message=found[1], field=place)


def _body(template: bytes) -> bytes:
    """A generated name is never in use."""
    obj = {
        "apiVersion": POD_TEMPLATES.api_version,
        "kind": POD_TEMPLATES.kind,
        "metadata": {"generateName": "jobflow-"},
        "template": msgspec.Raw(template),
    }
    return msgspec.json.encode(obj)
