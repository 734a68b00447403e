"""PersistentVolumeClaims of a flow, and the volumes of the pods that mount them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jobflow.api import labels
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.resources import JOBFLOWS, VOLUME_CLAIMS
from jobflow.core.cel.expression import EvaluationFailure
from jobflow.core.cel.scope import EvaluationScope, resolve_references
from jobflow.core.json_values import map_at, maps
from jobflow.core.names import (
    claim_names,
    default_claim_names,
    format_other_name,
    qualify_name,
    to_label_value,
)


def movable_claims(flow: JobFlow, source: JobFlow) -> dict[str, str]:
    """Return the names of the PersistentVolumeClaims of a flow that is reused which have equal
    specs in both flows, as these ask for them, by their names in the flow."""
    found = {}
    for claim, name in claim_names(source).items():
        if claim in (flow.spec.volume_claims or ()):
            one, other = claim_spec(flow, claim), claim_spec(source, claim)
            if one == other and not isinstance(one, EvaluationFailure):
                found[claim] = name
    return found


def differing_names(
    flow: JobFlow, moved: Mapping[str, str], others: Iterable[JobFlow], source: JobFlow | None
) -> dict[str, str] | None:
    """Return the `reusedClaims` of a flow that starts. `moved`: the names of claims that it has
    taken; `others`: the flows of its namespace that may have taken claims; `source`: the flow that
    it reuses. A claim of its own gets no name that stands for another one there."""
    taken = set(() if source is None else claim_names(source).values())
    for other in others:
        if other.metadata.uid != flow.metadata.uid:
            taken.update((other.status.reused_claims or {}).values())
    found = {}
    for claim, default in default_claim_names(flow).items():
        own = format_other_name(default, flow.metadata.uid) if default in taken else default
        if (name := moved.get(claim, own)) != default:
            found[claim] = name
    return found or None


def holder_of_claims(flow: JobFlow, others: Iterable[JobFlow]) -> JobFlow | None:
    """Return the flow to which volume claims of this one have moved, because it reuses it directly
    or through others; None if they have not. A flow whose claims have moved is spent: it can
    neither be reused nor go on. `others`: at least the flows of its namespace that
    `may_have_taken` claims."""
    takers = [each for each in others if may_have_taken(each) and _has_taken(each, flow)]
    return next((t for t in takers if not any(_has_taken(each, t) for each in takers)), None)


def may_have_taken(flow: JobFlow) -> bool:
    """Whether volume claims of another flow may have moved to this one."""
    return flow.status.reuse is not None and flow.spec.volume_claims is not None


def why_spent(flow: JobFlow, others: Iterable[JobFlow]) -> str:
    """Return a clause that says which flow has the claims of this one (`holder_of_claims`), or ""
    if it has them itself."""
    holder = holder_of_claims(flow, others)
    return "" if holder is None else f"its volume claims belong to the flow {holder.metadata.name}"


def _has_taken(new: JobFlow, old: JobFlow) -> bool:
    """Whether a claim of the old flow has moved to the new one, also through other flows."""
    names = {*claim_names(old).values()} & {*claim_names(new).values()}
    if not names or new.metadata.uid == old.metadata.uid:
        return False
    if (reuse := new.status.reuse) is not None and reuse.uid == old.metadata.uid:
        return not reuse.moving_claims
    if old.status.reuse is not None and old.status.reuse.uid == new.metadata.uid:
        return False
    # the flow between them is deleted, or the next one
    taken = {*(new.status.reused_claims or {}).values()}
    was, since = old.metadata.creation_timestamp, new.metadata.creation_timestamp
    return bool(names & taken) and was is not None and since is not None and was < since


def build_claim(flow: JobFlow, claim: str) -> dict[str, Any] | EvaluationFailure:
    """Return the manifest of a claim, or a Failure if a reference in it has no value."""
    spec = claim_spec(flow, claim)
    if isinstance(spec, EvaluationFailure):
        return spec
    namespace = flow.metadata.namespace
    created_by = qualify_name(namespace, flow.metadata.name)
    return {
        **VOLUME_CLAIMS.type_meta,
        "metadata": {
            "name": claim_names(flow)[claim],
            "namespace": namespace,
            "labels": {labels.CREATED_BY_FLOW: to_label_value(created_by)},
            "annotations": {labels.CREATED_BY_FLOW: created_by},
            # deleted with the flow, because the controller has no right to delete claims
            "ownerReferences": [JOBFLOWS.owner_reference(flow.metadata)],
        },
        "spec": spec,
    }


def claim_spec(flow: JobFlow, claim: str) -> Any:
    """Return the spec of a claim with the values of its references, which are those to params and
    to the flow, or a Failure."""
    written = (flow.spec.volume_claims or {}).get(claim)
    scope = EvaluationScope(flow, lambda name: None)
    return resolve_references({} if written is None else written, scope)


def with_real_names(spec: Mapping[str, Any], flow: JobFlow) -> dict[str, Any]:
    """Return a vcjob spec with the real names of claims for `<flow>-<claim>`. Shares content."""
    names, defaults = claim_names(flow), default_claim_names(flow)
    real = {default: names[claim] for claim, default in defaults.items()}

    def named(volume: Any, key: str) -> Any:
        name = volume.get(key) if isinstance(volume, dict) else None
        return {**volume, key: real[name]} if isinstance(name, str) and name in real else volume

    found = dict(spec)
    if isinstance(volumes := spec.get("volumes"), list):
        found["volumes"] = [named(each, "volumeClaimName") for each in volumes]
    if isinstance(tasks := spec.get("tasks"), list):
        found["tasks"] = [_with_real_name(each, named) for each in tasks]
    return found


def _with_real_name(task: Any, named: Callable[[Any, str], Any]) -> Any:
    pod = map_at(task, "template", "spec") or {}
    if not isinstance(volumes := pod.get("volumes"), list):
        return task
    key = "persistentVolumeClaim"
    volumes = [
        {**each, key: named(each[key], "claimName")}
        if isinstance(each, dict) and key in each
        else each
        for each in volumes
    ]
    return {**task, "template": {**task["template"], "spec": {**pod, "volumes": volumes}}}


def with_claims(spec: Mapping[str, Any], claims: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a vcjob spec in which each pod has a volume for the claims that its containers mount
    by name, unless it has one. `claims`: as in `claim_names`. Shares content with `spec`, and is
    `spec` itself if nothing is missing."""
    sources = {
        name: {"persistentVolumeClaim": {"claimName": each}} for name, each in claims.items()
    }
    return _with_volumes(spec, sources.get) if sources else spec


def with_placeholders(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of a JobTemplate with an empty volume for each that its containers mount and
    its pods do not have, because a flow may provide it. Shares content with `spec`."""
    # the dry run of a flow has the real volumes, so a flow without the claim is refused
    return _with_volumes(spec, lambda name: {"emptyDir": {}})


def _with_volumes(
    spec: Mapping[str, Any], source: Callable[[str], dict[str, Any] | None]
) -> Mapping[str, Any]:
    tasks = spec.get("tasks")
    if not isinstance(tasks, list):
        return spec
    made: list[Any] = []
    for task in tasks:
        pod = map_at(task, "template", "spec") or {}
        found = ((name, source(name)) for name in _unprovided(pod))
        added = [{"name": name, **volume} for name, volume in found if volume is not None]
        if added:
            volumes = [*(pod.get("volumes") or ()), *added]
            pod = {**pod, "volumes": volumes}
            task = {**task, "template": {**task["template"], "spec": pod}}
        made.append(task)
    is_same = all(new is old for new, old in zip(made, tasks, strict=True))
    return spec if is_same else {**spec, "tasks": made}


def mounted_claims(spec: Mapping[str, Any], claims: Mapping[str, str]) -> list[str]:
    """Return the claims of the flow that a vcjob mounts, or that a child flow has among its params,
    by their name in the flow, in order."""
    # a template may name a claim of the flow by its full name
    used = {str(each.get("volumeClaimName")) for each in maps(spec.get("volumes"))}
    used |= {str(each.get("value")) for each in maps(spec.get("params"))}
    for task in maps(spec.get("tasks")):
        for volume in maps((map_at(task, "template", "spec") or {}).get("volumes")):
            source = volume.get("persistentVolumeClaim")
            if isinstance(source, dict):
                used.add(str(source.get("claimName")))
    return [claim for claim, name in claims.items() if name in used]


def unprovided_volumes(spec: Mapping[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """Yield the index of each task with mounts of volumes that its pods lack, and their names."""
    tasks = spec.get("tasks")
    for i, task in enumerate(tasks if isinstance(tasks, list) else ()):
        if names := _unprovided(map_at(task, "template", "spec") or {}):
            yield i, names


def _unprovided(pod: Mapping[str, Any]) -> list[str]:
    mounted: dict[str, None] = {}
    for container in (*maps(pod.get("initContainers")), *maps(pod.get("containers"))):
        # lists whose entries name a volume of the pod
        for mount in (*maps(container.get("volumeMounts")), *maps(container.get("volumeDevices"))):
            if isinstance(name := mount.get("name"), str) and name:
                mounted[name] = None
    if not mounted:
        return []
    volumes = pod.get("volumes")
    # the API server refuses it, so nothing is added
    if volumes is not None and not isinstance(volumes, list):
        return []
    provided = {str(each.get("name")) for each in maps(volumes)}
    return [name for name in mounted if name not in provided]
