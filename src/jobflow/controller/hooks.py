"""The hooks that the controller calls about its work, which metrics override, and the judge that it
asks about flows that may have been stored without review, before their first plan."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import JobFlowStatus
from jobflow.core.planning.plan import judge
from jobflow.core.violations import Violation
from jobflow.kube.write_order import WriteOrder


class NotJudgedYet(Exception):
    """A flow could not be judged now; the text says why."""


Judge = Callable[[JobFlow], Awaitable[Sequence[Violation]]]
"""Returns the violations of a flow. Raises NotJudgedYet."""


async def judge_here(flow: JobFlow) -> Sequence[Violation]:
    """Judge a flow of any size at once."""
    return judge(flow) or ()


class ReconcileResult(StrEnum):
    """Result of one reconcile."""

    DONE = "done"
    REQUEUED = "requeued"
    RETRIED = "retried"


class Hooks:
    """Called by the parts of the controller; does nothing. Must not raise and must not wait."""

    def ordered_by(self, order: WriteOrder) -> None:
        """From now on, the writes of the controller take turns in this order."""

    def depth(self, keys: int) -> None:
        """`keys` keys are ready and not yet taken."""

    def waited(self, seconds: float) -> None:
        """A key was ready for `seconds` before it was taken."""

    def retried(self) -> None:
        """A key was put in backoff after an error."""

    def reconciled(self, seconds: float, result: ReconcileResult) -> None:
        """A reconcile has finished."""

    def event_dropped(self) -> None:
        """An Event was not written: there were too many, or it was refused."""

    def recorded(self, before: JobFlowStatus, after: JobFlowStatus) -> None:
        """This replica wrote a flow's status."""

    def status_overwritten(self, writer: str) -> None:
        """Somebody else, with this field manager, wrote over the status of a flow."""

    def probes(self, waiting: int) -> None:
        """`waiting` probes have not passed yet."""

    def probed(self, passed: bool) -> None:
        """A pod was checked once."""
