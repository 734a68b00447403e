"""`jobflow crds`: prints the CustomResourceDefinitions, or applies them to a cluster."""

import asyncio
import json
import sys
import time

import msgspec

from jobflow.api.crd import crd, to_yaml
from jobflow.api.kinds import KINDS
from jobflow.api.resources import CRDS
from jobflow.client.errors import FAILED, SUCCESS, CommandError, unreachable
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client

FIELD_MANAGER = "jobflow-crds"
APPLY_PATCH = "application/apply-patch+yaml"
SERVED_WITHIN_SECONDS = 30.0
POLL_SECONDS = 0.2


def print_crds() -> int:
    # no kubeconfig is read, so that they can be piped from anywhere
    sys.stdout.write("---\n".join(to_yaml(crd(kind)) for kind in KINDS))
    return SUCCESS


async def apply_crds(kubeconfig: str | None) -> int:
    """Apply the definitions and wait until they are served."""
    # by force: an older schema of another field manager would prune fields of flows
    query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
    try:
        async with await Client.from_kubeconfig(kubeconfig) as client:
            for manifest in map(crd, KINDS):
                name = manifest["metadata"]["name"]
                body = msgspec.json.encode(manifest)
                await client.patch(CRDS, "", name, body, content_type=APPLY_PATCH, query=query)
                await _until_served(client, name)
                print(f"customresourcedefinition.apiextensions.k8s.io/{name} applied")
    except ApiError as error:
        raise CommandError(FAILED, str(error)) from None
    except NETWORK_ERRORS as error:
        raise CommandError(FAILED, unreachable(error)) from None
    return SUCCESS


async def _until_served(client: Client, name: str) -> None:
    """Return once the kind is served. Raises CommandError if its names are taken or after 30 s."""
    deadline = time.monotonic() + SERVED_WITHIN_SECONDS
    while True:
        definition = json.loads(await client.request("GET", CRDS.path("", name)))
        listed = (definition.get("status") or {}).get("conditions")
        conditions = {condition["type"]: condition for condition in listed or ()}
        # two definitions with the same plural: the second is never served
        if (names := conditions.get("NamesAccepted", {})).get("status") == "False":
            raise CommandError(FAILED, f"{name} is not served: {names.get('message', '')}")
        if conditions.get("Established", {}).get("status") == "True":
            return
        if time.monotonic() > deadline:
            after = f"{SERVED_WITHIN_SECONDS:.0f} s after it was applied"
            raise CommandError(FAILED, f"{name} is not served {after}")
        await asyncio.sleep(POLL_SECONDS)
