"""`jobflow cancel`: asks for a flow's end."""

from __future__ import annotations

from jobflow.api.command import Action
from jobflow.api.flow_status import CANCELLED
from jobflow.api.jobflow import JobFlow
from jobflow.cli.asking import Verb, over_already
from jobflow.cli.following import Until


def _is_cancelled(before: JobFlow, now: JobFlow) -> bool:
    return now.status.state.reason == CANCELLED


CANCEL = Verb(
    name="cancel",
    doing="cancelling",
    action=Action.TERMINATE_JOB,
    refused=over_already,
    until=Until("cancel", taken_up=_is_cancelled, done=lambda flow: flow.final),
)
