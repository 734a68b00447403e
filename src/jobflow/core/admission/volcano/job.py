"""Volcano's own rules of admission for vcjobs, on a spec as plain JSON.

Sources: pkg/webhooks/admission/jobs/validate/admit_job.go and util.go, and the ranges, patterns
and enums of Volcano's vcjob CRD, which our CRD does not have. A spec that Volcano accepts passes
here, with one exception (docs/decisions/job-rules.md). The state of the queue and most of the pod
template are not checked.
"""

import graphlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from jobflow.core.admission import object_names
from jobflow.core.admission.volcano import job_view as view
from jobflow.core.admission.volcano.pods import pod_violations
from jobflow.core.admission.volcano.policies import duration_violations, policy_violations
from jobflow.core.manifests.crd_schema import job_spec_violations
from jobflow.core.names import MAX_NAME
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import Reason, Violation

PLUGINS = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
"""Volcano's job plugins (pkg/controllers/job/plugins/factory.go)."""
TOPOLOGY_MODES = ("hard", "soft")
_MPI_FLAGS = frozenset({"master", "worker", "port"})
_INTEGER = re.compile(
    r"[-+]?(?:0[xX](?:_?[0-9a-fA-F])+|0[bB](?:_?[01])+|0[oO]?(?:_?[0-7])*|[1-9](?:_?[0-9])*)"
)


def job_violations(spec: Any, path: str) -> Iterator[Violation]:
    """Yield the faults for which Volcano would refuse the vcjob spec at `path`, wrong types
    included, but not those of the names of pods. Never raises on any JSON."""
    yield from job_spec_violations(spec, path)
    job = view.job_view(spec, path)
    for rule in _RULES:
        yield from rule(job)


def changed_violations(spec: Any, changed: Collection[str]) -> Iterator[Violation]:
    """Yield the faults, with paths from the root, of a spec that differs from another in these
    fields at most. Rules that read none of them are skipped."""
    yield from job_spec_violations(spec, "")
    job = view.job_view(spec, "")
    for rule, fields in _FIELDS_OF_RULES.items():
        if not fields.isdisjoint(changed):
            yield from rule(job)


def _counts(job: view.JobView) -> Iterator[Violation]:
    yield from _at_least(job.raw, job.path, minAvailable=0, maxRetry=0, minSuccess=1)
    yield from _at_least(job.raw, job.path, ttlSecondsAfterFinished=0)
    for task in job.tasks:
        yield from _at_least(task.raw, task.path, replicas=0, minAvailable=0, maxRetry=0)


def _at_least(raw: view.Map, path: str, **least: int) -> Iterator[Violation]:
    for key, bound in least.items():
        value = view.integer(raw, key)
        if value is not None and value < bound:
            detail = f"must be greater than or equal to {bound}"
            yield Violation(f"{path}.{key}", Reason.INVALID, value, detail)


def _words(job: view.JobView) -> Iterator[Violation]:
    # an empty queue is Volcano's default one
    for key in ("queue", "priorityClassName"):
        name = view.text(job.raw, key)
        if name or (name == "" and key != "queue"):
            yield from object_names.name_violations(f"{job.path}.{key}", name)
    scheduler = view.text(job.raw, "schedulerName")
    if scheduler is not None and len(scheduler) > MAX_NAME:
        detail = f"may not be more than {MAX_NAME} characters"
        yield Violation(f"{job.path}.schedulerName", Reason.TOO_LONG, scheduler, detail)
    yield from duration_violations(job.raw, "runningEstimate", job.path)


def _tasks(job: view.JobView) -> Iterator[Violation]:
    # a task's name is part of pod names: a DNS label, unique in the job
    if not job.raw.get("tasks"):
        yield Violation(f"{job.path}.tasks", Reason.REQUIRED, None, "a job has at least one task")
    seen: dict[str, int] = {}
    for task in job.tasks:
        if task.name is None:
            continue
        path = f"{task.path}.name"
        if len(task.name) > MAX_NAME:
            detail = (
                f"{len(task.name)} characters, but a task's name has at most {MAX_NAME}; shorten it"
            )
            yield Violation(path, Reason.TOO_LONG, task.name, detail)
        if "." in task.name:
            detail = 'a task\'s name cannot hold ".": use lower-case letters, digits and "-"'
            yield Violation(path, Reason.INVALID, task.name, detail)
        elif not object_names.DNS_LABEL.fullmatch(task.name):
            found = object_names.name_violations(path, task.name)
            yield from (each for each in found if each.reason is not Reason.TOO_LONG)
        if (first := seen.setdefault(task.name, task.index)) != task.index:
            detail = f"tasks[{first}] already has this name; give each task its own"
            yield Violation(path, Reason.DUPLICATE, task.name, detail)


def _gang(job: view.JobView) -> Iterator[Violation]:
    # minAvailable of a task and of the job cannot exceed the number of pods
    for task in job.tasks:
        if task.min_available is not None and task.replicas is not None:
            if task.min_available > task.replicas:
                detail = f"must not be greater than the task's replicas ({task.replicas})"
                at = f"{task.path}.minAvailable"
                yield Violation(at, Reason.INVALID, task.min_available, detail)
    least = view.integer(job.raw, "minAvailable")
    # a task of a wrong type has an unknown number of pods
    if least is None or not job.tasks or len(job.tasks) != len(job.raw["tasks"]):
        return
    replicas = [task.replicas for task in job.tasks]
    if None not in replicas and least > (total := sum(n for n in replicas if n is not None)):
        detail = f"must not be greater than the replicas of all tasks together ({total})"
        yield Violation(f"{job.path}.minAvailable", Reason.INVALID, least, detail)


def _plugins(job: view.JobView) -> Iterator[Violation]:
    for name in job.plugins:
        yield from object_names.word_violations(f"{job.path}.plugins", name, PLUGINS)
    if "mpi" not in job.plugins or not job.tasks:
        return
    # its `--master` must be a task; as Go's flag package reads the arguments, up to where it stops
    master, arguments = "master", job.plugins["mpi"]
    values = arguments if isinstance(arguments, list) else ()
    # a flag takes the next argument as its value
    remaining = iter([value for value in values if isinstance(value, str)])
    for argument in remaining:
        flag, has_value, text_after = argument.removeprefix("-").removeprefix("-").partition("=")
        if not argument.startswith("-") or flag not in _MPI_FLAGS:
            break
        value = text_after if has_value else next(remaining, None)
        if value is None or (flag == "port" and not _INTEGER.fullmatch(value)):
            break
        if flag == "master":
            master = value
    names = [task.name for task in job.tasks if task.name]
    if master not in names:
        guess = did_you_mean(Suggester(names).nearest(master))
        detail = f"the mpi plugin's master task is no task of this job{guess}; set --master=TASK"
        yield Violation(f"{job.path}.plugins.mpi", Reason.INVALID, master, detail)


def _volumes(job: view.JobView) -> Iterator[Violation]:
    seen: dict[str, int] = {}
    for index, volume in view.elements(job.raw, "volumes"):
        path = f"{job.path}.volumes[{index}]"
        mount_path = volume.get("mountPath")
        if not mount_path:
            detail = "set the path in the pods at which the volume is mounted"
            yield Violation(f"{path}.mountPath", Reason.REQUIRED, mount_path, detail)
        elif isinstance(mount_path, str):
            if ":" in mount_path:
                detail = 'a mount path holds no ":"'
                yield Violation(f"{path}.mountPath", Reason.INVALID, mount_path, detail)
            if (first := seen.setdefault(mount_path, index)) != index:
                detail = f"volumes[{first}] is mounted there already"
                yield Violation(f"{path}.mountPath", Reason.DUPLICATE, mount_path, detail)
        name, claim = volume.get("volumeClaimName"), volume.get("volumeClaim")
        if claim is None and not name:
            detail = "set volumeClaimName (an existing claim) or volumeClaim (a new one)"
            yield Violation(f"{path}.volumeClaimName", Reason.REQUIRED, name, detail)
        elif claim is not None and name:
            detail = "excludes volumeClaimName: the job uses an existing claim or a new one"
            yield Violation(f"{path}.volumeClaim", Reason.FORBIDDEN, claim, detail)
        if name and isinstance(name, str):
            yield from object_names.name_violations(f"{path}.volumeClaimName", name)


def _partitions_and_topologies(job: view.JobView) -> Iterator[Violation]:
    yield from _network_topology(job.raw, job.path)
    for task in job.tasks:
        if task.raw.get("partitionPolicy") is None:
            continue
        path, policy = f"{task.path}.partitionPolicy", view.mapping(task.raw, "partitionPolicy")
        yield from _network_topology(policy, path)
        for key in ("totalPartitions", "partitionSize"):
            if policy.get(key) is None:
                yield Violation(f"{path}.{key}", Reason.REQUIRED, None, "at least 1")
        yield from _at_least(policy, path, totalPartitions=1, partitionSize=1, minPartitions=0)
        total, size = view.integer(policy, "totalPartitions"), view.integer(policy, "partitionSize")
        if total is None or size is None or total < 1 or size < 1:
            continue
        if task.replicas is not None and task.replicas != total * size:
            detail = f"must be totalPartitions × partitionSize ({total} × {size} = {total * size})"
            yield Violation(f"{task.path}.replicas", Reason.INVALID, task.replicas, detail)
        least = view.integer(policy, "minPartitions") or 0
        if least > total:
            detail = f"must not be greater than totalPartitions ({total})"
            yield Violation(f"{path}.minPartitions", Reason.INVALID, least, detail)
        if task.min_available is not None and least > 0 and task.min_available != least * size:
            detail = f"must be minPartitions × partitionSize ({least} × {size} = {least * size})"
            yield Violation(f"{task.path}.minAvailable", Reason.INVALID, task.min_available, detail)


def _network_topology(owner: view.Map, path: str) -> Iterator[Violation]:
    topology = view.mapping(owner, "networkTopology")
    if not topology:
        return
    path = f"{path}.networkTopology"
    yield from _at_least(topology, path, highestTierAllowed=0)
    mode, name = view.text(topology, "mode"), topology.get("highestTierName")
    yield from object_names.word_violations(f"{path}.mode", mode, TOPOLOGY_MODES)
    if topology.get("highestTierAllowed") is not None and name:
        detail = "excludes highestTierAllowed: set the name of the tier or its number"
        yield Violation(f"{path}.highestTierName", Reason.FORBIDDEN, name, detail)
    if isinstance(name, str) and len(name) > object_names.MAX_OBJECT_NAME:
        detail = f"may not be more than {object_names.MAX_OBJECT_NAME} characters"
        yield Violation(f"{path}.highestTierName", Reason.TOO_LONG, name, detail)


def _task_dependencies(job: view.JobView) -> Iterator[Violation]:
    # Volcano never finishes waiting for a target that is named twice
    if not any(task.raw.get("dependsOn") for task in job.tasks):
        return
    names = {task.name: None for task in job.tasks if task.name}
    suggester = Suggester(list(names))
    graph: dict[str, dict[str, None]] = {}
    for task in job.tasks:
        targets = view.mapping(task.raw, "dependsOn").get("name")
        known: dict[str, None] = {}
        for index, target in enumerate(targets if isinstance(targets, list) else ()):
            if not isinstance(target, str):
                continue
            path = f"{task.path}.dependsOn.name[{index}]"
            if target == task.name:
                detail = "a task cannot wait for itself"
                yield Violation(path, Reason.INVALID, target, detail)
            elif target not in names:
                detail = f"no such task{did_you_mean(suggester.nearest(target))}"
                yield Violation(path, Reason.INVALID, target, detail)
            elif target in known:
                yield Violation(path, Reason.DUPLICATE, target, "name it once")
            else:
                known[target] = None
        graph.setdefault(task.name or "", known)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle = " -> ".join(error.args[1])
        detail = f"the tasks wait for each other, so they never start: {cycle}"
        first = next(task for task in job.tasks if task.name == error.args[1][0])
        yield Violation(f"{first.path}.dependsOn.name", Reason.INVALID, first.name, detail)


_FIELDS_OF_RULES: Mapping[Callable[[view.JobView], Iterator[Violation]], frozenset[str]] = {
    rule: frozenset(fields.split())
    for rule, fields in (
        (_counts, "minAvailable maxRetry minSuccess ttlSecondsAfterFinished tasks"),
        (_words, "queue priorityClassName schedulerName runningEstimate"),
        (_tasks, "tasks"),
        (_gang, "minAvailable tasks"),
        (policy_violations, "policies tasks"),
        (_plugins, "plugins tasks"),
        (_volumes, "volumes"),
        (_partitions_and_topologies, "networkTopology tasks"),
        (_task_dependencies, "tasks"),
        (pod_violations, "tasks"),
    )
}
"""The fields of a spec that each rule looks at."""
_RULES = tuple(_FIELDS_OF_RULES)
