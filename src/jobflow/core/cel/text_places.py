"""Where in a vcjob's spec Kubernetes and Volcano know only texts. It looks at no values.

Source: k8s.io/api/core/v1 PodSpec and batch.volcano.sh/v1alpha1 JobSpec. A number that stands there
is refused by the API server, so a reference to one is written out there.
"""

from __future__ import annotations

_FIELDS = frozenset(
    """
    claimName clusterIP containerName fieldPath hostIP hostname image imagePullPolicy key
    medium minTimeAvailable mountPath mountPropagation name namespace nodeName operator path
    preemptionPolicy priorityClassName queue resource restartPolicy runningEstimate
    runtimeClassName schedulerName secretName serviceAccount serviceAccountName storageClassName
    subPath subPathExpr subdomain terminationMessagePath terminationMessagePolicy topologyKey value
    volumeClaimName volumeName workingDir
    """.split()
)
"""Fields that are texts wherever they stand."""
_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector", "parameters"})
"""Maps of texts."""
_LISTS = frozenset({"args", "command", "hostnames", "nameservers", "searches", "values"})
"""Lists of texts."""


def holds_text(key: str | int, own: str, around: str) -> bool:
    """Whether what stands at `key` of a map or list is a text in any case. `own`: the field that
    the map or list is; `around`: the one that this is in."""
    if isinstance(key, int):
        return own in _LISTS or around == "plugins"
    return own in _MAPS or key in _FIELDS
