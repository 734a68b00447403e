"""The judge of flows that may have been stored without review, before their first plan."""

from collections.abc import Awaitable, Callable, Sequence

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.planning.plan import judge
from jobflow.core.violations import Violation


class NotJudgedYet(Exception):
    """A flow could not be judged now; the text says why."""


Judge = Callable[[JobFlow], Awaitable[Sequence[Violation]]]
"""Returns the violations of a flow. Raises NotJudgedYet."""


async def judge_here(flow: JobFlow) -> Sequence[Violation]:
    """Judge a flow of any size at once."""
    return judge(flow) or ()
