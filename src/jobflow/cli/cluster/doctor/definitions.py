"""Checks of the CustomResourceDefinitions: JobFlow's own, and those of Volcano that it needs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from jobflow.api.kinds import KINDS, FlowKind
from jobflow.api.resources import COMMANDS, CRDS, JOBS, POD_GROUPS, QUEUES
from jobflow.cli.cluster.doctor.cluster import Cluster, Json, Result, fault, ok, warning
from jobflow.core.manifests.installed_crds import definition_faults
from jobflow.core.text import join_names

APPLY = "Run `jobflow crds --apply`."
_INSTALL_VOLCANO = "Install Volcano, or its definitions (docs/operations.md, Requirements)."


async def check_definitions(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that JobFlow's kinds are served, by definitions that fit this version."""
    missing = [kind for kind in KINDS.values() if not await cluster.serves(kind.resource)]
    for kind in missing:
        yield fault(f"The cluster does not serve {kind.crd_name}.", APPLY)
    for kind in KINDS.values():
        if kind not in missing:
            definition = await cluster.read(CRDS, "", kind.crd_name)
            yield describe_definition(kind, definition or {})


def describe_definition(kind: FlowKind, definition: Json) -> Result:
    """Return whether a stored definition fits this version."""
    name = kind.crd_name
    conditions = (definition.get("status") or {}).get("conditions") or ()
    for each in conditions:
        if each.get("type") == "NamesAccepted" and each.get("status") == "False":
            remedy = "Remove the other definition that has these names."
            return fault(f"{name} is not served: {each.get('message', '')}.", remedy)
    faults = definition_faults(kind.name, definition)
    if not faults:
        return ok(f"{name} fits this version.")
    # Only Volcano's definition has defaults for jobs.
    replaced = any(each.endswith("has a default") for each in faults)
    why = "is Volcano's, not JobFlow's" if replaced else "is older than this version"
    return fault(f"{name} {why}: {join_names(faults)}.", APPLY)


async def check_volcano(cluster: Cluster) -> AsyncIterator[Result]:
    """Check that Volcano's kinds are served."""
    needed = (JOBS, QUEUES, COMMANDS)
    missing = [each.qualified for each in needed if not await cluster.serves(each)]
    if missing:
        yield fault(f"The cluster does not serve {join_names(missing)}.", _INSTALL_VOLCANO)
    else:
        yield ok("Volcano's jobs, queues and commands are served.")
    if not missing and not await cluster.serves(POD_GROUPS):
        yield warning(
            f"The cluster does not serve {POD_GROUPS.qualified}, so `jobflow why` cannot explain "
            "why a job waits for Volcano.",
            "The sandbox has none; on a cluster, install Volcano's definitions.",
        )
