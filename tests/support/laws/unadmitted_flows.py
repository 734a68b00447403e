"""Random flows, statuses and vcjobs that admission refuses or JobFlow does not write: from before
admission, written by hand, or written by another version."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from jobflow.api import labels
from jobflow.api.flow.control import (
    Approval,
    Backoff,
    Case,
    Concurrency,
    ForEach,
    JobDefaults,
    Param,
    Patch,
    Repeat,
    Retry,
)
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.status import JobFlowStatus, JobRecord, RunCondition
from jobflow.api.flow.step import Condition, DependsOn, Probe, Step, TaskStatusProbe, TCPSocketProbe
from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import Job, JobCondition, JobState
from support.plan.plan_world import World
from support.plan.steps import template
from support.plan.world_state import FLOW_UID, NOW

T = TypeVar("T", bound=msgspec.Struct)

_NAMES = ("a", "b", "c", "a-0", "", "é")
_NUMBERS = (None, 0, 1, 2, 3, -1, 100, 2**31 - 1, -(2**31))
_SETTINGS: tuple[int | str | None, ...] = (
    *_NUMBERS,
    "$(params.x)",
    "$(params.none)",
    "3",
    "$(item)",
)
"""Numbers that may refer to a param."""
_EXPRESSIONS = (
    *(None, "", "true", "false", "1", "params.x", "outputs.x > 1", "item", "index > 0", "[1,2]"),
    *(
        "has(last.outputs)",
        "items.size() > 1",
        "attempt > 1 || retries > 1",
        "size(flow.failures) > 0",
    ),
    *("failure.exitCode == 1", 'steps["a"].failure.node == ""'),
    *('steps["a"].phase == "Completed"', "x(", 'steps["zz"].phase', "params.x.map(y, y)"),
)
_DURATIONS = (None, "", "1s", "$(params.x)", "x", "99999999h", "0s", "1ns", "876000h")
_PATCHES: tuple[dict[str, Any], ...] = (
    {},
    {"queue": "$(params.x)"},
    {"queue": "$(vars.v)"},
    {"queue": "$(item)", "tasks": None},
    {"tasks": [{"name": "t", "replicas": "$(steps.a.outputs.y)"}]},
    {"queue": "$(steps.b.failure.reason)"},
    {"queue": "$(last.outputs.x)$(failure.node)$(attempt)$(retries)$(flow.failures)"},
    {"tasks": 3, "ttlSecondsAfterFinished": "$(index)"},
)
_WORKS: tuple[dict[str, Any], ...] = (
    *({}, {}, {}, {"volumes": ["x"]}, {"container": {}}),
    {"container": {"image": "$(params.x)"}, "job_spec": {"tasks": [{"template": 3}]}},
    {"job_spec": {"tasks": [{"name": "t", "replicas": "$(index)"}, 7]}},
)
_TIMES = (
    *(None, NOW, NOW - timedelta(hours=1), NOW + timedelta(days=1)),
    *(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
)
_PHASES = (
    *("", "Waiting", "Pending", "Running", "Completed", "Failed", "Skipped", "Aborting"),
    *("Aborted", "Terminated", "Restarting", "weird"),
)
_REASONS = (
    *("", "Cancelled", "Timeout", "Retrying", "JobLost", "Suspended", "FailurePolicy"),
    *("DaemonEnded", "NotTaken", "UpstreamFailed", "Stopped", "Parallelism", "Starting", "weird"),
)
_JOBS = ("f-a", "f-a-0", "f-a-1", "f-b", "f-c-r1", "f-a-r1")
_TEXTS = ("", "a", "t", "é", "x" * 500, "99999999999999h", "1e999", "c", "uid-c")
_FLOW_PHASES = ("", "Pending", "Running", "Failed", "Succeed", "Terminating", "weird")
_WORDS: Mapping[str, tuple[str, ...]] = {
    "phase": (*_PHASES, *_FLOW_PHASES),
    "state": _PHASES,
    "reason": (*_REASONS, "Invalid"),
    "job": ("", "x", *_JOBS),
    "name": _JOBS,
    "passed_targets": _NAMES,
    "suspended_by": ("", "AbortJob", "SuspendFlow", "spec.suspend", "weird"),
    "handled_commands": ("uid-c", "gone"),
}
"""The texts of a status by field; other fields have any of _TEXTS."""
_INTEGERS = (0, 1, 2, -1, 100, 1000, 2**31 - 1, -(2**31))
_COUNTS: Mapping[str, tuple[int, ...]] = {
    "attempts": (0, 1, 1, 2, *_INTEGERS),
    "past_attempts": (0, 0, 0, 1, *_INTEGERS),
    "index": (0, 1, 2, *_INTEGERS),
    "suspended_seconds": (5, 10**9, 10**18, *_INTEGERS),
}


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"k": [value]}
    return value


_JSON: list[Any] = [None, 1, -1, 1e308, "q", [], {}, {"k": 1}, [1, {"k": 2}], "x" * 500]
_JSON.append(_nested(50))
MANY = 5000
"""Number of entries in a very long list or map."""
MOST_BYTES = 1_500_000
"""About the size of the largest object that a cluster stores."""
_COMMANDS = (
    "AbortJob", "SuspendFlow", "ResumeJob", "TerminateJob", "TerminateNow", "RestartJob",
    "RetryTolerated", "x",
    "ApproveStep", "RejectStep",
)  # fmt: skip


_ANSWERS = ("", "a", "a/0 yes", "b/1", "a-0", "/", "é no", "c/x")
_OUTPUTS = ("", "{}", '{"x": 1, "y": null}', "[1]", "{" * 50, '{"x": "' + "x" * 5000 + '"}')


def _numbered(entry: Any, number: int) -> Any:
    """Return another entry that differs from this one in its number."""
    if isinstance(entry, RunCondition):
        return msgspec.structs.replace(entry, index=number, job=f"f-a-{number}")
    if isinstance(entry, JobRecord):
        return msgspec.structs.replace(entry, name=f"f-a-{number}")
    return f"{entry}-{number}" if isinstance(entry, str) else entry


class UnadmittedWorlds:
    """Draws one world after another."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice
        self._one = dice.choice

    def world(self) -> World:
        """Draw a flow with its vcjobs, and sometimes a Command."""
        one = self._one
        flow = JobFlow(
            metadata=ObjectMeta(
                name="f",
                namespace="ns",
                uid=FLOW_UID,
                generation=1,
                creation_timestamp=NOW,
                deletion_timestamp=one([None, None, None, NOW]),
            ),
            spec=self._spec(),
            status=self._status(),
        )
        known = {
            name: template(name) for name in ("a", "b", "c") if self._rarely(4, otherwise=True)
        }
        world = World(flow, known)
        jobs = {name: self._job(world, name) for name in _JOBS if self._rarely(3)}
        world = replace(
            world,
            jobs=jobs,
            deleted=frozenset(name for name in jobs if self._rarely(5)),
            missing=frozenset(name for name in _JOBS if self._rarely(3)),
        )
        if not self._rarely(3):
            return world
        text, outputs = one(_ANSWERS), {labels.OUTPUTS: one(_OUTPUTS)}
        annotations = one([None, outputs])
        return world.with_command(one(_COMMANDS), name="c", text=text, annotations=annotations)

    def _rarely(self, one_in: int, *, otherwise: bool = False) -> bool:
        return (self._dice.randrange(one_in) == 0) is not otherwise

    # --------------------------------------------------------------------------------- specs

    def _spec(self) -> JobFlowSpec:
        one = self._one
        last = [self._step() for _ in range(self._dice.randint(0, 2))]
        params = [Param(name="x", value=one([None, 1, [1, 2], {"a": None}, "t"]))]
        return self._filled(
            JobFlowSpec,
            flows=one([None, *([[self._step() for _ in range(self._dice.randint(0, 4))]] * 20)]),
            targets=one([None, None, [], ["a"], ["b", "zz"]]),
            finally_=one([None, last]),
            params=one([None, params]),
            parallelism=one([None, one(_SETTINGS)]),
            timeout=one(_DURATIONS),
            failure_policy=one([None, "Stop", "Abort", "Continue", "x"]),
            ttl_seconds_after_finished=one(_NUMBERS),
            ttl_seconds_after_succeeded=one(_NUMBERS),
            ttl_seconds_after_failed=one(_NUMBERS),
            concurrency=one([None, None, Concurrency(group=one(["", "g", "$(params.x)"]))]),
            volume_claims=one([None, {"data": one([None, {}, "x", {"a": "$(item)"}])}]),
            suspend=one([None, True]),
            outputs=one([None, {"x": one(_EXPRESSIONS) or "1"}]),
            job_retain_policy=one([None, "delete", "x"]),
            job_defaults=one([None, JobDefaults(queue="q", plugins={"svc": []})]),
        )

    def _filled(self, kind: type[T], **given: Any) -> T:
        """Draw an object whose other fields have any values of their types, such as a new field."""
        hints = get_type_hints(kind, include_extras=True)
        others = {n: self._drawn(hint, n) for n, hint in hints.items() if n not in given}
        return kind(**given, **others)

    def _step(self) -> Step:
        one = self._one
        works: dict[str, Any] = {"container": None, "job_spec": None, "volumes": None}
        return self._filled(
            Step,
            name=one(_NAMES),
            template=one([None, "a", "zz"]),
            **works | one(_WORKS),
            env=one([None, None, {"A": "$(params.x)", "B": None, "": {"x": 1}}]),
            args=one([None, None, "x", [1, "$(item)", None]]),
            depends_on=one([None, self._depends_on()]),
            vars=one([None, {"v": one(_EXPRESSIONS) or "1"}, {"": "1", "v.w": "2"}]),
            patch=self._patch(),
            flow=one([None, None, {}, {"flows": [{"name": "x"}], "params": {"x": "$(item)"}}]),
            when=one([None, None, one(_EXPRESSIONS)]),
            switch=one([None, None, [], [self._case(), Case()]]),
            for_each=one([None, None, self._for_each()]),
            repeat=one(
                [
                    None,
                    None,
                    Repeat(until=one(_EXPRESSIONS), max=one(_SETTINGS), pause=one(_DURATIONS)),
                ]
            ),
            retry=one([None, self._retry()]),
            timeout=one([*_DURATIONS, "$(vars.x)"]),
            queue_timeout=one(_DURATIONS),
            approval=self._approval() if self._rarely(4) else None,
            daemon=one([None, None, True]),
        )

    def _approval(self) -> Approval:
        one = self._one
        return Approval(
            message=one([None, "", "x" * 500, "$(params.x)", "$(steps.zz.outputs.y)", "$(item)"]),
            timeout=one(_DURATIONS),
            default=one([None, "Approve", "Reject", "x"]),
        )

    def _depends_on(self) -> DependsOn:
        one = self._one
        phase = TaskStatusProbe(
            task_name=one(["t", None]), phase=one(["Running", "x", None]), count=one(_NUMBERS)
        )
        port = TCPSocketProbe(task_name="t", port=one(_NUMBERS))
        probes = [Probe(), Probe(task_status_list=[phase]), Probe(tcp_socket_list=[port])]
        return DependsOn(
            targets=one([None, [], [one(_NAMES)], [one(_NAMES), one(_NAMES)]]),
            strategy=one([None, "all", "any", "x"]),
            condition=one([None, *Condition, "x"]),
            items=one([None, None, None, "Matching", "x"]),
            conditions=one([None, None, {}, {"a": "Running"}, {"b": "Failed", "zz": "x"}]),
            probe=one([None, None, None, *probes]),
        )

    def _patch(self) -> Patch | None:
        return self._one([None, None, Patch(job_spec=self._one(_PATCHES))])

    def _case(self) -> Case:
        one = self._one
        template = one([None, "b", "zz"])
        return Case(when=one(_EXPRESSIONS), template=template, patch=self._patch(), **one(_WORKS))

    def _for_each(self) -> ForEach:
        one = self._one
        return ForEach(
            items=one([None, [], [None], [{"k": None}, 2]]),
            from_=one(_EXPRESSIONS),
            count=one(_SETTINGS),
            parallelism=one(_SETTINGS),
            when=one(_EXPRESSIONS),
            max_failed=one([None, "5%", one(_SETTINGS)]),
            min_success=one([None, "150%", one(_SETTINGS)]),
            until=one(_EXPRESSIONS),
        )

    def _retry(self) -> Retry:
        one = self._one
        factor = one([None, 0.0, 1.0, -1.0, 1e308, 2.0])
        backoff = Backoff(duration=one(_DURATIONS), factor=factor, max=one(_DURATIONS))
        return Retry(
            limit=one(_SETTINGS),
            backoff=one([None, backoff]),
            when=one(_EXPRESSIONS),
            patch=one([None, Patch(job_spec=one(_PATCHES))]),
            disruptions=one(_NUMBERS),
            avoid_nodes=one([None, True]),
        )

    # ------------------------------------------------------------------------------- statuses

    def _status(self) -> JobFlowStatus:
        """Draw a status of any values that its types allow."""
        drawn = self._drawn(JobFlowStatus)
        assert isinstance(drawn, JobFlowStatus)
        return drawn

    def _drawn(self, kind: Any, name: str = "") -> Any:
        """Draw a value of a type for a field; most texts are words that a plan knows."""
        if get_origin(kind) is Annotated:
            return self._drawn(get_args(kind)[0], name)
        if get_origin(kind) in (Union, UnionType):
            return self._drawn(get_args(kind)[0], name) if self._rarely(2) else None
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            hints = get_type_hints(kind, include_extras=True)
            return kind(**{n: self._drawn(hint, n) for n, hint in hints.items()})
        if get_origin(kind) in (dict, list):
            return self._several(kind, name)
        if kind is str:
            return self._one(_WORDS.get(name, _JOBS if name.endswith("jobs") else _TEXTS))
        choices: dict[Any, Sequence[Any]] = {
            int: _COUNTS.get(name, _INTEGERS),
            bool: [False, True],
            datetime: _TIMES[1:],
            Any: _JSON,
        }
        return self._one(choices[kind])

    def _several(self, kind: Any, name: str) -> Any:
        """Draw a few entries, or very many similar ones."""
        inner = get_args(kind)[-1]
        few = [self._drawn(inner, name) for _ in range(self._dice.randint(0, 3))]
        many = few
        if few and self._rarely(40):
            size = len(msgspec.json.encode(few))
            many = few * min(MANY // len(few), 1 + MOST_BYTES // size)
        if get_origin(kind) is list:
            return [_numbered(entry, n) if n >= len(few) else entry for n, entry in enumerate(many)]
        keys = [f"f-{name}" for name in _NAMES] if name == "conditions" else list(_TEXTS)
        self._dice.shuffle(keys)
        return {keys[n] if n < len(keys) else f"f-{n}": entry for n, entry in enumerate(many)}

    def _job(self, world: World, name: str) -> Job:
        one = self._one
        job = world.job(
            one("abc"), one(["", "Pending", "Running", "Completed", "Failed", "Aborted"])
        )
        marks = {labels.STEP: one("abc"), labels.ATTEMPT: one(["1", "2", "x", "", "9" * 9, "٣"])}
        marks |= one([{}, {labels.INDEX: one(["0", "1", "99999", "-1", "x"])}])
        since = one(_TIMES)
        state = JobState(phase=job.phase, last_transition_time=since)
        conditions = [JobCondition(status="Running", last_transition_time=since)]
        status = msgspec.structs.replace(job.status, state=state, conditions=conditions)
        metadata = msgspec.structs.replace(
            job.metadata,
            name=name,
            uid=f"uid-{name}",
            labels=marks,
            annotations=one([None, dict(marks), {labels.TTL_SECONDS: "5"}]),
            creation_timestamp=one(_TIMES),
            deletion_timestamp=one([None, None, NOW]),
        )
        return msgspec.structs.replace(job, metadata=metadata, status=one([job.status, status]))
