"""Rights of users on flows in a namespace of the real API server."""

from __future__ import annotations

from collections.abc import Sequence

from support.cluster.real_cluster import RealCluster

GROUP = "rbac.authorization.k8s.io"


def allow(
    real: RealCluster,
    namespace: str,
    user: str,
    verbs: Sequence[str],
    *,
    commands: bool = True,
    crons: Sequence[str] = (),
) -> None:
    """Let the user use these verbs on flows of the namespace, and on `crons`, its CronJobFlows, and
    create `commands`."""
    rules = [
        {"apiGroups": ["flow.volcano.sh"], "resources": ["jobflows"], "verbs": [*verbs]},
        {"apiGroups": ["flow.volcano.sh"], "resources": ["cronjobflows"], "verbs": [*crons]},
    ]
    if commands:
        rules.append(
            {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]}
        )
    rules = [rule for rule in rules if rule["verbs"]]
    head = {"apiVersion": f"{GROUP}/v1", "metadata": {"name": user}}
    subject = {"apiGroup": GROUP, "kind": "User", "name": user}
    role = {"apiGroup": GROUP, "kind": "Role", "name": user}
    for plural, body in (
        ("roles", {**head, "kind": "Role", "rules": rules}),
        ("rolebindings", {**head, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}),
    ):
        path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{plural}"
        real.admin.post(path, json=body).raise_for_status()
