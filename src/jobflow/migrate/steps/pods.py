"""Templates with containers as the job of a step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from jobflow.client.manifests.yaml_nodes import MappingNode, data_of, documents
from jobflow.core.manifests.strategic_merge import merge
from jobflow.migrate.context import Context
from jobflow.migrate.expressions.parse import split_tags
from jobflow.migrate.expressions.values import Kind, Ref, as_json, literal
from jobflow.migrate.fields import Field
from jobflow.migrate.steps.parameters import SHELLS, OutputPlan, add_outputs

# Fields of a template that a pod has too.
_POD_FIELDS = (
    *("affinity", "automountServiceAccountToken", "hostAliases", "nodeSelector", "resourceClaims"),
    *("priorityClassName", "securityContext", "serviceAccountName", "tolerations"),
)
_WORKFLOW_POD_FIELDS = (
    *(name for name in _POD_FIELDS if name != "priorityClassName"),
    *("dnsConfig", "dnsPolicy", "hostNetwork", "imagePullSecrets"),
)
_WITH_C = ("python", "python2", "python3", "pypy", "pypy3")
_WITH_E = ("node", "nodejs", "ruby", "perl", "lua", "Rscript", "php")
# The flag with which an interpreter takes a program as an argument.
_INLINE = {
    **dict.fromkeys(SHELLS, "-c"),
    **dict.fromkeys(_WITH_C, "-c"),
    **dict.fromkeys(_WITH_E, "-e"),
    **dict.fromkeys(("pwsh", "powershell"), "-Command"),
    "php": "-r",
}


@dataclass(slots=True)
class PodSource:
    template: Field
    workflow: Field
    context: Context
    outputs: OutputPlan

    @property
    def owners(self) -> tuple[Field, Field]:
        """The workflow and the template, whose fields take precedence."""
        return self.workflow, self.template


def placeholder(reason: str) -> dict[str, Any]:
    """Return the body of a step that has no equal. It fails, so that nobody overlooks it."""
    text = json.dumps(f"not converted: {reason}")
    return {"container": {"image": "busybox", "command": ["sh", "-c", f"echo {text}; exit 1"]}}


def job_of(source: PodSource) -> dict[str, Any]:
    """Return the fields of a step for a container, script or containerSet."""
    template = source.template
    containers, init = list[dict[str, Any]](), [*_init_containers(source)]
    if (own := template.get("container")) is not None:
        container = _container(source, own)
        add_outputs(container, source.outputs, own.get("command") or own)
        containers = [container]
    elif (own := template.get("script")) is not None:
        containers = [_script(source, own)]
    elif (own := template.get("containerSet")) is not None:
        set_init, containers = _container_set(source, own)
        init += set_init
    if not containers:
        template.gap("the template has no container")
        return placeholder("no container")
    if source.context.draft.needs_pod_name:
        name = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
        for each in containers:
            each["env"] = [*each.get("env", ()), name]
    pod = _pod_fields(source)
    volumes = {"volumes": found} if (found := [*_volumes(source, [*init, *containers])]) else {}
    metadata: dict[str, Any] = {}
    # Those of the template are added to those of the workflow.
    own_metadata = (*source.workflow.present("podMetadata"), *template.present("metadata"))
    for owner, key in product(own_metadata, ("labels", "annotations")):
        for value in owner.present(key):
            if value.is_map:
                metadata[key] = metadata.get(key, {}) | source.context.data(value)
    # A container alone is shorter to read, but has no fields of the pod around it.
    if not (pod or init or len(containers) > 1 or metadata):
        body: dict[str, Any] = {"container": containers[0]} | volumes
    else:
        # As a container alone: only retry of the step starts it again.
        spec = {"restartPolicy": "Never", **pod}
        if init:
            spec["initContainers"] = [{"name": f"init-{i}"} | each for i, each in enumerate(init)]
        spec |= {"containers": [{"name": "main"} | each for each in containers]} | volumes
        described = {"metadata": metadata} if metadata else {}
        body = {"jobSpec": {"tasks": [{"template": described | {"spec": spec}}]}}
    if patch := _pod_spec_patch(source):
        body["patch"] = {"jobSpec": {"tasks": [{"template": {"spec": patch}}]}}
    return body


def _script(source: PodSource, script: Field) -> dict[str, Any]:
    program = script.get("source")
    rest = _container(source, script, without="source")
    command = rest.get("command") or []
    text = () if program is None else source.context.text(program)
    # Argo writes a script to a file, in which Kubernetes replaces nothing.
    kept = (each.replace("$$", "$$$$") if isinstance(each, str) else each for each in text)
    rest["args"] = [source.context.render(tuple(kept))]
    name = str(command[0]).rpartition("/")[2] if command else ""
    # python3.12 takes a program as python3 does.
    flag = _INLINE.get(name.rstrip("0123456789.") if name not in _INLINE else name)
    if flag is None:
        script.gap(
            f'the interpreter "{name}" is not known: set command so that it runs a program that '
            "is given as an argument"
        )
    else:
        rest["command"] = [*command, flag]
    add_outputs(rest, source.outputs, script.get("command") or script)
    return {key: rest[key] for key in ("image", "command", "args") if key in rest} | rest


def _container(source: PodSource, own: Field, without: str = "") -> dict[str, Any]:
    """Return a container; what has the wrong type is reported and left out."""
    found: dict[str, Any] = {}
    if not own.is_map:
        own.gap("must be a map")
    # Wrong types are reported here, because lint sees only the result.
    for key, value in own.entries():
        own.get(key)
        if key == without:
            continue
        if key in ("args", "command", "env", "volumeMounts") and not value.is_list:
            value.gap("must be a list")
        else:
            found[key] = source.context.data(value)
    return found


def _container_set(
    source: PodSource, container_set: Field
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return init containers and containers: those on which others depend run one by one."""
    mounts = container_set.get("volumeMounts")
    shared = source.context.data(mounts) if mounts is not None and mounts.is_list else []
    listed = {each.text_of("name"): each for each in container_set.listed("containers")}
    left = {name: {e.text for e in each.listed("dependencies")} for name, each in listed.items()}
    needed = set[str]().union(*left.values())
    if needed and len(listed) > 2:
        container_set.check(
            "the containers on which others depend run one by one, as init containers"
        )
    made: dict[str, dict[str, Any]] = {}
    while left:
        ready = [name for name, needs in left.items() if not needs & {*left} - {name}]
        # Containers that wait for each other keep their order.
        for name in ready or [*left]:
            del left[name]
            own = _container(source, listed[name], without="dependencies")
            if shared and mounts is not None:
                mounts.findings.budget.spend(mounts.node.size)
                own["volumeMounts"] = [*own.get("volumeMounts", ()), *shared]
            made[name] = own
    if retry := container_set.get("retryStrategy"):
        retry.gap("containers of a pod have no retries of their own: set retry of the step")
    last = [each for name, each in made.items() if name not in needed]
    # Outputs are those of the first container, which is main if there is one.
    last.sort(key=lambda each: each.get("name") != "main")
    if last:
        add_outputs(last[0], source.outputs, container_set)
    return [each for name, each in made.items() if name in needed], last


def _init_containers(source: PodSource) -> Iterator[dict[str, Any]]:
    """Yield sidecars and init containers; a sidecar is an init container that is restarted."""
    for key in ("sidecars", "initContainers"):
        for each in source.template.listed(key):
            made = _container(source, each)
            if made.pop("mirrorVolumeMounts", None) is True:
                kinds = ("container", "script")
                own = (source.template.at(kind, "volumeMounts") for kind in kinds)
                mounts = next((each for each in own if each is not None and each.is_list), None)
                mirrored = source.context.data(mounts) if mounts is not None else []
                made["volumeMounts"] = [*made.get("volumeMounts", ()), *mirrored]
            # Kubernetes restarts it while the containers run, and stops it after them.
            if key == "sidecars":
                each.check(
                    "becomes an init container with restartPolicy Always, which starts first"
                )
                made["restartPolicy"] = "Always"
            yield made


def _pod_fields(source: PodSource) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = (_WORKFLOW_POD_FIELDS, _POD_FIELDS)
    for owner, own_names in zip(source.owners, names, strict=True):
        for name in own_names:
            for value in owner.present(name):
                found[name] = source.context.data(value)
    for owner in source.owners:
        for resources in owner.present("podResources"):
            found["resources"] = source.context.data(resources)
        for scheduler in owner.present("schedulerName"):
            scheduler.note("is left out: Volcano schedules the jobs")
    for priority in source.workflow.present("podPriorityClassName"):
        found.setdefault("priorityClassName", source.context.data(priority))
    return found


def _pod_spec_patch(source: PodSource) -> dict[str, Any]:
    """Return the patches of the workflow and the template as one; JSON or YAML in a text."""
    found: dict[str, Any] = {}
    context = source.context
    for patch in (each for owner in source.owners for each in owner.present("podSpecPatch")):
        pieces, written = split_tags(patch.text), ""
        for i, piece in enumerate(pieces):
            if i % 2 == 0:
                written += piece
                continue
            text = context.tag(piece, patch)
            # Between these signs, JSON has a whole value, which a tag without quotes is.
            before, after = pieces[i - 1].rstrip()[-1:], pieces[i + 1].lstrip()[:1]
            if before in (":", "[", ",") and after in (",", "}", "]") and literal(text) is None:
                text = (Ref(as_json(text), kind=Kind.JSON, hint="patch"),)
                written += json.dumps(context.render(text))
            else:
                written += context.render(text)
        node = next(documents(written), None)
        if not isinstance(node, MappingNode):
            patch.gap("is no map in JSON or YAML: write it as patch.jobSpec")
            continue
        patch.findings.budget.spend(node.size)
        # Merge keys, such as the names of containers, are known by the path from the job's spec.
        patches = [{"tasks": [{"template": {"spec": each}}]} for each in (found, data_of(node))]
        found = (merge(*patches) if found else patches[1])["tasks"][0]["template"]["spec"]
    return found


def _volumes(source: PodSource, containers: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the volumes that the containers mount, but not the claims of the flow."""
    mounted = dict.fromkeys(
        str(mount.get("name"))
        for each in containers
        for mount in each.get("volumeMounts", ())
        if isinstance(mount, dict)
    )
    known: dict[str, Field] = {}
    for owner in source.owners:
        known |= {each.text_of("name"): each for each in owner.listed("volumes")}
    scope = source.context.scope
    for name in mounted:
        if name in known:
            yield source.context.data(known[name])
        # A child flow cannot see the claims of the flow around it by their names.
        elif name in scope.workflow.claims and scope.parent is not None:
            flow = source.context.render(source.context.resolve(("workflow", "name")))
            yield {"name": name, "persistentVolumeClaim": {"claimName": f"{flow}-{name}"}}
            source.template.gap(
                f'mounts the claim "{name}" of the workflow in a nested template: a flow creates '
                "a claim only if one of its own steps mounts it, so mount it in such a step too"
            )
