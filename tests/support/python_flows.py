"""Flows in Python, and what is wrong with them."""

from jobflow.authoring import Flow, InvalidFlow
from jobflow.authoring.objects.faults import Fault


def faults_of(flow: Flow) -> list[Fault]:
    """Return the faults of a flow, in the order of its lines."""
    try:
        flow.lint()
    except InvalidFlow as error:
        return error.faults
    return []
