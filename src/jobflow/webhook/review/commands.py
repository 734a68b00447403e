"""Review of Commands about flows: who sends them is written on them, and must have the right to.

The user's name replaces whatever the client wrote (`labels.BY`), so that the controller can store
who has approved a step. Commands about anything else are allowed as they are; `matchConditions` of
the webhook keep them away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog

from jobflow.api import labels
from jobflow.api.resources import COMMANDS, JOBFLOWS, OwnerReference
from jobflow.api.volcano.command import Command, targets
from jobflow.core.admission.changes import command_changes_reused
from jobflow.core.spec.approvals import ANSWERS, parse_answer
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review import envelope
from jobflow.webhook.review.judges import Cluster, Right, Rights

PATH = f"/{COMMANDS.plural}/mutate"
APPROVE, UPDATE = "approve", "update"
"""Verbs on JobFlows: to answer approvals, and to send any other Command."""

log = structlog.get_logger(__name__)


class CommandReviewer:
    kind = COMMANDS.kind
    path = PATH

    def __init__(self, cluster: Cluster, rights: Rights) -> None:
        self._cluster = cluster
        self._rights = rights
        decoder = msgspec.json.Decoder(envelope.AdmissionReview[Command])
        self._decode: Callable[[bytes], envelope.AdmissionReview[Command]] = decoder.decode

    async def review(self, body: bytes) -> envelope.Answer:
        """Return the answer to a body. No content of a body makes it raise."""
        try:
            request = envelope.checked(self._decode(body), self.kind, COMMANDS.group)
        except envelope.MalformedReview as error:
            return envelope.not_a_review(error)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return envelope.not_a_review(
                envelope.MalformedReview(f"the body is no review of a Command: {error}")
            )
        try:
            return await self._answer(request)
        except envelope.NotJudged as error:
            return envelope.not_judged(self.kind, request.name, request, error)
        except Exception:
            # an error in this code must neither allow an unjudged object nor end the server
            log.exception("review failed", kind=self.kind, uid=request.uid, name=request.name)
            message = "JobFlow could not judge this Command: an error of its own, see its log"
            return envelope.not_judged(
                self.kind, request.name, request, envelope.NotJudged(message)
            )

    async def _answer(self, request: envelope.AdmissionRequest[Command]) -> envelope.Answer:
        command, operation = request.object, request.operation
        if command is None or request.sub_resource or not _is_about_a_flow(command):
            return envelope.Answer(envelope.allowed(request.uid), operation=operation)
        old = request.old_object
        # such as a finalizer: no other user becomes the sender by this
        if old is not None and _is_about_a_flow(old) and _asked(old) == _asked(command):
            by = _annotations(old).get(labels.BY)  # who changes nothing else does not send it
        else:
            # before the rights are asked for, which costs a request
            if command.action in ANSWERS and isinstance(why := parse_answer(command), str):
                is_about_outputs = labels.OUTPUTS in why or "outputs" in why
                path = f"metadata.annotations[{labels.OUTPUTS}]" if is_about_outputs else "message"
                found = (Violation(path, Reason.INVALID, None, why),)
                status = envelope.invalid(self.kind, request.name, Verdict(found), COMMANDS.group)
                answer = envelope.refused(request.uid, status)
                return envelope.Answer(
                    answer, envelope.ReviewOutcome.REFUSED, operation=operation, violations=found
                )
            if command.target is not None:
                verb = APPROVE if command.action in ANSWERS else UPDATE
                right = Right(verb, JOBFLOWS, request.namespace, command.target.name)
                if reason := await self._rights.lacking(request.user_info, right):
                    raise envelope.Forbidden(reason)
                if reason := await self._why_reused(request.namespace, command.target):
                    raise envelope.Forbidden(reason)
            by = request.user_info.username
        path = f"/metadata/annotations/{labels.BY.replace('/', '~1')}"
        if _annotations(command).get(labels.BY) == by:
            return envelope.Answer(envelope.allowed(request.uid), operation=operation)
        patch: dict[str, Any] = {"op": "add", "path": path, "value": by}
        if by is None:
            patch = {"op": "remove", "path": path}
        elif not command.metadata.annotations:
            patch |= {"path": "/metadata/annotations", "value": {labels.BY: by}}
        return envelope.Answer(envelope.patched(request.uid, [patch]), operation=operation)

    async def _why_reused(self, namespace: str, target: OwnerReference) -> str:
        """Return why the target must not change, because other flows reuse it, or ""."""
        reused_by = self._cluster.reused_by(namespace, target.name, target.uid)
        flow = await self._cluster.flow(namespace, target.name) if reused_by else None
        return "" if flow is None else command_changes_reused(flow, reused_by)


def _is_about_a_flow(command: Command) -> bool:
    return targets(command, JOBFLOWS.api_version, JOBFLOWS.kind)


def _annotations(command: Command) -> Mapping[str, str]:
    return command.metadata.annotations or {}


def _asked(command: Command) -> tuple[object, ...]:
    """Return all that decides what a Command does."""
    outputs = _annotations(command).get(labels.OUTPUTS)
    return command.target, command.action, command.message, outputs
