"""A vcjob as it is on the cluster, as YAML."""

from __future__ import annotations

import io
import json

from jobflow.api.resources import JOBS
from jobflow.client.manifests.write_yaml import write_yaml
from jobflow.core.admission.object_names import all_names
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.errors import describe_network_error


async def read_job(client: Client, namespace: str, name: str) -> str:
    """Return the YAML of a vcjob, or a sentence that it cannot be read."""
    if not all_names([namespace, name]):
        return "There is no such job.\n"
    try:
        job = json.loads(await client.request("GET", JOBS.path(namespace, name)))
    except ApiError as error:
        if error.not_found:
            return f"Job {name} is deleted.\n"
        if error.code == 403:
            return f'You may not get {JOBS.qualified} in namespace "{namespace}": {error.message}\n'
        return f"Job {name} cannot be read: {error.message}\n"
    except NETWORK_ERRORS as error:
        return f"The cluster does not answer: {describe_network_error(error)}\n"
    job["metadata"].pop("managedFields", None)
    text = io.StringIO()
    write_yaml([job], text)
    return text.getvalue()
