"""Control primitives of a flow: conditions, loops, retries, parameters and defaults."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.job import Int32, Opaque
from jobflow.api.meta import Doc, Struct


class FailurePolicy(StrEnum):
    """Effect of a failed step on the other steps of its flow."""

    STOP = "Stop"
    ABORT = "Abort"
    CONTINUE = "Continue"


class Patch(Struct, frozen=True, kw_only=True):
    """Changes to the template. Set either jobSpec or spec."""

    job_spec: Annotated[
        dict[str, Any] | None,
        Doc(
            "Strategic merge patch of the template's spec. Tasks, containers, volumes and env "
            "merge by name, volumeMounts by mountPath, ports by containerPort and protocol, "
            "tolerations by key, maps by key. Other lists are replaced; null removes a field. "
            "Strings may contain references such as $(params.x), $(item) and "
            "$(steps.x.outputs.y).",
            **Opaque,
        ),
    ] = None
    spec: Annotated[dict[str, Any] | None, Doc("Another name for jobSpec.", **Opaque)] = None


class Case(Struct, frozen=True, kw_only=True):
    """A case of a switch."""

    when: Annotated[
        str | None,
        Doc("CEL condition. The first case whose condition is true runs. Default: true."),
    ] = None
    template: Annotated[
        str | None, Doc("JobTemplate to run in this case, instead of the step's.")
    ] = None
    patch: Annotated[
        Patch | None, Doc("Changes to the template in this case, applied after the step's patch.")
    ] = None


class ForEach(Struct, frozen=True, kw_only=True):
    """Runs one job per item. Set exactly one of items, from and count; at most 1,000 items."""

    items: Annotated[
        list[Any] | None,
        Doc("Items, values of any type. The patch refers to the current one as $(item)."),
    ] = None
    from_: Annotated[
        str | None,
        Doc(
            "CEL expression whose value is the list of items, such as params.rates or "
            'steps["split"].outputs.shards. Evaluated once.'
        ),
    ] = msgspec.field(name="from", default=None)
    count: Annotated[Int32 | None, Doc("Number of items; they are 0, 1, 2 and so on.")] = None
    parallelism: Annotated[
        Int32 | None, Doc("Maximum number of these jobs at a time. Default: no limit.")
    ] = None


class Repeat(Struct, frozen=True, kw_only=True):
    """Runs the step again, one run after another, until a condition is true."""

    until: Annotated[
        str | None,
        Doc(
            "CEL condition, evaluated after each completed run, such as outputs.accuracy > 0.9. "
            "It can use outputs, phase, reason and index of that run. Required."
        ),
    ] = None
    max: Annotated[
        Int32 | None,
        Doc(
            "Maximum number of runs, 1 to 1,000. The step fails if the condition is still false "
            "after the last one. Required."
        ),
    ] = None


class Backoff(Struct, frozen=True, kw_only=True):
    """Pause before each attempt. It begins with duration and is multiplied by factor each time."""

    duration: Annotated[
        str | None, Doc("Pause before the second attempt, such as 30s. Default: 1s.")
    ] = None
    factor: Annotated[
        float | None,
        Doc("Multiplier applied to the pause after each attempt, 1 to 100. Default: 2."),
    ] = None
    max: Annotated[str | None, Doc("Maximum pause, such as 10m. Default: 5m.")] = None


class Retry(Struct, frozen=True, kw_only=True):
    """Runs a failed step again."""

    limit: Annotated[
        Int32 | None, Doc("Maximum number of attempts after the first, 0 to 100. Required.")
    ] = None
    backoff: Annotated[Backoff | None, Doc("Pause between attempts.")] = None
    when: Annotated[
        str | None,
        Doc(
            'CEL condition, such as reason != "Timeout". The step is retried only if it is true. '
            "It can use outputs, phase, reason and index of the failed run."
        ),
    ] = None
    avoid_nodes: Annotated[
        bool | None, Doc("Keep the next attempt off the nodes on which pods failed.")
    ] = None


class Param(Struct, frozen=True, kw_only=True):
    """A parameter of the flow."""

    name: Annotated[
        str, Doc("Name. Patches refer to it as $(params.NAME), CEL expressions as params.NAME.")
    ] = ""
    value: Annotated[Any, Doc("Value, of any type.")] = None
    enum: Annotated[list[Any] | None, Doc("Allowed values.")] = None


class JobDefaults(Struct, frozen=True, kw_only=True):
    """Defaults for every job of the flow. Templates and patches override them."""

    queue: Annotated[str | None, Doc("Queue of the jobs.")] = None
    priority_class_name: Annotated[str | None, Doc("Priority class of the pods.")] = None
    scheduler_name: Annotated[str | None, Doc("Scheduler of the pods.")] = None
    plugins: Annotated[
        dict[str, list[str]] | None, Doc("Arguments of Volcano's job plugins, by plugin name.")
    ] = None
    labels: Annotated[dict[str, str] | None, Doc("Labels of the jobs.")] = None
    annotations: Annotated[dict[str, str] | None, Doc("Annotations of the jobs.")] = None
