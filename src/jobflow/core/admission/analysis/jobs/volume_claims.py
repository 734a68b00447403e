"""The claims in volumeClaims of a flow, each with the faults of its spec."""

from typing import Any, NamedTuple

from jobflow.api.flow.jobflow import JobFlow
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.manifests.job_fields import claim_type, misfits
from jobflow.core.manifests.volume_claims import claim_spec
from jobflow.core.violations import Verdict, join_path


class VolumeClaim(NamedTuple):
    """A claim in volumeClaims."""

    name: str
    path: str
    """JSON path in the flow."""
    written: Any
    spec: Any
    """The spec with the values of its references, or a Failure if one has no value."""
    misfits: Verdict | None
    """Fields and values that no claim has; None if a reference has no value."""


def list_claims(flow: JobFlow) -> list[VolumeClaim]:
    """Return the claims of a flow, in the order in which they are written."""
    found = []
    for name, written in (flow.spec.volume_claims or {}).items():
        path, spec = join_path("spec.volumeClaims", name), claim_spec(flow, name)
        known = not isinstance(spec, EvaluationFailure)
        of_claim = misfits(spec, path, kind=claim_type()) if known else None
        found.append(VolumeClaim(name, path, written, spec, of_claim))
    return found
