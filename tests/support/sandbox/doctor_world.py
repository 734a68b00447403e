"""A sandbox with what `jobflow doctor` also reads on a real API server, and changes to it."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from jobflow.api.resources import (
    DEPLOYMENTS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from jobflow.app.sandbox_world import SandboxWorld
from jobflow.sandbox.apiserver.kinds import Kind, Object, Rules
from jobflow.sandbox.apiserver.requests.failures import failure
from support.sandbox.api_server import InjectedFault
from support.sandbox.recorded_world import server_of
from support.sandbox.running_controller import merge

Doctor = Callable[..., Awaitable[dict[str, list[str]]]]
"""Returns `STATUS: MESSAGE | REMEDY` by check; fails if the exit code does not fit."""

CONFIGURATION = "jobflow"


@dataclass
class Reviews(Rules):
    """SelfSubjectAccessReviews: everything is allowed but these rights, as `VERB RESOURCE`."""

    denied: set[str] = field(default_factory=set)

    def complete(self, obj: Object, old: Object | None = None) -> list[str]:
        asked = obj["spec"]["resourceAttributes"]
        obj.setdefault("metadata", {})["name"] = str(uuid4())
        obj["status"] = {"allowed": f"{asked['verb']} {asked['resource']}" not in self.denied}
        return []


REVIEWS = Reviews()


def serve(world: SandboxWorld, resource: Resource, rules: Rules) -> None:
    """Serve a kind of real API servers that the sandbox does not have."""
    world.server.registry.serve(
        Kind(
            group=resource.group,
            version=resource.version,
            plural=resource.plural,
            kind=resource.kind,
            namespaced=resource.namespaced,
            rules=rules,
        )
    )


async def prepared(world: SandboxWorld) -> SandboxWorld:
    REVIEWS.denied.clear()
    serve(world, SELF_SUBJECT_ACCESS_REVIEWS, REVIEWS)
    serve(world, DEPLOYMENTS, Rules())
    await create(world, DEPLOYMENTS, deployment("controller", OFF))
    await create(world, DEPLOYMENTS, deployment("scheduler"))
    return world


OFF = "--controllers=*,-sharding-controller,-jobflow-controller,-jobtemplate-controller"


def deployment(name: str, *arguments: str, available: int = 1) -> dict[str, Any]:
    pod = {"containers": [{"name": "main", "args": ["--logtostderr", *arguments]}]}
    return {
        "apiVersion": DEPLOYMENTS.api_version,
        "kind": DEPLOYMENTS.kind,
        "metadata": {
            "name": f"volcano-{name}",
            "namespace": "kube-system",
            "labels": {"app": f"volcano-{name}"},
        },
        "spec": {"template": {"spec": pod}},
        "status": {"availableReplicas": available},
    }


async def create(world: SandboxWorld, resource: Resource, obj: dict[str, Any]) -> None:
    namespace = obj["metadata"].get("namespace", "")
    await world.client.create(resource, namespace, json.dumps(obj).encode())


async def change_webhooks(world: SandboxWorld, **client: Any) -> None:
    """Merge fields into the clientConfig of each of JobFlow's webhooks."""
    raw = await world.client.request("GET", VALIDATING_WEBHOOKS.path("", CONFIGURATION))
    webhooks = json.loads(raw)["webhooks"]
    for webhook in webhooks:
        webhook["clientConfig"] |= client
    changes = {"webhooks": webhooks}
    await merge(world.client, VALIDATING_WEBHOOKS, CONFIGURATION, changes, namespace="")


def forbid(world: SandboxWorld, end: str) -> None:
    refusal = failure(403, "Forbidden", "alice must not")
    server_of(world).faults.append(
        InjectedFault(lambda request: request.path.endswith(end), refusal, times=None)
    )
