"""New flows that take the results of one that has ended."""

from collections.abc import Iterable, Sequence

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS
from jobflow.client.flows.find_flow import raise_unless_missing
from jobflow.client.manifests.flag_values import ReuseChoice, set_generated_name
from jobflow.client.manifests.objects import Manifest
from jobflow.core.admission.object_names import all_names
from jobflow.core.text import printable
from jobflow.kube.client import ApiError, Client


def choice_of(flow: JobFlow, rerun: Sequence[str] = ()) -> ReuseChoice:
    """Return the choice to reuse a flow but for some steps."""
    return ReuseChoice(flow.metadata.name, flow.metadata.uid, rerun)


async def free_name(client: Client, manifests: Iterable[Manifest]) -> str:
    """Let the API server make the name of the only flow if its own is taken, as that of a corrected
    file is. Return a sentence that says so, or ""."""
    for flow in manifests:
        if flow.kind == JOBFLOWS.kind and await is_taken(client, flow.namespace, flow.name):
            set_generated_name(flow)
            name = printable(flow.generate_name)
            return f"the name {name[:-1]} is taken, so the new flow is named {name}<random>"
    return ""


async def is_taken(client: Client, namespace: str, name: str) -> bool:
    """Whether a flow has this name, as far as the user may know. Raises CommandError."""
    if not all_names([name, namespace]):  # a fault, or no name
        return False
    try:
        await client.get(JOBFLOWS, namespace, name, JobFlow)
    except ApiError as error:
        if error.code != 403:  # a user may be allowed to create flows but not to read them
            raise_unless_missing(error)
        return False
    return True
