"""Control primitives of a flow: conditions, loops, retries, parameters and defaults."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.flow.traits import (
    Evaluated,
    For,
    JobPart,
    Needs,
    NotWith,
    OneOf,
    Referring,
    Required,
    Role,
    Runs,
    Setting,
    Stage,
    ValueKind,
    WorkKind,
)
from jobflow.api.resources import Schema, Struct
from jobflow.api.volcano.job import Int32, Opaque

IntOrParam = Annotated[Int32 | str, Setting()]
"""A number, or one reference to a param such as `$(params.n)`."""
ShareOrParam = Annotated[Int32 | str, Setting(is_share=True)]
"""A number, a percentage such as `5%`, or one reference to a param."""
DurationOrParam = Annotated[str, Setting(is_time=True)]
"""A duration such as `2h`, or one reference to a param."""
DurationOrValue = Annotated[str, Setting(is_time=True, of_vars=True)]
"""A duration, or one reference to a param or to `vars`."""
ONE_SOURCE = OneOf("items, from and count")
"""The sources of the items of forEach, of which one is set."""


def to_number(value: int | str | None) -> int | None:
    """Return a number of a flow with its values (`core/spec/param_values.py`). A reference without
    a number, which admission refuses, counts as not set."""
    return None if isinstance(value, str) else value


class FailurePolicy(StrEnum):
    """Effect of a failed step on the other steps of its flow."""

    STOP = "Stop"
    ABORT = "Abort"
    CONTINUE = "Continue"


class ConcurrencyPolicy(StrEnum):
    """Behaviour of a flow for which its group has no place."""

    WAIT = "Wait"
    REPLACE = "Replace"
    FORBID = "Forbid"


class Patch(Struct):
    """Changes to what the step runs. Set either jobSpec or spec."""

    job_spec: Annotated[dict[str, Any] | None, Opaque, JobPart(Role.SPEC)] = None
    """Strategic merge patch of the job's spec. Tasks, containers, volumes and env merge by name,
    volumeMounts by mountPath, ports by containerPort and protocol, tolerations by key, maps by key.
    Other lists are replaced; null removes a field. Strings may contain references such as
    $(params.x), $(item) and $(steps.x.outputs.y)."""
    spec: Annotated[
        dict[str, Any] | None,
        Opaque,
        JobPart(Role.SPEC),
        NotWith(
            {"jobSpec": "the same as patch.jobSpec by its other name, which is set too; keep one"}
        ),
    ] = None
    """Another name for jobSpec."""


JobSpecField = Annotated[
    dict[str, Any] | None,
    Schema(
        description="Spec of the Volcano job to run, instead of a JobTemplate; see `kubectl "
        "explain vcjob.spec`. A single task may leave out name (main) and replicas (1). Strings "
        "may contain references."
    ),
    Opaque,
    Runs(WorkKind.JOB),
    JobPart(Role.SPEC),
]
ContainerField = Annotated[
    dict[str, Any] | None,
    Schema(
        description="Container to run, instead of a JobTemplate, as a job of one task (main) and "
        "one pod that is never restarted; see `kubectl explain pod.spec.containers`. Its name may "
        "be left out (main). Strings may contain references. If nothing names the outputs of the "
        "step, its terminationMessagePolicy is FallbackToLogsOnError by default, so that the last "
        "line of its log is the message of a failure."
    ),
    Opaque,
    Runs(WorkKind.JOB),
    JobPart(Role.CONTAINER),
]
VolumesField = Annotated[
    list[Any] | None,
    Schema(description="Volumes of the pod of container; see `kubectl explain pod.spec.volumes`."),
    JobPart(Role.VOLUMES),
    Needs(
        "container",
        "these are the volumes of the pod of container, which is not set; write them into "
        "jobSpec or patch.jobSpec, at tasks[].template.spec.volumes",
    ),
]
ComputeField = Annotated[
    dict[str, str] | None,
    Schema(
        description="Run no job: the outputs are these values, name to CEL expression, such as "
        'steps["x"].outputs.n + params.n. Expressions can use params, flow, item, index and the '
        "steps that this one depends on, directly or not. At most 4,096 bytes as JSON."
    ),
    Runs(WorkKind.COMPUTE),
    For((WorkKind.COMPUTE,)),
    Evaluated(Stage.QUESTION, ValueKind.ANY),
]
FailField = Annotated[
    str | None,
    Schema(
        description="Run no job, but fail with this message (reason FailStep), in which references "
        "such as $(params.x), $(item) and $(steps.x.outputs.y) may stand. With when, it is a gate "
        "that fails the flow."
    ),
    Runs(WorkKind.FAIL),
    For((WorkKind.FAIL,)),
    Referring(Stage.QUESTION),
]


class Case(Struct):
    """A case of a switch. Set at most one of template, flow, jobSpec, container, compute and
    fail."""

    when: Annotated[str | None, Evaluated(Stage.DECISION)] = None
    """CEL condition. The first case whose condition is true runs. Default: true."""
    template: Annotated[str | None, Runs(WorkKind.JOB)] = None
    """JobTemplate to run in this case. Default: the one named like the step."""
    flow: Annotated[
        dict[str, Any] | None, Opaque, Runs(WorkKind.FLOW), Referring(Stage.JOB, below="params")
    ] = None
    """Flow to run as a child in this case, instead of a template."""
    job_spec: JobSpecField = None
    container: ContainerField = None
    compute: ComputeField = None
    fail: FailField = None
    volumes: VolumesField = None
    patch: Annotated[
        Patch | None, For((WorkKind.JOB,), {WorkKind.FLOW: "write the patches into its steps"})
    ] = None
    """Changes to the job in this case, applied after the step's patch."""


class ForEach(Struct):
    """Runs one job per item. Set exactly one of items, from and count; at most 1,000 items."""

    items: Annotated[list[Any] | None, ONE_SOURCE] = None
    """Items, values of any type. The patch refers to the current one as $(item)."""
    from_: Annotated[str | None, Evaluated(Stage.DECISION, ValueKind.ITEMS), ONE_SOURCE] = (
        msgspec.field(name="from", default=None)
    )
    """CEL expression whose value is the list of items, such as params.rates or
    steps["split"].outputs.shards. Evaluated once."""
    count: Annotated[IntOrParam | None, ONE_SOURCE] = None
    """Number of items; they are 0, 1, 2 and so on. It may be a reference to a param, such as
    $(params.n)."""
    parallelism: IntOrParam | None = None
    """Maximum number of these jobs at a time. Default: no limit. It may be a reference to a param,
    such as $(params.n)."""
    when: Annotated[str | None, Evaluated(Stage.ITEM)] = None
    """CEL condition, evaluated once for each item when it is its turn, such as item.size > 20 or
    steps["x"].item.phase == "Completed". An item for which it is false is Skipped, and the step is
    Completed if the other items are."""
    max_failed: Annotated[
        ShareOrParam | None,
        NotWith({"minSuccess": "forEach.{} says how many items must complete; keep one of them"}),
    ] = None
    """Maximum number of failed items, or their percentage such as "5%", rounded down, with which
    the step completes. After one more failure the step fails: no further item starts, whatever
    failurePolicy says. It may be a reference to a param, such as $(params.n)."""
    min_success: ShareOrParam | None = None
    """Number of items, or their percentage such as "80%", rounded up, after whose success the step
    is Completed and its other items are ended. The step fails as soon as so many can no longer
    complete. It may be a reference to a param, such as $(params.n)."""
    until: Annotated[str | None, Evaluated(Stage.ITEM_END)] = None
    """CEL condition, evaluated whenever an item has completed, such as items.exists(i,
    i.phase == "Completed" && i.outputs.accuracy > 0.9). If it is true, the step is Completed and
    its other items are ended; if it never is, the step fails. Its variable items has the index,
    item, phase and outputs of each item that has ended."""


class Repeat(Struct):
    """Runs the step again, one run after another, until a condition is true."""

    until: Annotated[
        str | None, Evaluated(Stage.RUN_END), Required("set the CEL expression that ends the loop")
    ] = None
    """CEL condition, evaluated after each completed run, such as outputs.accuracy > 0.9. It can use
    outputs, phase, reason and index of that run. Required."""
    max: Annotated[
        IntOrParam | None,
        Required("set the maximum of runs, up to 1,000, after which the step fails"),
    ] = None
    """Maximum number of runs, 1 to 1,000. The step fails if the condition is still false after the
    last one. It may be a reference to a param, such as $(params.n). Required."""
    pause: str | None = None
    """Time between the end of a run and the start of the next one, such as 10m."""


class Backoff(Struct):
    """Pause before each attempt. It begins with duration and is multiplied by factor each time."""

    duration: str | None = None
    """Pause before the second attempt, such as 30s. Default: 1s."""
    factor: float | None = None
    """Multiplier applied to the pause after each attempt, 1 to 100. Default: 2."""
    max: str | None = None
    """Maximum pause, such as 10m. Default: 5m."""


class Retry(Struct):
    """Runs a failed step again."""

    limit: Annotated[IntOrParam | None, Required("set the number of attempts after the first")] = (
        None
    )
    """Maximum number of attempts after the first, 0 to 100. It may be a reference to a param, such
    as $(params.n). Required."""
    backoff: Backoff | None = None
    """Pause between attempts."""
    when: Annotated[str | None, Evaluated(Stage.ATTEMPT_END)] = None
    """CEL condition, such as reason != "Timeout". The step is retried only if it is true. It can
    use outputs, phase, reason, index and failure of the failed run, attempt and retries. It is not
    asked about a disruption that does not count."""
    patch: Annotated[
        Patch | None,
        For((WorkKind.JOB,), {WorkKind.FLOW: "write it into the retry of a step of the flow"}),
    ] = None
    """Changes to the job of each attempt after the first failure that counts towards limit, applied
    last, such as more memory. Its references can use failure, attempt and retries."""
    disruptions: Int32 | None = None
    """Maximum number of attempts that do not count towards limit because the cluster ended them: a
    pod was evicted, preempted or lost with its node. 0 to 100. Default: 5."""
    avoid_nodes: Annotated[
        bool | None, For((WorkKind.JOB,), {WorkKind.FLOW: "set it in the steps of the flow"})
    ] = None
    """Keep the next attempt off the nodes on which pods failed."""


class ApprovalAnswer(StrEnum):
    """The answers to an approval."""

    APPROVE = "Approve"
    REJECT = "Reject"


class Approval(Struct):
    """Waits until a user approves or rejects, or until the timeout does."""

    message: Annotated[str | None, Referring(Stage.QUESTION)] = None
    """Question to whoever decides. It may contain references such as $(params.x), $(item) and
    $(steps.x.outputs.y)."""
    timeout: DurationOrParam | None = None
    """Maximum time to wait for an answer, such as 24h, without the time the flow was suspended.
    Then default is the answer. Default: no limit. It may be a reference to a param, such as
    $(params.limit)."""
    default: str | None = None
    """Answer once the timeout is over: Approve or Reject (default)."""


class Param(Struct):
    """A parameter of the flow."""

    name: Annotated[str, Required("a param has a name")] = ""
    """Name. Patches refer to it as $(params.NAME), CEL expressions as params.NAME."""
    value: Any = None
    """Value, of any type."""
    enum: list[Any] | None = None
    """Allowed values."""


class JobDefaults(Struct):
    """Defaults for every job of the flow. Templates and patches override them."""

    queue: str | None = None
    """Queue of the jobs."""
    priority_class_name: str | None = None
    """Priority class of the pods."""
    scheduler_name: str | None = None
    """Scheduler of the pods."""
    plugins: dict[str, list[str]] | None = None
    """Arguments of Volcano's job plugins, by plugin name."""
    labels: dict[str, str] | None = None
    """Labels of the jobs."""
    annotations: dict[str, str] | None = None
    """Annotations of the jobs."""


class ReusePolicy(StrEnum):
    """Whether a step may take the results of an earlier flow."""

    IF_UNCHANGED = "IfUnchanged"
    NEVER = "Never"


class Reuse(Struct):
    """The ended flow whose completed runs count here as Completed, as far as nothing has changed in
    what they do and in what they are made of."""

    flow: Annotated[str, Required("write the name of the flow whose results are reused")] = ""
    """Name of a flow of the same namespace that has ended. Required."""
    uid: str | None = None
    """UID of that flow, so that no other flow of its name is taken. Default: any."""


class Concurrency(Struct):
    """Limits how many flows of a group run at once in a namespace. A flow holds a place in its
    group from its start to its end."""

    group: Annotated[
        str,
        Referring(Stage.FLOW_START),
        Required("write the name of the group whose flows share the places, such as nightly"),
    ] = ""
    """Name of the group, in which references such as $(params.env) may stand. Flows of the same
    namespace whose groups have the same name share the places. Required."""
    limit: Int32 | None = None
    """The flow starts once fewer than this number of flows of the group hold a place and none waits
    before it. Default: 1."""
    policy: str | None = None
    """Policy of the flow if its group has no free place. Wait (default): it waits for one. Replace:
    it cancels the flows that hold a place or wait before it, and starts when they have ended.
    Forbid: all its steps are skipped, and it ends."""


class StepConcurrency(Struct):
    """Limits how many jobs of a group of steps run at once in a namespace. Each attempt holds its
    places from before its job is created to the end of the job."""

    group: Annotated[
        str,
        Referring(Stage.FLOW_START),
        Required("write the name of the group whose steps share the places, such as licences"),
    ] = ""
    """Name of the group, in which references such as $(params.env) may stand. Steps of all flows of
    the same namespace whose groups have the same name share the places. Required."""
    limit: Int32 | None = None
    """The step, or an item of it, starts once its slots and those that are taken are at most this
    number, and none waits before it. Default: 1."""
    slots: Int32 | None = None
    """Number of places that the step, or each of its items, takes. Default: 1."""
