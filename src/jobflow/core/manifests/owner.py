"""The owner reference of the objects that a flow creates."""

from typing import Any

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.meta import ObjectMeta
from jobflow.api.resources import JOBFLOWS
from jobflow.core.names import to_label_value


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


def root_label(flow: JobFlow) -> str:
    """Return the label value that names the outermost flow of a flow; its own name if it is no
    child."""
    if flow.is_child:
        return (flow.metadata.labels or {}).get(labels.ROOT, "")
    return to_label_value(flow.metadata.name)


def root_of(flow: JobFlow) -> ObjectMeta:
    """Return name and namespace of the outermost flow of a flow, which is the one to retry."""
    return ObjectMeta(name=root_label(flow), namespace=flow.metadata.namespace)
