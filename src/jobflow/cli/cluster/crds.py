"""`jobflow crds`: the CustomResourceDefinitions, printed or applied. api.crd writes them."""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec

from jobflow.api.kinds import KINDS
from jobflow.api.meta import Struct
from jobflow.api.resources import CRDS
from jobflow.api.schema.crd import crd, to_yaml
from jobflow.cli.exit_codes import FAULTY, FINE, UNUSABLE, complain
from jobflow.kube.client import NETWORK_ERRORS, ApiError, Client
from jobflow.kube.credentials import ConfigError

FIELD_MANAGER = "jobflow-crds"
APPLY_PATCH = "application/apply-patch+yaml"
ESTABLISHED_WITHIN_SECONDS = 30.0
LOOK_AGAIN_SECONDS = 0.2


class Condition(Struct, frozen=True, kw_only=True):
    """One entry of a CustomResourceDefinition's `status.conditions`."""

    type: str = ""
    status: str = ""
    message: str = ""


class DefinitionStatus(Struct, frozen=True, kw_only=True):
    """`status` of a CustomResourceDefinition, as far as it says whether the kind is served."""

    conditions: list[Condition] | None = None
    """null until the server has looked at the definition."""


class Definition(Struct, frozen=True, kw_only=True):
    """`apiextensions.k8s.io/v1` CustomResourceDefinition."""

    status: DefinitionStatus = msgspec.field(default_factory=DefinitionStatus)


class NotEstablished(Exception):
    """A definition is stored, and yet its kind is not served. The text says which and why."""


def crds() -> int:
    """Print both, as two documents."""
    sys.stdout.write("---\n".join(to_yaml(crd(kind)) for kind in KINDS))
    return FINE


def apply(kubeconfig: str | None) -> int:
    """Apply both and wait until they are served: 0; 1 where the cluster does not take them, 2
    where there is no cluster to ask."""
    from jobflow.runtime.event_loop import run

    try:
        run(_apply(kubeconfig))
    except ConfigError as error:
        complain("crds", str(error))
        return UNUSABLE
    except (ApiError, NotEstablished) as error:
        complain("crds", str(error))
    except NETWORK_ERRORS as error:
        complain("crds", f"the API server does not answer: {str(error) or type(error).__name__}")
    else:
        return FINE
    return FAULTY


async def _apply(kubeconfig: str | None) -> None:
    """Server-side apply by a manager of its own; fields that others hold become ours, for an older
    schema of theirs would prune what flows say. What only others set stays as it is."""
    query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
    async with await Client.from_kubeconfig(kubeconfig) as client:
        for manifest in map(crd, KINDS):
            name = manifest["metadata"]["name"]
            body = msgspec.json.encode(manifest)
            await client.patch(CRDS, "", name, body, content_type=APPLY_PATCH, query=query)
            await _established(client, name)
            print(f"customresourcedefinition.apiextensions.k8s.io/{name} applied")


async def _established(client: Client, name: str) -> None:
    """Return once the kind is served. Raises NotEstablished."""
    deadline = time.monotonic() + ESTABLISHED_WITHIN_SECONDS
    while True:
        status = (await client.get(CRDS, "", name, Definition)).status
        conditions = {each.type: each for each in status.conditions or ()}
        if (names := conditions.get("NamesAccepted")) and names.status == "False":
            raise NotEstablished(f"{name} is not served: {names.message}")
        if (established := conditions.get("Established")) and established.status == "True":
            return
        if time.monotonic() > deadline:
            raise NotEstablished(
                f"{name} is not served {ESTABLISHED_WITHIN_SECONDS:.0f} s after it was applied"
            )
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
