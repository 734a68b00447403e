"""Whether a flow can reuse another one: that one has ended, and still has its volume claims."""

from jobflow.api.flow.control import Reuse
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.core.text import format_command

_ANOTHER = "name another flow of this namespace that has ended, or leave out reuse"


def not_reusable(flow: JobFlow, source: JobFlow | None, spent: str = "") -> str:
    """Return why a flow cannot reuse `source`, which has the name in its spec, and what to do about
    it; "" if it can. `spent`: why the claims of `source` are no longer its own (`why_spent`)."""
    reuse = flow.spec.reuse or Reuse()
    if source is None:
        return f"flow {reuse.flow} does not exist; {_ANOTHER}"
    meta = source.metadata
    if reuse.uid and meta.uid != reuse.uid:
        what = f"flow {reuse.flow} has the UID {meta.uid}, so it is another flow of this name"
        return f"{what}; leave out uid to reuse it nevertheless"
    if meta.deletion_timestamp is not None:
        return f"flow {reuse.flow} is being deleted; {_ANOTHER}"
    if not source.final:
        phase = source.status.state.phase or FlowPhase.PENDING
        cancel = format_command("jobflow cancel", meta)
        return f"flow {reuse.flow} is {phase}; wait until it has ended, or cancel it ({cancel})"
    if spent:
        return f"flow {reuse.flow} is spent, because {spent}; name that one instead"
    return ""
