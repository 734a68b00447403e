"""Whether a flow can reuse another one: that one has ended, and has its volume claims still."""

from collections.abc import Mapping

from jobflow.api.flow.control import Reuse
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.api.resources import JOBFLOWS, OwnerReference
from jobflow.core.text import format_command

Owners = Mapping[str, OwnerReference | None]
"""The controller owner of each volume claim of a flow that exists, by the name of the claim."""
NO_OWNERS: Owners = {}
_ANOTHER = "name another flow of this namespace that has ended, or leave out reuse"


def not_reusable(flow: JobFlow, source: JobFlow | None, owners: Owners = NO_OWNERS) -> str:
    """Return why a flow cannot reuse `source`, which has the name in its spec, and what to do about
    it; "" if it can. `owners`: those of the claims of `source`."""
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
    if why := spent(source, owners):
        return why
    return ""


def spent(flow: JobFlow, owners: Owners) -> str:
    """Return which flow has a volume claim of this one, which can therefore be neither reused nor
    retried, and what to do; "" if none has."""
    for claim, owner in owners.items():
        is_flow = owner is not None and owner.kind == JOBFLOWS.kind
        if owner is not None and is_flow and owner.uid != flow.metadata.uid:
            has = f"its volume claim {claim} is now that of flow {owner.name}"
            return f"flow {flow.metadata.name} is spent: {has}; use flow {owner.name} instead"
    return ""
