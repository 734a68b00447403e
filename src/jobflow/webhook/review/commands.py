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
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import StepCondition
from jobflow.api.resources import COMMANDS, JOBFLOWS, OwnerReference
from jobflow.api.volcano.command import BY_HAND, ENDS_STEPS, Command, targets
from jobflow.core.admission.changes import command_changes_reused
from jobflow.core.names import stored_condition
from jobflow.core.spec.items import get_items
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.spec.step_commands import (
    ANSWERS,
    asks_anywhere,
    find_place,
    has_open_approval,
    parse_answer,
    parse_step_command,
)
from jobflow.core.violations import Reason, Verdict, Violation
from jobflow.webhook.review import envelope
from jobflow.webhook.review.judges import Cluster, Right, Rights

PATH = f"/{COMMANDS.plural}/mutate"
MOST_READ = 20
"""Most child flows that are read to see which approvals are given; with more, none counts as
given."""
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
            if why := _fault(command):
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
                if command.action in ENDS_STEPS and await self._passes_approval(
                    request.namespace, command.target.name, command
                ):
                    need = ", because it ends a child flow with an approval that is not given"
                    right = right._replace(verb=APPROVE, need=need)
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
        """Return why the target must not change, because other flows reuse it or have its volume
        claims, or ""."""
        if spent := self._cluster.why_spent(namespace, target.name):
            way_out = f"retry that one, or resubmit {target.name}"
            return f"JobFlow {target.name} is spent, because {spent}: {way_out}"
        reused_by = self._cluster.reused_by(namespace, target.name, target.uid)
        flow = await self._cluster.flow(namespace, target.name) if reused_by else None
        return "" if flow is None else command_changes_reused(flow, reused_by)

    async def _passes_approval(self, namespace: str, name: str, command: Command) -> bool:
        """Return whether a Command on steps ends a child flow with an approval that is not given:
        what depends on it may then start without the answer."""
        said, flow = parse_step_command(command), await self._cluster.flow(namespace, name)
        if flow is None or isinstance(said, str):
            return False
        for path in said.paths:
            if await self._is_open(flow, path):
                return True
        return False

    async def _is_open(self, flow: JobFlow, path: str) -> bool:
        flow = with_param_values(flow)
        place = find_place(flow, path)
        if isinstance(place, str):  # the controller refuses it
            return False
        step = next(each for each in flow.all_steps if each.name == place.key.step)
        if not any(map(asks_anywhere, step.child_flows)):
            return False
        condition, index = stored_condition(flow, step.name) or StepCondition(), place.key.index
        runs = [run for run in condition.runs or (condition,) if index in (None, run.index)]
        items = get_items(step, condition.decisions) if index is None else None
        if not place.below and len(runs) < len(items or (0,)):
            return True  # one has not begun, so that nobody has given its approvals
        if len(runs) > MOST_READ:
            return True
        for name in (run.flow for run in runs):
            child = await self._cluster.flow(flow.metadata.namespace, name) if name else None
            if child is None:
                return not place.below
            if not place.below and has_open_approval(child):
                return True
            for below in [place.below] if place.below else [s.name for s in child.all_steps]:
                if await self._is_open(child, below):
                    return True
        return False


def _fault(command: Command) -> str:
    """Return why no controller could carry out the Command, or ""."""
    said: object = None
    if command.action in ANSWERS:
        said = parse_answer(command)
    elif command.action in BY_HAND:
        said = parse_step_command(command)
    return said if isinstance(said, str) else ""


def _is_about_a_flow(command: Command) -> bool:
    return targets(command, JOBFLOWS.api_version, JOBFLOWS.kind)


def _annotations(command: Command) -> Mapping[str, str]:
    return command.metadata.annotations or {}


def _asked(command: Command) -> tuple[object, ...]:
    """Return all that decides what a Command does."""
    outputs = _annotations(command).get(labels.OUTPUTS)
    return command.target, command.action, command.message, outputs
