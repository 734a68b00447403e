"""Keeps the pods of a vcjob off nodes, by node affinity merged with what is there. It judges none.

What has a shape that Kubernetes would refuse is left as it is, for the API server to refuse it in
its own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def keep_off(spec: dict[str, Any], nodes: Sequence[str]) -> None:
    """Have every task's pods stay off `nodes`. `spec`: a vcjob's, changed in place."""
    for task in maps(spec.get("tasks")):
        template = task.get("template")
        pod = template.get("spec") if isinstance(template, dict) else None
        if isinstance(pod, dict):
            _keep_off(pod, nodes)


def _keep_off(pod: dict[str, Any], nodes: Sequence[str]) -> None:
    affinity = inner(pod, "affinity")
    node = None if affinity is None else inner(affinity, "nodeAffinity")
    required = None if node is None else inner(node, _REQUIRED)
    if required is None:
        return
    if required.get("nodeSelectorTerms") is None:
        required["nodeSelectorTerms"] = []
    terms = required["nodeSelectorTerms"]
    if not isinstance(terms, list):
        return
    avoided = {"key": HOSTNAME, "operator": "NotIn", "values": list(nodes)}
    if not terms:
        terms.append({"matchExpressions": [avoided]})
        return
    for term in maps(terms):  # one of them is enough for a node, so each has to say it
        expressions = term.get("matchExpressions") or []
        if term and isinstance(expressions, list):  # an empty term is no node's
            term["matchExpressions"] = [*expressions, dict(avoided)]


def inner(value: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The map at a key, made where there is none; None where something else is there."""
    if value.get(key) is None:
        value[key] = {}
    found = value[key]
    return found if isinstance(found, dict) else None


def maps(value: Any) -> list[dict[str, Any]]:
    """The maps of a list; none if it is something else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
