"""Layers of a vcjob's spec: what a step or a case runs, its arguments such as env, its patches.

The fields are those with the trait JobPart. Each layer is JSON in the shape of a vcjob's spec, so
references, types and unknown fields are judged as in a patch.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from jobflow.api.flow.control import Case, JobDefaults
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import FlowField, JobPart, Role, Runs, WorkKind, fields_of
from jobflow.core.cel.references import measure_json
from jobflow.core.json_values import map_at, maps
from jobflow.core.manifests.strategic_merge import CONTAINER, overlaid
from jobflow.core.violations import join_path

MAIN = "main"
"""Name of a task or container that is the only one and has no name."""
MAX_VARIABLES, MAX_JOB_BYTES = 65_536, 3 << 20
"""Variables and bytes that `env` may add to all containers. No API server takes more."""


class Rank(IntEnum):
    """Kind of a layer. A higher one is merged later."""

    WORK = 0
    """jobSpec or container, in place of a JobTemplate."""
    ARGUMENTS = 1
    """env, image, command, args and resources."""
    PATCH = 2
    CASE_PATCH = 3
    RETRY_PATCH = 4
    """Only after the first failure that counts."""


class Layer(NamedTuple):
    """A part of a vcjob's spec, as a step or a case writes it."""

    rank: Rank
    field: str
    """Its path below the step or the case: `patch.jobSpec`; "" for arguments, several fields."""
    content: Mapping[str, Any]
    """JSON in the shape of a vcjob's spec."""

    def merge(self, spec: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
        """Return the spec with `content`, that of the layer with the values of its references. The
        result is only read: it shares parts with both."""
        match self.rank:
            case Rank.WORK:
                return {**spec, **_with_names(content)}
            case Rank.ARGUMENTS:
                return _with_arguments(spec, content)
        return overlaid(spec, content)

    def fault(self, spec: Mapping[str, Any], content: Mapping[str, Any]) -> str | None:
        """Return a clause that says why `content` cannot be merged into this spec, or None."""
        env = arguments_in(content).get("env") if self.rank is Rank.ARGUMENTS else None
        if not env:
            return None
        containers = count_containers(spec)
        if (count := len(env) * containers) > MAX_VARIABLES:
            return f"env makes {count:,} variables in this job; at most {MAX_VARIABLES:,} fit"
        if (size := containers * measure_json(env)) > MAX_JOB_BYTES:
            return f"env makes {size:,} bytes in this job; at most {MAX_JOB_BYTES:,} fit"
        return None

    def written_path(self, path: str) -> str:
        """Return the path below the step or the case for one in `content`: `.tasks[0]`."""
        if self.rank is Rank.ARGUMENTS:
            rest = path.removeprefix(CONTAINER_PATH)
            if (found := _ENV_INDEX.match(rest)) is None:
                return rest.removeprefix(".")
            name = arguments_in(self.content)["env"][int(found[1])]["name"]
            return join_path("env", name) + rest[found.end() :]
        if self.field != "container":
            return f"{self.field}{path}"
        if path.startswith(CONTAINER_PATH):
            return f"container{path.removeprefix(CONTAINER_PATH)}"
        if path.startswith(_VOLUMES_PATH):
            return f"volumes{path.removeprefix(_VOLUMES_PATH)}"
        return "container"


# the fields of a case; `switch` and `approval` have rules of their own
_WORKS = tuple(
    (field.name, field.json)
    for kind in WorkKind
    for field in fields_of(Case)
    if field.get(Runs) == Runs(kind)
)


def works_of(owner: Step | Case) -> list[str]:
    """Return the fields that say what a step or a case runs and are set. Admission allows one."""
    return [json for name, json in _WORKS if getattr(owner, name) not in (None, "")]


def layers_of(step: Step, case: Case | None, *, retried: bool) -> list[Layer]:
    """Return the layers of a step in a case of its `switch`, in order of precedence. `retried`:
    whether a failure counted before."""
    layers = [*own_layers(step), *(own_layers(case) if case is not None else ())]
    ranks = Rank.RETRY_PATCH if retried else Rank.CASE_PATCH
    # stable: of one rank, that of the step comes before that of the case
    return sorted((each for each in layers if each.rank <= ranks), key=lambda each: each.rank)


def _has_layer(field: FlowField) -> bool:
    if field.get(JobPart) is not None or field.get(Runs) == Runs(WorkKind.FLOW):
        return True
    return field.struct is not None and any(map(_has_layer, fields_of(field.struct)))


# compiled, because rules and plans ask for every step with options
may_have_layers: Callable[[Step], bool] = eval(
    "lambda step: "
    + " or ".join(f"step.{each.name} is not None" for each in fields_of(Step) if _has_layer(each))
)
"""Return whether a step or one of its cases may write a layer, or runs a flow in its place: most
steps do not, and this is the quickest way to pass them by."""


def own_layers(owner: Step | Case) -> Iterator[Layer]:
    """Yield the layers that a step, without its cases, or a case writes."""
    if owner.job_spec is not None:
        yield Layer(Rank.WORK, "jobSpec", _with_names(owner.job_spec))
    elif owner.container is not None:
        container = owner.container
        if not container.get("name"):
            container = {**container, "name": MAIN}
        pod: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
        if owner.volumes is not None:
            pod["volumes"] = owner.volumes
        task = {"name": MAIN, "replicas": 1, "template": {"spec": pod}}
        yield Layer(Rank.WORK, "container", {"tasks": [task]})
    arguments: dict[str, Any] = {}
    for name, json in _ARGUMENTS if isinstance(owner, Step) else ():
        if (value := getattr(owner, name)) is not None:
            arguments[json] = [*map(_as_text, value)] if isinstance(value, list) else value
    if isinstance(owner, Step) and owner.env:
        arguments["env"] = [
            # a variable that is removed has the value None
            {"name": name, **(value if isinstance(value, dict) else {"value": _as_text(value)})}
            for name, value in owner.env.items()
            # admission refuses any other map
            if not isinstance(value, dict) or is_source(value)
        ]
    if arguments:
        template = {"spec": {"containers": [arguments]}}
        yield Layer(Rank.ARGUMENTS, "", {"tasks": [{"template": template}]})
    rank = Rank.PATCH if isinstance(owner, Step) else Rank.CASE_PATCH
    patches = [(rank, "patch", owner.patch)]
    if isinstance(owner, Step) and owner.retry is not None:
        patches.append((Rank.RETRY_PATCH, "retry.patch", owner.retry.patch))
    for rank, field, patch in patches:
        if patch is not None and (changes := patch.job_spec or patch.spec):
            yield Layer(rank, f"{field}.{'jobSpec' if patch.job_spec else 'spec'}", changes)


MESSAGE_POLICY = "terminationMessagePolicy"


def with_log_as_message(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a `container` in which the end of its log is its termination message if
    it fails without one, unless it sets a policy."""
    [task] = content["tasks"]
    pod = task["template"]["spec"]
    container = {MESSAGE_POLICY: "FallbackToLogsOnError", **pod["containers"][0]}
    return {"tasks": [{**task, "template": {"spec": {**pod, "containers": [container]}}}]}


def has_log_as_message(step: Step, case: Case | None) -> bool:
    """Whether `with_log_as_message` sets the policy of what a step runs in this case."""
    owner = case if case is not None and works_of(case) else step
    return owner.container is not None and MESSAGE_POLICY not in owner.container


def with_defaults(spec: Mapping[str, Any], defaults: JobDefaults | None) -> dict[str, Any]:
    """Return a spec with jobDefaults for unset fields and plugins. Shares content with `spec`."""
    if defaults is None:
        return dict(spec)
    words = {
        "queue": defaults.queue,
        "priorityClassName": defaults.priority_class_name,
        "schedulerName": defaults.scheduler_name,
    }
    filled: dict[str, Any] = {
        key: each for key, each in words.items() if each and not spec.get(key)
    }
    plugins = spec.get("plugins")
    if defaults.plugins and (plugins is None or isinstance(plugins, dict)):
        filled["plugins"] = defaults.plugins | (plugins or {})
    return {**spec, **filled}


def _with_names(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    tasks = spec.get("tasks")
    if not isinstance(tasks, list) or len(tasks) != 1 or not isinstance(tasks[0], dict):
        return spec
    [task] = tasks
    missing: dict[str, Any] = {} if task.get("name") else {"name": MAIN}
    if task.get("replicas") is None:
        missing["replicas"] = 1
    return {**spec, "tasks": [task | missing]} if missing else spec


CONTAINER_PATH = ".tasks[0].template.spec.containers[0]"
"""The path of the only container in the content of a container or of arguments."""
_VOLUMES_PATH = ".tasks[0].template.spec.volumes"

_ARGUMENTS = tuple(
    (each.name, each.json)
    for each in fields_of(Step)
    if each.get(JobPart) == JobPart(Role.ARGUMENT)
)
_ENV_INDEX = re.compile(r"\.env\[(\d+)\](?:\.(?:name|value)\b)?")
_CONTAINER_LISTS = ("containers", "initContainers")


def is_source(value: Mapping[str, Any]) -> bool:
    """Whether a value of env is a map with only `valueFrom`, which is a map."""
    return [*value] == ["valueFrom"] and isinstance(value["valueFrom"], dict)


def _as_text(value: Any) -> Any:
    # Kubernetes takes no numbers and booleans there
    return msgspec.json.encode(value).decode() if isinstance(value, int | float) else value


def arguments_in(content: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments: Mapping[str, Any] = content["tasks"][0]["template"]["spec"]["containers"][0]
    return arguments


def _with_arguments(spec: Mapping[str, Any], content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a spec with arguments: env in every container, the others in the first container of
    the first task. The result shares other parts with `spec`, which may be any JSON."""
    arguments = arguments_in(content)
    of_first = {key: value for key, value in arguments.items() if key != "env"}
    env = {each["name"]: each for each in arguments.get("env") or ()}
    tasks = spec.get("tasks")
    if not isinstance(tasks, list):
        return dict(spec)
    made = list(tasks)
    for task_at, task in enumerate(tasks):
        if (pod := map_at(task, "template", "spec")) is None:
            continue
        changed = {}
        for field in _CONTAINER_LISTS:
            if not isinstance(containers := pod.get(field), list):
                continue
            changed[field] = list(containers)
            for at, container in enumerate(containers):
                if not isinstance(container, dict):
                    continue
                if of_first and (field, task_at, at) == ("containers", 0, 0):
                    container = overlaid(container, of_first, CONTAINER)
                if env:
                    container = {**container, "env": _with_env(container.get("env"), env)}
                changed[field][at] = container
        template = {**task["template"], "spec": {**pod, **changed}}
        made[task_at] = {**task, "template": template}
    return {**spec, "tasks": made}


def count_containers(spec: Mapping[str, Any]) -> int:
    """Return the number of containers of a spec, which may be any JSON, with init containers."""
    pods = (map_at(task, "template", "spec") or {} for task in maps(spec.get("tasks")))
    lists = (pod.get(field) for pod in pods for field in _CONTAINER_LISTS)
    return sum(len(each) for each in lists if isinstance(each, list))


def _with_env(own: Any, ours: Mapping[str, Any]) -> list[Any]:
    # a variable of a container may refer to those before it, so new ones come first
    new = dict(ours)
    kept: list[Any] = []
    for variable in own if isinstance(own, list) else ():
        name = variable.get("name") if isinstance(variable, dict) else None
        if not isinstance(name, str) or name not in ours:
            kept.append(variable)
        elif name in new:
            kept += _with_value(new.pop(name))
    return [*chain.from_iterable(_with_value(new[name]) for name in sorted(new)), *kept]


def _with_value(variable: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    has_value = variable.get("value") is not None or "valueFrom" in variable
    return [variable] if has_value else []
