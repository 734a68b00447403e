"""The actions of the page: their buttons, dialogs and fields, and the commands that do the same."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jobflow.client.verbs import by_hand

STEP = "STEP"
"""Stands for the step in a command line."""


@dataclass(frozen=True, slots=True)
class Field:
    """An input of a dialog, which is a flag of the command."""

    name: str
    label: str
    flag: str
    """`--now`, `-m`, or with several lines `--param`."""
    kind: str
    """checkbox, text or lines (each line is a value of the flag)."""
    hint: str = ""
    is_of_finally: bool = False
    """Whether it is only for flows that have steps of finally."""


@dataclass(frozen=True, slots=True)
class Action:
    """A command of `jobflow` for a flow, or for a step of it."""

    name: str
    """The command: `cancel`; of one with a flag: `cancel-and-delete`."""
    label: str
    effect: str
    """The effect, in sentences; "" if the button says it."""
    done: str
    """The notice after it: `{name} is being cancelled.`, of the flow or its step."""
    finally_effect: str = ""
    """The further effect on a flow that has steps of finally."""
    fields: Sequence[Field] = ()
    has_step: bool = False
    is_dangerous: bool = False
    line: str = ""
    """The command, if it is not the name: `delete --cancel`."""
    step_flag: str = ""
    """The flag before the step: `--step `."""
    meanwhile: str = ""
    """Is shown until an action that lasts has been done."""
    previews: str | None = None
    """The checkbox of which the dialog shows the effect before it is sent; "": it shows that of the
    action itself."""

    def command(self, namespace: str, flow: str) -> str:
        """Return the command line without the flags of the fields."""
        place = f" -n {shlex.quote(namespace)}" if namespace != "default" else ""
        step = f" {self.step_flag}{STEP}" if self.has_step else ""
        return f"jobflow {self.line or self.name} {shlex.quote(flow)}{step}{place}"


_COMMENT = Field("comment", "Comment", "-m", "text")
_OUTPUTS = Field("output", "Outputs, a line each", "--output", "lines", "percent=10")
ACTIONS: Mapping[str, Action] = {
    each.name: each
    for each in (
        Action(
            "suspend",
            "Suspend",
            "No step starts until the flow is resumed. Jobs that run go on.",
            "JobFlow {name} is being suspended.",
            fields=(Field("abort", "Abort the jobs that run", "--abort", "checkbox"),),
        ),
        Action(
            "resume",
            "Resume",
            "Steps start again. Aborted jobs get a new attempt.",
            "JobFlow {name} is being resumed.",
        ),
        Action(
            "cancel",
            "Cancel",
            "Jobs that run are aborted, steps that have not started are skipped, and the flow is "
            "Failed.",
            "JobFlow {name} is being cancelled.",
            "Before its end, finally runs.",
            (
                Field(
                    "now", "Cancel the finally steps too", "--now", "checkbox", is_of_finally=True
                ),
            ),
            is_dangerous=True,
        ),
        Action(
            "retry",
            "Retry",
            "Steps that failed, or were skipped because of that, run again, and all that depends "
            "on them. Other completed steps stay as they are.",
            "JobFlow {name} is being retried.",
            "Then finally runs again.",
        ),
        Action(
            "retry-tolerated",
            "Retry tolerated",
            "Steps that failed run again, also those whose failure the flow tolerates, and all "
            "that depends on them.",
            "JobFlow {name} is being retried.",
            "Then finally runs again.",
            line="retry --tolerated",
        ),
        Action(
            "resubmit",
            "Resubmit",
            "A new flow with the spec of this one runs from the beginning, or reuses results.",
            "JobFlow {name} created.",
            fields=(
                Field("name", "Name of the new flow", "--name", "text", "a random one"),
                Field("param", "Params to change, a line each", "--param", "lines", "NAME=VALUE"),
                Field("reuse", "Reuse results that have not changed", "--reuse", "checkbox"),
            ),
            previews="reuse",
        ),
        Action(
            "delete",
            "Delete",
            "The flow is deleted, with its jobs, pods and logs.",
            "JobFlow {name} deleted.",
            is_dangerous=True,
        ),
        Action(
            "cancel-and-delete",
            "Cancel and delete",
            "Jobs that run are aborted, and steps that have not started are skipped. When the flow "
            "has ended, it is deleted, with its jobs, pods and logs.",
            "JobFlow {name} deleted.",
            "Before its end, finally runs.",
            is_dangerous=True,
            line="delete --cancel",
            meanwhile="The flow is being cancelled, and is deleted when it has ended. You can "
            "close this dialog, but not end `jobflow ui`.",
        ),
        Action(
            "approve",
            "Approve",
            "",
            "Step {name} is being approved.",
            fields=(_COMMENT, _OUTPUTS),
            has_step=True,
        ),
        Action(
            "reject",
            "Reject",
            "",
            "Step {name} is being rejected.",
            fields=(_COMMENT,),
            has_step=True,
            is_dangerous=True,
        ),
        Action(
            "skip-step",
            "Skip",
            "What runs of it is ended first. What depends on it goes on as if it had completed.",
            "Step {name} is being skipped.",
            fields=(_COMMENT, _OUTPUTS),
            has_step=True,
            line="skip",
            previews="",
        ),
        Action(
            "cancel-step",
            "Give up",
            "What runs of it is ended, and it fails without another attempt.",
            "Step {name} is being given up.",
            fields=(_COMMENT,),
            has_step=True,
            is_dangerous=True,
            line="cancel",
            step_flag="--step ",
            previews="",
        ),
        Action(
            "retry-step",
            "Run again",
            "It runs again, and all that is made of it, with the templates as they are now. What "
            "runs of that is ended first.",
            "Step {name} runs again.",
            fields=(_COMMENT,),
            has_step=True,
            line="retry",
            step_flag="--step ",
            previews="",
        ),
        Action(
            "scale-step",
            "Scale",
            "",
            "Step {name} is being scaled.",
            fields=(Field("parallelism", "Items at once", "--parallelism", "text", "8"), _COMMENT),
            has_step=True,
            line="scale",
            previews="",
        ),
    )
}
BY_HAND_VERBS: Mapping[str, by_hand.StepVerb] = {
    "skip-step": by_hand.SKIP_STEP,
    "cancel-step": by_hand.CANCEL_STEP,
    "retry-step": by_hand.RETRY_STEPS,
    "scale-step": by_hand.SCALE_FLOW,
}
"""The Commands on steps of the actions."""
