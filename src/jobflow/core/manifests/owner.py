"""The owner reference of the objects that a flow creates."""

from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS


def owner_reference(flow: JobFlow) -> dict[str, Any]:
    """Return the reference by which an object is deleted with its flow, and before it."""
    return {
        "apiVersion": JOBFLOWS.api_version,
        "kind": JOBFLOWS.kind,
        "name": flow.metadata.name,
        "uid": flow.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
