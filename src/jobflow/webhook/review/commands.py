"""Review of Commands about flows: who sends them is written on them, and must have the right to.

The user's name replaces whatever the client wrote (`labels.BY`), so that the controller can store
who has approved a step. Commands about anything else are allowed as they are; `matchConditions` of
the webhook keep them away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import structlog

from jobflow.api import labels
from jobflow.api.resources import COMMANDS, JOBFLOWS
from jobflow.api.volcano.command import Command, targets
from jobflow.core.spec.approvals import ANSWERS, parse_answer
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review.answer import Answer, ReviewOutcome, not_a_review
from jobflow.webhook.review.envelope import (
    AdmissionRequest,
    AdmissionReview,
    MalformedReview,
    allowed,
    checked,
    failed,
    invalid,
    patched,
    refused,
)
from jobflow.webhook.review.judges import Forbidden, NotJudged
from jobflow.webhook.review.rights import Right, Rights

PATH = f"/{COMMANDS.plural}/mutate"
APPROVE, UPDATE = "approve", "update"
"""Verbs on JobFlows: to answer approvals, and to send any other Command."""

log = structlog.get_logger(__name__)


class CommandReviewer:
    """Answers the reviews of Commands."""

    kind = COMMANDS.kind
    path = PATH

    def __init__(self, rights: Rights) -> None:
        self._rights = rights
        decoder = msgspec.json.Decoder(AdmissionReview[Command])
        self._decode: Callable[[bytes], AdmissionReview[Command]] = decoder.decode

    async def review(self, body: bytes) -> Answer:
        """Return the answer to a body. No content of a body makes it raise."""
        try:
            request = checked(self._decode(body), self.kind, COMMANDS.group)
        except MalformedReview as error:
            return not_a_review(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return not_a_review(MalformedReview(f"the body is no review of a Command: {error}"))
        operation = request.operation
        try:
            return await self._answer(request)
        except NotJudged as error:
            status = failed(
                self.kind, request.name, error.code, error.reason, str(error), error.retry_after
            )
            outcome = ReviewOutcome.REFUSED if error.code < 500 else ReviewOutcome.FAILED
            return Answer(refused(request.uid, status), outcome, operation=operation)
        except Exception:
            # an error in this code must neither allow an unjudged object nor end the server
            log.exception("review failed", kind=self.kind, uid=request.uid, name=request.name)
            message = "JobFlow could not judge this Command: an error of its own, see its log"
            status = failed(self.kind, request.name, 500, "InternalError", message)
            return Answer(refused(request.uid, status), ReviewOutcome.FAILED, operation=operation)

    async def _answer(self, request: AdmissionRequest[Command]) -> Answer:
        command, operation = request.object, request.operation
        if command is None or request.sub_resource or not _is_about_a_flow(command):
            return Answer(allowed(request.uid), operation=operation)
        old = request.old_object
        if old is not None and _is_about_a_flow(old) and _asked(old) == _asked(command):
            by = _annotations(old).get(labels.BY)  # who changes nothing else does not send it
        else:
            if violations := tuple(_violations(command)):
                status = invalid(self.kind, request.name, Verdict(violations), COMMANDS.group)
                answer = refused(request.uid, status)
                return Answer(
                    answer, ReviewOutcome.REFUSED, operation=operation, violations=violations
                )
            await self._check_rights(request, command)
            by = request.user_info.username
        patch = list(_patch(command, by))
        answer = patched(request.uid, patch) if patch else allowed(request.uid)
        return Answer(answer, operation=operation)

    async def _check_rights(self, request: AdmissionRequest[Command], command: Command) -> None:
        if command.target is None:
            return
        verb = APPROVE if command.action in ANSWERS else UPDATE
        right = Right(verb, JOBFLOWS, request.namespace, command.target.name)
        if reason := await self._rights.lacking(request.user_info, right):
            raise Forbidden(reason)


def _is_about_a_flow(command: Command) -> bool:
    return targets(command, JOBFLOWS.api_version, JOBFLOWS.kind)


def _annotations(command: Command) -> Mapping[str, str]:
    return command.metadata.annotations or {}


def _asked(command: Command) -> tuple[object, ...]:
    """Return all that decides what a Command does."""
    outputs = _annotations(command).get(labels.OUTPUTS)
    return command.target, command.action, command.message, outputs


def _violations(command: Command) -> Iterator[Violation]:
    if command.action in ANSWERS and isinstance(why := parse_answer(command), str):
        outputs = labels.OUTPUTS in why or "outputs" in why
        path = f"metadata.annotations[{labels.OUTPUTS}]" if outputs else "message"
        yield Violation(path, Reason.INVALID, None, why)


def _patch(command: Command, by: str | None) -> Iterator[dict[str, Any]]:
    """Yield the operations after which the Command has this user's name; None: no name."""
    had = _annotations(command).get(labels.BY)
    if had == by:
        return
    path = f"/metadata/annotations/{labels.BY.replace('/', '~1')}"
    if by is None:
        yield {"op": "remove", "path": path}
    elif command.metadata.annotations:
        yield {"op": "add", "path": path, "value": by}
    else:
        yield {"op": "add", "path": "/metadata/annotations", "value": {labels.BY: by}}
