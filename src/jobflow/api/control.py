"""The control primitives of a flow as types: conditions, loops, retries, parameters, defaults."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from jobflow.api.job import Int32, Opaque
from jobflow.api.meta import Doc, Struct


class FailurePolicy(StrEnum):
    """What becomes of a flow's other steps once one has failed."""

    STOP = "Stop"
    ABORT = "Abort"
    CONTINUE = "Continue"


class Patch(Struct, frozen=True, kw_only=True):
    """What a step changes of its template. Set one of the two."""

    job_spec: Annotated[
        dict[str, Any] | None,
        Doc(
            "Merged onto the template's spec as Kubernetes merges: tasks, containers, volumes and "
            "env by name, volumeMounts by mountPath, ports by containerPort and protocol, "
            "tolerations by key, maps by key; other lists are replaced; null removes. Texts may "
            "hold references such as $(params.x), $(item), $(steps.x.outputs.y).",
            **Opaque,
        ),
    ] = None
    spec: Annotated[
        dict[str, Any] | None, Doc("The same by its other name; not both.", **Opaque)
    ] = None


class Case(Struct, frozen=True, kw_only=True):
    """One case of a switch."""

    when: Annotated[
        str | None, Doc("CEL; the first case for which it holds is taken. Not set: the default.")
    ] = None
    template: Annotated[
        str | None, Doc("The JobTemplate to run in this case, instead of the step's.")
    ] = None
    patch: Annotated[
        Patch | None, Doc("What this case changes of its template, after the step's own patch.")
    ] = None


class ForEach(Struct, frozen=True, kw_only=True):
    """One job an item. Set one of items, from and count; at most 1,000 items."""

    items: Annotated[
        list[Any] | None, Doc("The items: values of any type; $(item) in the patch.")
    ] = None
    from_: Annotated[
        str | None,
        Doc(
            "CEL that gives the list of items, such as params.rates or "
            'steps["split"].outputs.shards; evaluated once.'
        ),
    ] = msgspec.field(name="from", default=None)
    count: Annotated[Int32 | None, Doc("So many items: 0, 1, 2 …")] = None
    parallelism: Annotated[
        Int32 | None, Doc("The most of these jobs at once; no limit where not set.")
    ] = None


class Repeat(Struct, frozen=True, kw_only=True):
    """Runs again, one after another, until an expression holds."""

    until: Annotated[
        str | None,
        Doc(
            "CEL, evaluated after each run that has completed, such as outputs.accuracy > 0.9; "
            "outputs, phase, reason and index are that run's. Required."
        ),
    ] = None
    max: Annotated[
        Int32 | None,
        Doc("The most runs, 1 to 1,000; the step fails if it does not hold then. Required."),
    ] = None


class Backoff(Struct, frozen=True, kw_only=True):
    """How long to wait before an attempt: duration, then factor times as long each time."""

    duration: Annotated[str | None, Doc("Before the second attempt, such as 30s. Default: 1s.")] = (
        None
    )
    factor: Annotated[
        float | None, Doc("So many times as long each time, 1 to 100. Default: 2.")
    ] = None
    max: Annotated[str | None, Doc("The longest pause, such as 10m. Default: 5m.")] = None


class Retry(Struct, frozen=True, kw_only=True):
    """Runs a failed step again."""

    limit: Annotated[
        Int32 | None, Doc("How many attempts after the first, 0 to 100. Required.")
    ] = None
    backoff: Annotated[Backoff | None, Doc("How long to wait in between.")] = None
    when: Annotated[
        str | None,
        Doc(
            'CEL, such as reason != "Timeout"; only while it holds is there another attempt. '
            "outputs, phase, reason and index are those of the failed one."
        ),
    ] = None
    avoid_nodes: Annotated[
        bool | None, Doc("Keep the next attempt off the nodes where pods failed.")
    ] = None


class Param(Struct, frozen=True, kw_only=True):
    """A parameter of the flow."""

    name: Annotated[str, Doc("Its name: $(params.NAME) in patches, params.NAME in CEL.")] = ""
    value: Annotated[Any, Doc("Its value, of any type.")] = None
    enum: Annotated[list[Any] | None, Doc("The values it may have.")] = None


class JobDefaults(Struct, frozen=True, kw_only=True):
    """For every job of the flow, where its template and patches do not say otherwise."""

    queue: Annotated[str | None, Doc("The queue.")] = None
    priority_class_name: Annotated[str | None, Doc("The priority class of the pods.")] = None
    scheduler_name: Annotated[str | None, Doc("The scheduler.")] = None
    plugins: Annotated[
        dict[str, list[str]] | None, Doc("Volcano's job plugins by name with their arguments.")
    ] = None
    labels: Annotated[dict[str, str] | None, Doc("Labels of the jobs.")] = None
    annotations: Annotated[dict[str, str] | None, Doc("Annotations of the jobs.")] = None
