"""Fields of flows, steps and jobs, written by tools/authoring_types.py (`make manifests`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypedDict

from jobflow.authoring.objects.expressions import Expr
from jobflow.authoring.objects.flows import ChildFlow
from jobflow.authoring.objects.steps import Step, Template

__all__ = [
    "Approval",
    "Backoff",
    "Case",
    "Concurrency",
    "DependsOn",
    "ForEach",
    "HTTPGetProbe",
    "HTTPHeader",
    "JobDefaults",
    "JobSpec",
    "LifecyclePolicy",
    "NetworkTopology",
    "Param",
    "PartitionPolicy",
    "Patch",
    "Probe",
    "Repeat",
    "Retry",
    "Reuse",
    "StepConcurrency",
    "TCPSocketProbe",
    "Task",
    "TaskDependsOn",
    "TaskStatusProbe",
    "Volume",
]

class Fields:
    """An object of the API. Its fields have the names of the API in snake_case; fields that are
    None are not set."""

    def __new__(cls, **fields: Any) -> Self: ...

@dataclass(frozen=True, kw_only=True, eq=False)
class HTTPHeader(Fields):
    """HTTP header of a probe."""

    name: str | None = None
    """Name of the header."""
    value: str | None = None
    """Value of the header."""

@dataclass(frozen=True, kw_only=True, eq=False)
class HTTPGetProbe(Fields):
    """HTTP request to each pod of a task."""

    task_name: str | None = None
    """Name of the task whose pods are probed."""
    path: str | None = None
    """Path, which begins with a slash."""
    port: int | None = None
    """Port, 1 to 65535."""
    http_header: HTTPHeader | None = None
    """Header to send."""

@dataclass(frozen=True, kw_only=True, eq=False)
class TCPSocketProbe(Fields):
    """TCP connection to each pod of a task."""

    task_name: str | None = None
    """Name of the task whose pods are probed."""
    port: int | None = None
    """Port, 1 to 65535."""

@dataclass(frozen=True, kw_only=True, eq=False)
class TaskStatusProbe(Fields):
    """Phase of a task's pods."""

    task_name: str | None = None
    """Name of the task whose pods are counted."""
    phase: str | None = None
    """Pod phase to reach: Pending, Running, Succeeded or Failed. A pod in a later phase has
    reached Pending and Running too."""
    count: int | None = None
    """Number of pods that must reach the phase. Default: all."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Probe(Fields):
    """Checks of the tasks and pods of the targets' jobs. A target is met once all checks pass
    for it; the condition is ignored."""

    http_get_list: Sequence[HTTPGetProbe] | None = None
    """HTTP requests that must succeed."""
    tcp_socket_list: Sequence[TCPSocketProbe] | None = None
    """TCP connections that must succeed."""
    task_status_list: Sequence[TaskStatusProbe] | None = None
    """Pod phases that must be reached."""

@dataclass(frozen=True, kw_only=True, eq=False)
class DependsOn(Fields):
    """Steps that a step waits for, and when it starts."""

    targets: Sequence[str | Step] | None = None
    """Names of the steps to wait for."""
    strategy: str | None = None
    """all (default): start when every target has reached the condition. any: start when the
    first one has."""
    condition: str | None = None
    """State that a target must reach: Completed (default), Failed (the step runs only if the
    target fails), Finished (Completed, Failed, or skipped because of a failure before it),
    Running (the target has started), NotFailed (Completed, or skipped because it was not taken)
    or Always (it has ended in any way)."""
    conditions: Mapping[str, str] | None = None
    """Conditions of single targets, by the name of the step, where they differ from
    condition."""
    probe: Probe | None = None
    """Checks of the tasks and pods of the targets' jobs, which decide instead of condition
    whether a target is met."""
    items: str | None = None
    """Matching: item i of the step's forEach waits only for item i of each target with forEach.
    Without forEach, the step has the items of its targets. Default: the step waits for all
    items of its targets."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Patch(Fields):
    """Changes to what the step runs. Set either jobSpec or spec."""

    job_spec: Mapping[str, Any] | JobSpec | None = None
    """Strategic merge patch of the job's spec. Tasks, containers, volumes and env merge by
    name, volumeMounts by mountPath, ports by containerPort and protocol, tolerations by key,
    maps by key. Other lists are replaced; null removes a field. Strings may contain references
    such as $(params.x), $(item) and $(steps.x.outputs.y)."""
    spec: Mapping[str, Any] | JobSpec | None = None
    """Another name for jobSpec."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Case(Fields):
    """A case of a switch. Set at most one of template, flow, jobSpec, container, compute and
    fail."""

    when: str | Expr | None = None
    """CEL condition. The first case whose condition is true runs. Default: true."""
    template: str | Template | None = None
    """JobTemplate to run in this case. Default: the one named like the step."""
    flow: ChildFlow | Mapping[str, Any] | None = None
    """Flow to run as a child in this case, instead of a template."""
    job_spec: Mapping[str, Any] | JobSpec | None = None
    """Spec of the Volcano job to run, instead of a JobTemplate; see `kubectl explain
    vcjob.spec`. A single task may leave out name (main) and replicas (1). Strings may contain
    references."""
    container: Mapping[str, Any] | None = None
    """Container to run, instead of a JobTemplate, as a job of one task (main) and one pod that
    is never restarted; see `kubectl explain pod.spec.containers`. Its name may be left out
    (main). Strings may contain references. If nothing names the outputs of the step, its
    terminationMessagePolicy is FallbackToLogsOnError by default, so that the last line of its
    log is the message of a failure."""
    compute: Mapping[str, str | Expr] | None = None
    """Run no job: the outputs are these values, name to CEL expression, such as
    steps["x"].outputs.n + params.n. Expressions can use params, flow, item, index and the steps
    that this one depends on, directly or not. At most 4,096 bytes as JSON."""
    fail: str | Expr | None = None
    """Run no job, but fail with this message (reason FailStep), in which references such as
    $(params.x), $(item) and $(steps.x.outputs.y) may stand. With when, it is a gate that fails
    the flow."""
    volumes: Sequence[Any] | None = None
    """Volumes of the pod of container; see `kubectl explain pod.spec.volumes`."""
    patch: Patch | None = None
    """Changes to the job in this case, applied after the step's patch."""

@dataclass(frozen=True, kw_only=True, eq=False)
class ForEach(Fields):
    """Runs one job per item. Set exactly one of items, from and count; at most 1,000 items."""

    items: Sequence[Any] | None = None
    """Items, values of any type. The patch refers to the current one as $(item)."""
    from_: str | Expr | None = None
    """CEL expression whose value is the list of items, such as params.rates or
    steps["split"].outputs.shards. Evaluated once."""
    count: int | str | Expr | None = None
    """Number of items; they are 0, 1, 2 and so on. It may be a reference to a param, such as
    $(params.n)."""
    parallelism: int | str | Expr | None = None
    """Maximum number of these jobs at a time. Default: no limit. It may be a reference to a
    param, such as $(params.n)."""
    when: str | Expr | None = None
    """CEL condition, evaluated once for each item when it is its turn, such as item.size > 20
    or steps["x"].item.phase == "Completed". An item for which it is false is Skipped, and the
    step is Completed if the other items are."""
    max_failed: int | str | Expr | None = None
    """Maximum number of failed items, or their percentage such as "5%", rounded down, with
    which the step completes. After one more failure the step fails: no further item starts,
    whatever failurePolicy says. It may be a reference to a param, such as $(params.n)."""
    min_success: int | str | Expr | None = None
    """Number of items, or their percentage such as "80%", rounded up, after whose success the
    step is Completed and its other items are ended. The step fails as soon as so many can no
    longer complete. It may be a reference to a param, such as $(params.n)."""
    until: str | Expr | None = None
    """CEL condition, evaluated whenever an item has completed, such as items.exists(i, i.phase
    == "Completed" && i.outputs.accuracy > 0.9). If it is true, the step is Completed and its
    other items are ended; if it never is, the step fails. Its variable items has the index,
    item, phase and outputs of each item that has ended."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Repeat(Fields):
    """Runs the step again, one run after another, until a condition is true."""

    until: str | Expr | None = None
    """CEL condition, evaluated after each completed run, such as outputs.accuracy > 0.9. It can
    use outputs, phase, reason and index of that run. Required."""
    max: int | str | Expr | None = None
    """Maximum number of runs, 1 to 1,000. The step fails if the condition is still false after
    the last one. It may be a reference to a param, such as $(params.n). Required."""
    pause: str | None = None
    """Time between the end of a run and the start of the next one, such as 10m."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Backoff(Fields):
    """Pause before each attempt. It begins with duration and is multiplied by factor each
    time."""

    duration: str | None = None
    """Pause before the second attempt, such as 30s. Default: 1s."""
    factor: float | None = None
    """Multiplier applied to the pause after each attempt, 1 to 100. Default: 2."""
    max: str | None = None
    """Maximum pause, such as 10m. Default: 5m."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Retry(Fields):
    """Runs a failed step again."""

    limit: int | str | Expr | None = None
    """Maximum number of attempts after the first, 0 to 100. It may be a reference to a param,
    such as $(params.n). Required."""
    backoff: Backoff | None = None
    """Pause between attempts."""
    when: str | Expr | None = None
    """CEL condition, such as reason != "Timeout". The step is retried only if it is true. It
    can use outputs, phase, reason, index and failure of the failed run, attempt and retries. It
    is not asked about a disruption that does not count."""
    patch: Patch | None = None
    """Changes to the job of each attempt after the first failure that counts towards limit,
    applied last, such as more memory. Its references can use failure, attempt and retries."""
    disruptions: int | None = None
    """Maximum number of attempts that do not count towards limit because the cluster ended
    them: a pod was evicted, preempted or lost with its node. 0 to 100. Default: 5."""
    avoid_nodes: bool | None = None
    """Keep the next attempt off the nodes on which pods failed."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Approval(Fields):
    """Waits until a user approves or rejects, or until the timeout does."""

    message: str | Expr | None = None
    """Question to whoever decides. It may contain references such as $(params.x), $(item) and
    $(steps.x.outputs.y)."""
    timeout: str | Expr | None = None
    """Maximum time to wait for an answer, such as 24h, without the time the flow was suspended.
    Then default is the answer. Default: no limit. It may be a reference to a param, such as
    $(params.limit)."""
    default: str | None = None
    """Answer once the timeout is over: Approve or Reject (default)."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Param(Fields):
    """A parameter of the flow."""

    name: str | None = None
    """Name. Patches refer to it as $(params.NAME), CEL expressions as params.NAME."""
    value: Any = None
    """Value, of any type."""
    enum: Sequence[Any] | None = None
    """Allowed values."""

@dataclass(frozen=True, kw_only=True, eq=False)
class JobDefaults(Fields):
    """Defaults for every job of the flow. Templates and patches override them."""

    queue: str | None = None
    """Queue of the jobs."""
    priority_class_name: str | None = None
    """Priority class of the pods."""
    scheduler_name: str | None = None
    """Scheduler of the pods."""
    plugins: Mapping[str, Sequence[str]] | None = None
    """Arguments of Volcano's job plugins, by plugin name."""
    labels: Mapping[str, str] | None = None
    """Labels of the jobs."""
    annotations: Mapping[str, str] | None = None
    """Annotations of the jobs."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Reuse(Fields):
    """The ended flow whose completed runs count here as Completed, as far as nothing has
    changed in what they do and in what they are made of."""

    flow: ChildFlow | Mapping[str, Any] | None = None
    """Name of a flow of the same namespace that has ended. Required."""
    uid: str | None = None
    """UID of that flow, so that no other flow of its name is taken. Default: any."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Concurrency(Fields):
    """Limits how many flows of a group run at once in a namespace. A flow holds a place in its
    group from its start to its end."""

    group: str | Expr | None = None
    """Name of the group, in which references such as $(params.env) may stand. Flows of the same
    namespace whose groups have the same name share the places. Required."""
    limit: int | None = None
    """The flow starts once fewer than this number of flows of the group hold a place and none
    waits before it. Default: 1."""
    policy: str | None = None
    """Policy of the flow if its group has no free place. Wait (default): it waits for one.
    Replace: it cancels the flows that hold a place or wait before it, and starts when they have
    ended. Forbid: all its steps are skipped, and it ends."""

@dataclass(frozen=True, kw_only=True, eq=False)
class StepConcurrency(Fields):
    """Limits how many jobs of a group of steps run at once in a namespace. Each attempt holds
    its places from before its job is created to the end of the job."""

    group: str | Expr | None = None
    """Name of the group, in which references such as $(params.env) may stand. Steps of all
    flows of the same namespace whose groups have the same name share the places. Required."""
    limit: int | None = None
    """The step, or an item of it, starts once its slots and those that are taken are at most
    this number, and none waits before it. Default: 1."""
    slots: int | None = None
    """Number of places that the step, or each of its items, takes. Default: 1."""

@dataclass(frozen=True, kw_only=True, eq=False)
class JobSpec(Fields):
    """Specification of a Volcano job."""

    scheduler_name: str | None = None
    """Scheduler of the pods. Volcano's default: volcano."""
    min_available: int | None = None
    """Number of pods that must be available for the job to run (gang), at most all replicas."""
    min_success: int | None = None
    """Number of pods that must succeed for the job to be Completed."""
    volumes: Sequence[Volume] | None = None
    """Volumes that are mounted into every pod."""
    tasks: Sequence[Task] | None = None
    """Tasks of the job, at least one."""
    policies: Sequence[LifecyclePolicy] | None = None
    """Lifecycle policies for events of any task."""
    plugins: Mapping[str, Sequence[str]] | None = None
    """Arguments of Volcano's job plugins (env, svc, ssh, pytorch, mpi …), by plugin name."""
    running_estimate: str | None = None
    """Expected running time of the job, such as "2h"."""
    queue: str | None = None
    """Queue of the job. Volcano's default: default."""
    max_retry: int | None = None
    """Maximum number of restarts before the job fails. Volcano's default: 3."""
    ttl_seconds_after_finished: int | None = None
    """Seconds after which the finished job is deleted. Default: never."""
    priority_class_name: str | None = None
    """Priority class of the pods."""
    network_topology: NetworkTopology | None = None
    """Required proximity of the pods."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Task(Fields):
    """A number of pods with the same pod template."""

    name: str | None = None
    """Name, unique in the job: lower-case letters, digits and dashes (DNS-1123)."""
    replicas: int | None = None
    """Number of pods."""
    min_available: int | None = None
    """Number of pods that must be available for the task to run."""
    template: Mapping[str, Any] | None = None
    """Pod template; see `kubectl explain pod.spec`."""
    policies: Sequence[LifecyclePolicy] | None = None
    """Lifecycle policies of the task, evaluated before the job's."""
    max_retry: int | None = None
    """Maximum number of restarts of the task before the job fails."""
    topology_policy: str | None = None
    """NUMA policy: none, best-effort, restricted or single-numa-node."""
    depends_on: TaskDependsOn | None = None
    """Tasks of the job that must start before this one."""
    partition_policy: PartitionPolicy | None = None
    """Division of the task's pods into partitions."""

@dataclass(frozen=True, kw_only=True, eq=False)
class LifecyclePolicy(Fields):
    """Action of Volcano on an event or an exit code of a task's pods."""

    action: str | None = None
    """Action: AbortJob, RestartJob, RestartTask, RestartPod, RestartPartition, TerminateJob,
    CompleteJob or ResumeJob."""
    event: str | None = None
    """Event that triggers it: PodPending, PodRunning, PodFailed, PodEvicted, Unknown,
    TaskCompleted, TaskFailed, OutOfSync, CommandIssued, JobUpdated, or `*` for any. Excludes
    exitCode."""
    events: Sequence[str] | None = None
    """Several events for the action. Excludes exitCode."""
    exit_code: int | None = None
    """Exit code of a container that triggers it, not 0. Excludes event and events."""
    timeout: str | None = None
    """Time that the event must last before the action, such as "30s"."""

@dataclass(frozen=True, kw_only=True, eq=False)
class TaskDependsOn(Fields):
    """Tasks of the same job that must start before this one."""

    name: Sequence[str] | None = None
    """Names of tasks of this job."""
    iteration: str | None = None
    """any: wait for one of them; all: wait for every one."""

@dataclass(frozen=True, kw_only=True, eq=False)
class Volume(Fields):
    """A volume that is mounted into every pod of the job."""

    mount_path: str | None = None
    """Path to mount it at, unique in the job, without a colon."""
    volume_claim_name: str | None = None
    """Name of an existing claim. Excludes volumeClaim."""
    volume_claim: Mapping[str, Any] | None = None
    """Claim that Volcano creates for the job; see `kubectl explain pvc.spec`."""

@dataclass(frozen=True, kw_only=True, eq=False)
class NetworkTopology(Fields):
    """Required proximity of the pods in the network topology."""

    mode: str | None = None
    """hard or soft."""
    highest_tier_allowed: int | None = None
    """Highest tier that the pods may span. Excludes highestTierName."""
    highest_tier_name: str | None = None
    """Name of the highest tier that the pods may span. Excludes highestTierAllowed."""

@dataclass(frozen=True, kw_only=True, eq=False)
class PartitionPolicy(Fields):
    """Division of a task's pods into partitions that are placed together."""

    total_partitions: int | None = None
    """Number of partitions."""
    partition_size: int | None = None
    """Number of pods in a partition."""
    min_partitions: int | None = None
    """Number of partitions that must be available for the task to run."""
    network_topology: NetworkTopology | None = None
    """Required proximity of the pods of a partition."""

class StepFields(TypedDict, total=False):
    """Fields of a step."""

    template: str | Template | None
    """JobTemplate to run. Default: the one named like the step."""
    flow: ChildFlow | Mapping[str, Any] | None
    """Flow to run as a child, instead of a template: flows, finally, outputs, params,
    failurePolicy, parallelism and timeout as in the spec of a JobFlow, except that params is a
    map of values, which may hold references such as $(item). Its steps see nothing else of this
    flow."""
    job_spec: Mapping[str, Any] | JobSpec | None
    """Spec of the Volcano job to run, instead of a JobTemplate; see `kubectl explain
    vcjob.spec`. A single task may leave out name (main) and replicas (1). Strings may contain
    references."""
    container: Mapping[str, Any] | None
    """Container to run, instead of a JobTemplate, as a job of one task (main) and one pod that
    is never restarted; see `kubectl explain pod.spec.containers`. Its name may be left out
    (main). Strings may contain references. If nothing names the outputs of the step, its
    terminationMessagePolicy is FallbackToLogsOnError by default, so that the last line of its
    log is the message of a failure."""
    volumes: Sequence[Any] | None
    """Volumes of the pod of container; see `kubectl explain pod.spec.volumes`."""
    env: Mapping[str, Any] | None
    """Environment variables of every container and init container: name to text, number,
    boolean or {valueFrom: ...}. A variable replaces the one with its name, and null removes it.
    Strings may contain references."""
    image: str | Expr | None
    """Image of the first container of the first task. May be a reference."""
    command: Sequence[Any] | Expr | None
    """Command of the first container of the first task: a list, which may have references."""
    args: Sequence[Any] | Expr | None
    """Arguments of the first container of the first task: a list of texts, numbers and
    booleans, which may have references."""
    resources: Mapping[str, Any] | None
    """Resources of the first container of the first task, merged into its own, such as {limits:
    {nvidia.com/gpu: 1}}. Strings may contain references."""
    approval: Approval | None
    """Run no job, but wait until a user approves or rejects. Excludes template, jobSpec and
    container."""
    compute: Mapping[str, str | Expr] | None
    """Run no job: the outputs are these values, name to CEL expression, such as
    steps["x"].outputs.n + params.n. Expressions can use params, flow, item, index and the steps
    that this one depends on, directly or not. At most 4,096 bytes as JSON."""
    fail: str | Expr | None
    """Run no job, but fail with this message (reason FailStep), in which references such as
    $(params.x), $(item) and $(steps.x.outputs.y) may stand. With when, it is a gate that fails
    the flow."""
    depends_on: DependsOn | Step | Sequence[Step | str] | None
    """Steps to wait for. Default: the step starts at once."""
    vars: Mapping[str, str | Expr] | None
    """Values for the job, computed for each attempt when it is created: name to CEL expression,
    such as params.batch / steps["x"].outputs.gpus. Env, patches and so on refer to one as
    $(vars.NAME). They see only phase and job of a step that may still run."""
    patch: Patch | None
    """Changes to the job."""
    when: str | Expr | None
    """CEL condition, such as steps["x"].outputs.n > 1. It can use params, flow and the steps
    that this one depends on, directly or not. Evaluated once; if false, the step is Skipped."""
    switch: Sequence[Case] | None
    """Cases, in order; the first one whose condition is true decides what runs. If no condition
    is true, the step is Skipped. Excludes template, jobSpec and container."""
    for_each: ForEach | Sequence[Any] | Expr | None
    """Run one job per item. Set exactly one of items, from or count."""
    repeat: Repeat | None
    """Run again, one run after another, until a condition is true. Excludes forEach."""
    retry: Retry | int | None
    """Run the step again if it fails."""
    concurrency: StepConcurrency | None
    """Places that the step, or each of its items, needs to run, shared by all flows of the
    namespace, such as licences. Default: it needs none."""
    timeout: str | Expr | None
    """Maximum time of one attempt after its job is first Running, such as 2h. Then the job is
    aborted and the attempt has failed. It may be a reference to a param, such as
    $(params.limit), or to vars, such as $(vars.limit): a duration or a number of seconds,
    computed for each attempt."""
    queue_timeout: str | Expr | None
    """Maximum time from the creation of a job until it is first Running, such as 30m, without
    the time the flow was suspended. Then the job is aborted and the attempt has failed (reason
    QueueTimeout). It may be a reference to a param, such as $(params.limit)."""
    daemon: bool | None
    """The step is a service. Dependants start once it runs, or once their probe passes. It is
    stopped when no step needs it to run any more."""
    reuse_policy: str | None
    """With spec.reuse: IfUnchanged (default) takes the result of the step in the named flow if
    nothing has changed, Never runs the step again. On a daemon, IfUnchanged says that steps
    which depend on it may be reused although it starts again. Not in finally, which always
    runs."""
    continue_on_failure: bool | None
    """If the step fails, the flow does not fail and dependants start, except after an error of
    the flow itself, such as ExpressionError. With forEach, every item runs even if others
    fail."""

class ChildFields(TypedDict, total=False):
    """Fields of a child flow."""

    job_retain_policy: str | None
    """retain (default) keeps the flow's jobs; delete deletes them once the flow has
    succeeded."""
    job_defaults: JobDefaults | None
    """Defaults for every job. Templates and patches override them."""
    parallelism: int | str | Expr | None
    """Maximum number of jobs at a time. Steps start in the order of flows. It may be a
    reference to a param, such as $(params.n)."""
    timeout: str | Expr | None
    """Maximum time of the whole flow, such as 12h, without the time it was suspended. It may be
    a reference to a param, such as $(params.limit)."""
    failure_policy: str | None
    """Effect of a failed step: Stop (default) starts no more jobs, Abort also aborts running
    jobs, Continue runs all steps that do not depend on the failed one, and all items of a
    forEach."""
    outputs: Mapping[str, str | Expr] | None
    """Outputs of the flow, by name: CEL expressions such as steps["train"].outputs.accuracy.
    They are evaluated after finally, can use every step, and are stored in status.outputs."""

class FlowFields(ChildFields, total=False):
    """Fields of a flow."""

    targets: Sequence[str | Step] | None
    """Names of the steps to run, with all steps that they depend on; the other steps of flows
    are Skipped. Steps of finally run in any case. Default: all steps."""
    params: Mapping[str, Any] | Sequence[Param] | None
    """Parameters for patches and CEL expressions."""
    volume_claims: Mapping[str, Any] | None
    """PersistentVolumeClaims of the flow: name to spec, see `kubectl explain pvc.spec`. The
    claim <flow>-<name> is created before the first job that mounts it, and deleted with the
    flow. A pod whose containers mount a volume of that name gets it. Strings may contain
    references such as $(params.size)."""
    reuse: Reuse | None
    """Ended flow whose results are reused: what completed there and is unchanged does not run
    again. Default: every step runs."""
    concurrency: Concurrency | None
    """Group of flows of which only some run at once. Default: every flow starts at once."""
    ttl_seconds_after_finished: int | None
    """Seconds after which the finished flow is deleted. Default: never."""
    ttl_seconds_after_succeeded: int | None
    """Seconds after which a flow that has succeeded is deleted. Default:
    ttlSecondsAfterFinished."""
    ttl_seconds_after_failed: int | None
    """Seconds after which a failed flow is deleted. Default: ttlSecondsAfterFinished."""
    suspend: bool | None
    """Create the flow suspended: no job starts until it is resumed."""

class CronFields(TypedDict, total=False):
    """Fields of the schedule of a flow."""

    time_zone: str | None
    """Time zone of the schedule, such as Europe/Berlin. Default: UTC."""
    starting_deadline_seconds: int | None
    """Seconds after a scheduled time in which its flow may still start. Default: no limit."""
    concurrency_policy: str | None
    """If an earlier flow of the schedule has not finished: Allow (default) starts the next one
    beside it, Forbid skips the next one, Replace cancels the earlier one and starts the next
    one when it has finished. Wait gives every scheduled time its flow, also the missed ones,
    one after the other."""
    require_previous_success: bool | None
    """With Wait: start the next flow only when the one before has succeeded, was deleted and
    made again with success, or was settled by jobflow skip cjf/NAME."""
    suspend: bool | None
    """Start no flow while this is true. Flows that have started continue."""
    successful_jobs_history_limit: int | None
    """Number of flows to keep that have succeeded. Default: 3."""
    failed_jobs_history_limit: int | None
    """Number of flows to keep that have failed. Default: 1."""
