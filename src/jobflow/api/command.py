"""`bus.volcano.sh/v1alpha1` Command: what somebody wants done with a vcjob or with a flow.

The kind is Volcano's (staging/src/volcano.sh/apis/pkg/apis/bus/v1alpha1). It is made once, and
deleted by the controller that its target belongs to: Volcano's for vcjobs, JobFlow's for flows.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from jobflow.api.meta import ObjectMeta, OwnerReference, Struct
from jobflow.api.resources import COMMANDS


class Action(StrEnum):
    """`action` of a Command, as far as JobFlow sends or carries out any."""

    ABORT_JOB = "AbortJob"
    """Of a vcjob: abort it. Of a flow: suspend it and abort what runs."""
    SUSPEND_FLOW = "SuspendFlow"
    """Suspend it; what runs runs out. JobFlow's own word, in the manner of Volcano's."""
    RESUME_JOB = "ResumeJob"
    """Resume a suspended flow."""
    TERMINATE_JOB = "TerminateJob"
    """Cancel it."""
    TERMINATE_NOW = "TerminateNow"
    """Cancel it and its `finally`, even if it is already ending. JobFlow's own word."""
    RESTART_JOB = "RestartJob"
    """Retry it from the steps that failed."""


class Command(Struct, frozen=True, kw_only=True):
    """A Command. Fields are at the top level: it has neither spec nor status."""

    api_version: str = COMMANDS.api_version
    kind: str = COMMANDS.kind
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


def targets(command: Command, api_version: str, kind: str) -> bool:
    """Whether it is about an object of this kind."""
    target = command.target
    return target is not None and (target.api_version, target.kind) == (api_version, kind)


def encoded(command: Command) -> bytes:
    """The body of a POST; the kind is not left out of it, as it is of what is only kept."""
    kind = {"apiVersion": COMMANDS.api_version, "kind": COMMANDS.kind}
    return msgspec.json.encode(kind | msgspec.to_builtins(command))
