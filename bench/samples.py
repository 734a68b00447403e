"""The flows and reviews that are measured."""

from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlow, JobTemplate
from jobflow.api.resources import JOBTEMPLATES
from jobflow.core.planning.observed.view import View

NAMESPACE = "team-a"
TEMPLATE = "train"
UID = "5d4a6a1c-7f5b-4f0e-9f1d-3d1c1c2b7a10"


def manifest(targets: list[list[int]], name: str = "pipeline", uid: str = UID) -> dict[str, Any]:
    """Return a JobFlow of steps that all run the same template; `targets` by index."""
    return {
        "apiVersion": "flow.volcano.sh/v1alpha1",
        "kind": "JobFlow",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "creationTimestamp": "2026-08-01T10:00:00Z",
            "generation": 1,
            "labels": {"team": "a", "app.kubernetes.io/part-of": "training"},
            "annotations": {"owner": "someone@example.com"},
        },
        "spec": {
            "jobRetainPolicy": "retain",
            "flows": [
                {"name": f"step-{i}", "template": TEMPLATE}
                | ({"dependsOn": {"targets": [f"step-{j}" for j in js]}} if js else {})
                for i, js in enumerate(targets)
            ],
        },
    }


def layered(steps: int, width: int = 10) -> list[list[int]]:
    """Return layers of `width` steps; each step depends on two of the previous layer."""

    def two_before(i: int) -> list[int]:
        start = (i // width - 1) * width
        return sorted({start + i % width, start + (i + 1) % width})

    return [two_before(i) if i >= width else [] for i in range(steps)]


def diamond() -> list[list[int]]:
    """The five steps of JobFlow's documentation."""
    return [[], [0], [1], [1], [2, 3]]


def chain(steps: int) -> list[list[int]]:
    """Return a chain of steps."""
    return [[] if i == 0 else [i - 1] for i in range(steps)]


def wide(steps: int) -> list[list[int]]:
    """Return a root, steps that depend on it, and a join of these."""
    return [[], *([0] for _ in range(steps - 2)), list(range(1, steps - 1))]


def dense(steps: int, edges: int) -> list[list[int]]:
    """Return a flow with this number of edges, spread over all steps."""
    each, first = divmod(edges, steps - 1)
    return [list(range(max(0, i - each - (i <= first)), i)) for i in range(steps)]


def template_manifest(name: str = TEMPLATE) -> dict[str, Any]:
    """A JobTemplate of two tasks."""
    container = {
        "name": "main",
        "image": "registry.example.com/train:1",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    pods = {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}
    return {
        "apiVersion": JOBTEMPLATES.api_version,
        "kind": JOBTEMPLATES.kind,
        "metadata": {"name": name},
        "spec": {
            "minAvailable": 3,
            "queue": "default",
            "schedulerName": "volcano",
            "plugins": {"env": [], "svc": []},
            "tasks": [
                {"name": "ps", "replicas": 1, "template": pods},
                {"name": "worker", "replicas": 2, "template": pods},
            ],
        },
    }


def template() -> JobTemplate:
    """Return the template as the type that plan takes."""
    stored = {"name": TEMPLATE, "namespace": NAMESPACE, "generation": 1}
    return msgspec.convert(template_manifest() | {"metadata": stored}, JobTemplate)


def flow(targets: list[list[int]]) -> JobFlow:
    """Return the flow as the type that rules and plan take."""
    return msgspec.convert(manifest(targets), JobFlow)


def limited(targets: list[list[int]]) -> JobFlow:
    """Return a flow in which every step has a timeout."""
    made = manifest(targets)
    for step in made["spec"]["flows"]:
        step["timeout"] = "1h"
    return msgspec.convert(made, JobFlow)


def probing(targets: list[list[int]]) -> JobFlow:
    """Return a flow in which every step with targets has a probe on both of their tasks."""
    made = manifest(targets)
    for i, step in enumerate(made["spec"]["flows"]):
        if "dependsOn" in step:
            get = {"taskName": "ps", "path": f"/ready/{i}", "port": 8080}
            get["httpHeader"] = {"name": "X-Step", "value": step["name"]}
            status = {"taskName": "worker", "phase": "Succeeded", "count": 1}
            step["dependsOn"]["probe"] = {"httpGetList": [get], "taskStatusList": [status]}
    return msgspec.convert(made, JobFlow)


def conditional(targets: list[list[int]]) -> JobFlow:
    """Return a flow in which every step has a patch with references and a condition for its retry,
    and every step with targets has a condition about them."""
    made = manifest(targets)
    made["spec"]["params"] = [{"name": "rounds", "value": 5}, {"name": "image", "value": "x:1"}]
    for i, step in enumerate(made["spec"]["flows"]):
        step["retry"] = {"limit": 2, "when": f'reason != "Timeout" && params.rounds > {i % 5}'}
        words = ["--image=$(params.image)", f"--name=$(flow.name)-{i}"]
        step["patch"] = {"jobSpec": {"plugins": {"env": words}}}
        if targets[i]:
            before = f'steps["step-{targets[i][0]}"]'
            goes_on = f"(params.rounds > {i % 5} || has({before}.outputs.more))"
            step["when"] = f'{before}.phase == "Completed" && {goes_on}'
    return msgspec.convert(made, JobFlow)


def searching(items: int) -> JobFlow:
    """Return a step with this number of items, and a step after it with a condition."""
    made = manifest([[], [0]])
    search, choose = made["spec"]["flows"]
    search["forEach"] = {"items": [{"rate": i / items} for i in range(items)], "parallelism": 50}
    search["patch"] = {"jobSpec": {"plugins": {"env": ["--rate=$(item.rate)", "--n=$(index)"]}}}
    found = 'steps["step-0"].items.filter(i, has(i.outputs.acc))'
    choose["when"] = f"size({found}) == 0 || {found}.map(i, i.outputs.acc).max() > 0.5"
    return msgspec.convert(made, JobFlow)


def sent(targets: list[list[int]], name: str, places: int = 0) -> bytes:
    """A JobFlow as a user sends it, whose steps have templates of their own names: Volcano's
    controller knows no other. `places`: how many places they share; 0: they need none."""
    made = manifest(targets, name)
    for step in made["spec"]["flows"]:
        del step["template"]
        if places:
            step["concurrency"] = {"group": "places", "limit": places}
    kept = {key: made["metadata"][key] for key in ("name", "labels", "annotations")}
    return msgspec.json.encode(made | {"metadata": kept})


def review(targets: list[list[int]], namespace: str = NAMESPACE) -> bytes:
    """Return an AdmissionReview of the creation of a flow, as an API server sends it."""
    made = manifest(targets)
    made["metadata"]["namespace"] = namespace
    kind = {"group": "flow.volcano.sh", "version": "v1alpha1", "kind": "JobFlow"}
    resource = {"group": "flow.volcano.sh", "version": "v1alpha1", "resource": "jobflows"}
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "pipeline",
        "namespace": namespace,
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:team-a:ci",
            "groups": ["system:serviceaccounts", "system:authenticated"],
        },
        "object": made,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return msgspec.json.encode(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    )


def view() -> View:
    """Return the view before any step has started."""
    return View(templates={TEMPLATE: template()})
