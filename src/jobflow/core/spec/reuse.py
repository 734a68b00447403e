"""Whether a flow can reuse another one: that one has ended, and still has its volume claims."""

from typing import NamedTuple

from jobflow.api.flow.control import Reuse
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase, StepPhase
from jobflow.core.text import format_command

_NAME_ANOTHER = "name another flow of this namespace that has ended, or leave out reuse"


class Obstacle(NamedTuple):
    """Why a flow cannot be reused, as a clause, and what to do about it."""

    why: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.why}; {self.remedy}"


def find_obstacle(flow: JobFlow, source: JobFlow | None, spent: str = "") -> Obstacle | None:
    """Return why a flow cannot reuse `source`, which has the name in its spec; None if it can.
    `spent`: why the claims of `source` are no longer its own (`why_spent`)."""
    reuse = flow.spec.reuse or Reuse()
    name = f"flow {reuse.flow}"
    if source is None:
        return Obstacle(f"{name} does not exist", _NAME_ANOTHER)
    meta = source.metadata
    if reuse.uid and meta.uid != reuse.uid:
        why = f"{name} has the UID {meta.uid}, so it is another flow of this name"
        return Obstacle(why, "leave out uid to reuse it nevertheless")
    if meta.deletion_timestamp is not None:
        return Obstacle(f"{name} is being deleted", _NAME_ANOTHER)
    if not source.final:
        phase = source.status.state.phase or FlowPhase.PENDING
        cancel = format_command("jobflow cancel", meta)
        return Obstacle(f"{name} is {phase}", f"wait until it has ended, or cancel it ({cancel})")
    if spent:
        return Obstacle(f"{name} is spent, because {spent}", "name that one instead")
    return None


def lacks_fingerprints(flow: JobFlow) -> bool:
    """Whether no result of a flow can be compared, because its status is from an earlier version of
    JobFlow, or had no room."""
    conditions = (flow.status.conditions or {}).values()
    runs = [run for each in conditions for run in each.runs or (each,)]
    results = [run for run in runs if run.phase == StepPhase.COMPLETED and run.job]
    return bool(results) and not any(run.fingerprint for run in results)
