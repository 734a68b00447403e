"""The configurations: small flows, each with a budget of rare events.

A name has both: the flow, then the rare events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from jobflow.api.flow.control import (
    Approval,
    Backoff,
    Case,
    Concurrency,
    ForEach,
    Param,
    Patch,
    Repeat,
    Retry,
    StepConcurrency,
)
from jobflow.api.flow.step import DependsOn, Probe, Step, TaskStatusProbe, TCPSocketProbe
from jobflow.core.admission.validate import Known, validate_flow
from model.explorer.reusing_flows import CHILD_OF_TWO, REUSING
from model.explorer.states import Flow
from model.random_values import CLAIMS
from support.plan.plan_world import World, flow
from support.plan.steps import TEMPLATE_SPEC, mounting, step, template

COMMANDS = {
    "suspend": "SuspendFlow",
    "suspend and abort": "AbortJob",
    "resume": "ResumeJob",
    "cancel": "TerminateJob",
    "retry": "RestartJob",
    "retry tolerated": "RetryTolerated",
    "approve": "ApproveStep",
    "reject": "RejectStep",
    "cancel step": "CancelStep",
    "skip step": "SkipStep",
    "retry step": "RetrySteps",
    "scale": "ScaleFlow",
}
"""Commands of users, by their names in a budget."""
RARE = frozenset(
    {"busy", "crash", "lost answer", "fail", "evict", "edit", "delete job", "delete flow"}
    | {"template", "delete source", "late"}
    | COMMANDS.keys()
)
"""All events that may have a budget."""


@dataclass(frozen=True)
class Configuration:
    """A flow, and how often each rare event may happen."""

    world: World
    budget: Mapping[str, int]
    reads: bool = False
    """Whether the controller has to read the pods of vcjobs that failed; else it has read them."""
    name: str = ""
    rare: tuple[str, ...] = field(init=False)
    """The rare events that have a budget, by name."""

    def __post_init__(self) -> None:
        assert not validate_flow(self.world.flow, Known(templates=self.world.templates)).violations
        assert set(self.budget) <= RARE, self.budget
        timed = [step.name for step in self.world.flow.all_steps if step.flow and step.timeout]
        assert not timed, "states do not differ in the time since which a child flow has run"
        object.__setattr__(self, "rare", tuple(sorted(self.budget)))

    @cached_property
    def steps(self) -> dict[str, Step]:
        return {step.name: step for step in self.world.flow.all_steps}

    @cached_property
    def last(self) -> frozenset[str]:
        """The steps of `finally`."""
        return frozenset(step.name for step in self.world.flow.spec.finally_ or ())

    @cached_property
    def shares(self) -> bool:
        """Whether the flow shares a place with another one, which holds it at first."""
        return self.world.flow.spec.concurrency is not None or self.steps_share

    def holds_place(self, flow: Flow) -> bool:
        """Return whether the flow, or a step of it, holds the place by its status."""
        status = flow.status.value
        places = any(place.job for place in status.places or ())
        return not flow.final and (places if self.steps_share else status.start_time is not None)

    @cached_property
    def steps_share(self) -> bool:
        """Whether it is the place of steps."""
        return any(step.concurrency is not None for step in self.steps.values())

    @cached_property
    def times_jobs(self) -> bool:
        """Whether the time of a vcjob's phase matters."""
        ttl = any(
            "ttlSecondsAfterFinished" in entry.spec for entry in self.world.templates.values()
        )
        return ttl or any(step.timeout or step.queue_timeout for step in self.steps.values())

    @cached_property
    def times_flow(self) -> bool:
        """Whether the times of the flow's start, suspension and end matter."""
        spec = self.world.flow.spec
        ttls = (
            spec.ttl_seconds_after_finished,
            spec.ttl_seconds_after_succeeded,
            spec.ttl_seconds_after_failed,
        )
        approvals = (step.approval for step in self.steps.values())
        times = [spec.timeout, *ttls, *(each.timeout for each in approvals if each is not None)]
        times += [step.queue_timeout for step in self.steps.values()]
        return any(time is not None for time in times)


def _with_ttl(world: World, seconds: int) -> World:
    spec = {**TEMPLATE_SPEC, "ttlSecondsAfterFinished": seconds}
    return replace(world, templates={name: template(name, spec) for name in world.templates})


def _with_policy(world: World, event: str) -> World:
    spec = {**TEMPLATE_SPEC, "policies": [{"event": event, "action": "TerminateJob"}]}
    return replace(world, templates={name: template(name, spec) for name in world.templates})


def _with_claim(world: World) -> World:
    """All jobs mount a claim."""
    spec = mounting("data")
    templates = {name: template(name, spec) for name in world.templates}
    return replace(world.with_spec(volume_claims=CLAIMS), templates=templates)


def grouped(world: World, policy: str | None = None) -> World:
    """The flow shares one place with other flows."""
    return world.with_spec(concurrency=Concurrency(group="g", policy=policy))


def _probing(probe: Probe) -> Step:
    return Step(depends_on=DependsOn(targets=["a"], probe=probe))


def _matching(target: str) -> Step:
    patch = Patch(job_spec={"queue": f"$(steps.{target}.item.phase)"})
    return Step(depends_on=DependsOn(targets=[target], items="Matching"), patch=patch)


APPROVED_LATER = Approval(timeout="30s", default="Approve")
ONCE = Retry(limit=1)
DISRUPTIONS = 1
"""Disruptions that do not count, in flows whose vcjobs are evicted."""
PATCH = Patch(job_spec={"queue": "q$(failure.exitCode)-$(retries)"})
NOT_COUNTED = Retry(limit=1, when="attempt < 3 && retries < 1", disruptions=DISRUPTIONS)
AT_ONCE = Retry(limit=1, backoff=Backoff(duration="0s"))
LATER_AFTER_TIMEOUT = Retry(limit=1, when='failure.reason == "Timeout"')
TWICE = ForEach(count=2)
PLACE = StepConcurrency(group="g")
ONE_BY_ONE = ForEach(count=2, parallelism=1)
UNTIL = Repeat(until="index >= 1", max=2)
PAUSING = Repeat(until="index >= 1", max=2, pause="5s")
RUNNING = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Running")])
PORT = Probe(tcp_socket_list=[TCPSocketProbe(task_name="t", port=80)])
CASES = [Case(when='steps["a"].phase == "Failed"', template="c"), Case(template="b")]
FAILED = 'steps["a"].phase == "Failed"'
UNKNOWN_CODE = 'steps["a"].failure.exitCode == -1'

CHILD = {"flows": [{"name": "i"}]}
CHILD_WITH_ERROR = {
    "flows": [
        {"name": "i"},
        {"name": "j", "dependsOn": {"targets": ["i"]}, "when": 'steps["i"].outputs.n > 0'},
    ]
}
"""Its expression has no value, because no vcjob has outputs."""
CONTINUING_CHILD = {"flows": [{"name": "i", "continueOnFailure": True}]}
CHILD_WITH_A_PLACE = {"flows": [{"name": "i", "concurrency": {"group": "g"}}]}
CHILD_WITH_FINALLY = {"flows": [{"name": "i"}], "finally": [{"name": "z"}]}

FLOWS: dict[str, World] = {
    "one step": flow("a"),
    "chain": flow("a", b="a"),
    "container": flow(a=step(container={"image": "busybox"}, env={"A": 1}), b="a"),
    "chain of 3": flow("a", b="a", c="b"),
    "fan-in": flow("a", "b", c="a b"),
    "any Running": flow("a", "b", c=step("a b", strategy="any", condition="Running")),
    "on failure": flow("a", h=step("a", condition="Failed"), b="a"),
    "conditions": flow("a", "b", h=step("a b", conditions={"b": "Failed"})),
    "when": flow("a", b=step("a", condition="Finished", when=FAILED)),
    "when by failure": flow("a", b=step("a", condition="Finished", when=UNKNOWN_CODE)),
    "switch": flow("a", b=step("a", condition="Finished", switch=CASES)).with_spec(),
    "forEach": flow(a=step(for_each=TWICE), b="a"),
    "forEach from": flow("a", b=step("a", for_each=ForEach(from_='["x", "y"]'))),
    "forEach one by one": flow(a=step(for_each=ONE_BY_ONE, retry=ONCE), b="a"),
    "forEach with maxFailed": flow(a=step(for_each=ForEach(count=2, max_failed=1)), b="a"),
    "forEach with minSuccess": flow(a=step(for_each=ForEach(count=2, min_success=1)), b="a"),
    "forEach with until": flow(a=step(for_each=ForEach(count=2, until="items.size() > 1")), b="a"),
    "forEach that continues": flow(a=step(for_each=TWICE, continue_on_failure=True), b="a"),
    "repeat": flow(a=step(repeat=UNTIL), b="a"),
    "repeat with a pause": flow(a=step(repeat=PAUSING), b="a"),
    "repeat with retry": flow(a=step(repeat=UNTIL, retry=ONCE)),
    "retry": flow(a=step(retry=ONCE), b="a"),
    "retry at once": flow(a=step(retry=AT_ONCE), b="a"),
    "retry when": flow(a=step(retry=Retry(limit=1, when='phase == "Failed"')), b="a"),
    "retry patch": flow(a=step(retry=Retry(limit=1, patch=PATCH))),
    "disruptions": _with_policy(flow(a=step(retry=NOT_COUNTED)), "PodEvicted"),
    "step timeout": flow(a=step(timeout="30s"), b="a"),
    "step timeout and retry": flow(a=step(timeout="30s", retry=ONCE), b="a"),
    "timeout of vars": flow(
        a=step(timeout="$(vars.t)", vars={"t": "30 * attempt"}, retry=LATER_AFTER_TIMEOUT)
    ),
    "queue timeout": flow(a=step(queue_timeout="30s")),
    "queue timeout and retry": flow(a=step(queue_timeout="30s", retry=AT_ONCE), b="a"),
    "flow timeout": flow("a", b="a").with_spec(timeout="100s"),
    "flow timeout and finally": flow("a", b="a").with_spec(timeout="100s").with_finally("z"),
    "parallelism": flow("a", "b").with_spec(parallelism=1),
    "vars": flow("a", b=step("a", condition="Running", vars={"x": 'steps["a"].job'},
                             patch=Patch(spec={"queue": "$(vars.x)"}))),
    "parallelism of a param": flow("a", "b").with_spec(
        params=[Param(name="n", value=1)], parallelism="$(params.n)"
    ),
    "parallelism and a chain": flow("a", "b", c="a").with_spec(parallelism=1),
    "Abort": flow("a", "b").with_spec(failure_policy="Abort"),
    "Abort with a handler": flow(
        "a", "b", h=step("a", condition="Finished")
    ).with_spec(failure_policy="Abort"),
    "Abort and finally": flow("a", "b").with_spec(failure_policy="Abort").with_finally("z"),
    "Continue": flow("a", "b", c="a").with_spec(failure_policy="Continue"),
    "continueOnFailure": flow(
        a=step(continue_on_failure=True), b="a", h=step("a", condition="Failed")
    ),
    "finally": flow("a", b="a").with_finally("z"),
    "optional step": flow(
        "a",
        o=step("a", when=FAILED),
        b=step("o", condition="NotFailed"),
        c=step("b", condition="Always"),
    ),
    "matching items": flow(a=step(for_each=TWICE), b=_matching("a")),
    "items that are not taken": flow(
        a=step(for_each=ForEach(count=2, parallelism=1, when="index > 0")), b=_matching("a")
    ),
    "targets": flow("a", b="a", c="b", d="a").with_spec(targets=["b"]).with_finally("z"),
    "chain in finally": flow("a").with_finally("y", z=step("y", condition="Finished")),
    "outputs": flow("a").with_spec(outputs={"how": "flow.phase", "n": 'steps["a"].attempts'}),
    "daemon": flow(d=step(daemon=True), b=step("d", condition="Running")),
    "daemon and Abort": flow(
        "x", d=step(daemon=True), b=step("d", condition="Running")
    ).with_spec(failure_policy="Abort"),
    "daemon and its end": flow(
        d=step(daemon=True), b=step("d", condition="Completed"), c="b"
    ),
    "ends of two daemons": flow(
        d=step(daemon=True), e=step(daemon=True), b=step("d", condition="Finished"), c="b e"
    ),
    "daemon and finally": flow(
        d=step(daemon=True), b=step("d", condition="Running")
    ).with_finally("z"),
    "approval": flow(ok=step(approval=Approval()), b="ok"),
    "approval with timeout": flow(ok=step(approval=APPROVED_LATER), b="ok"),
    "approval of items and Abort": flow(
        ok=step(approval=Approval(), for_each=TWICE), b="ok"
    ).with_spec(failure_policy="Abort"),
    "approval and Running": flow(
        ok=step(approval=APPROVED_LATER), b=step("ok", condition="Running")
    ),
    "approval of items and matching items": flow(
        ok=step(approval=Approval(), for_each=TWICE), b=_matching("ok")
    ),
    "values and a gate": flow(
        a=step(compute={"n": "1"}),
        b=step("a", compute={"n": "steps['a'].outputs.n + 1"}),
        c="b",
        gate=step("c", when="steps['b'].outputs.n > 1", fail="$(steps.b.outputs.n)"),
        d=step("gate", condition="Failed"),
    ),
    "values of items and matching items": flow(
        a=step(compute={"n": "item"}, for_each=TWICE), b=_matching("a")
    ),
    "approval in finally": flow("a").with_finally(ok=step(approval=APPROVED_LATER)),
    "created suspended": flow("a", b="a").with_spec(suspend=True),
    "probe of a task": flow("a", b=_probing(RUNNING)),
    "probe of a port": flow("a", b=_probing(PORT)),
    "ttl of jobs": _with_ttl(flow("a", b="a"), 5),
    "ttl of the flow": flow("a").with_spec(ttl_seconds_after_finished=5),
    "ttl of a failed flow": flow("a").with_spec(ttl_seconds_after_failed=5),
    "volume claim": _with_claim(flow("a", b="a")),
    "concurrency": grouped(flow("a", b="a")),
    "concurrency and finally": grouped(flow("a").with_finally("z")),
    "places": flow(a=step(concurrency=PLACE), b="a"),
    "places and a retry": flow(a=step(concurrency=PLACE, retry=AT_ONCE)),
    "places of two steps": flow(a=step(concurrency=PLACE), b=step(concurrency=PLACE)),
    "places and parallelism": flow("b", a=step(concurrency=PLACE)).with_spec(parallelism=1),
    "places and items": flow(a=step(concurrency=PLACE, for_each=TWICE)),
    "concurrency: Replace": grouped(flow("a"), policy="Replace"),
    "concurrency: Forbid": grouped(flow("a").with_finally("z"), policy="Forbid"),
    "retain policy delete": flow("a", b="a", retain="delete"),
    **REUSING,
    "child flow": flow(a=step(flow=CHILD)).with_spec(),
    "chain and a child flow": flow(a=step(flow=CHILD), b="a").with_spec(),
    "child flow that continues": flow(a=step(flow=CONTINUING_CHILD), b="a").with_spec(),
    "child flow of two steps": flow(a=step(flow=CHILD_OF_TWO)).with_spec(),
    "child flow with finally": flow(a=step(flow=CHILD_WITH_FINALLY)).with_spec(),
    "child flow and a handler": flow(
        a=step(flow=CHILD), h=step("a", condition="Failed"), b="a"
    ).with_spec(),
    "child flow with an error": flow(
        a=step(flow=CHILD_WITH_ERROR, continue_on_failure=True), b="a"
    ).with_spec(),
    "child flow and Abort": flow(
        "b", a=step(flow=CHILD_WITH_FINALLY)
    ).with_spec(failure_policy="Abort"),
    "child flow and retry": flow(a=step(flow=CHILD, retry=AT_ONCE)).with_spec(),
    "child flows that share a place": flow(
        a=step(flow=CHILD_WITH_A_PLACE, for_each=TWICE)
    ).with_spec(),
    "child flows of items": flow(a=step(flow=CHILD, for_each=TWICE)).with_spec(),
}  # fmt: skip


def _configuration(name: str, *rare: str, reads: bool = False) -> Configuration:
    """`rare`: "crash" once, "fail 2" twice."""
    budget: dict[str, int] = {}
    for entry in rare:
        event, _, times = entry.rpartition(" ")
        budget |= {event: int(times)} if times.isdigit() else {entry: 1}
    return Configuration(FLOWS[name], budget, reads, f"{name}: {', '.join(rare)}")


CONFIGURATIONS: tuple[Configuration, ...] = (
    _configuration("one step", "fail", "crash", reads=True),
    _configuration("one step", "crash", "fail", "retry"),
    _configuration("one step", "edit", "crash", "lost answer"),
    _configuration("child flow", "crash", "fail"),
    _configuration("outputs", "crash", "retry", "fail"),
    _configuration("ttl of the flow", "crash", "retry", "fail"),
    _configuration("one step", "crash", "lost answer", "fail"),
    _configuration("ttl of the flow", "crash", "lost answer", "fail"),
    _configuration("ttl of a failed flow", "crash", "retry", "fail 2"),
    _configuration("one step", "retry step", "fail", "crash"),
    _configuration("child flow", "scale"),
    _configuration("one step", "skip step", "fail"),
    _configuration("child flow", "retry step"),
    _configuration("one step", "cancel step", "crash"),
    _configuration("parallelism", "scale", "crash"),
    _configuration("reuse", "crash", "lost answer", "fail", "delete source"),
    _configuration("reuse of decisions", "crash", "lost answer", "delete source"),
    _configuration("reuse after any", "crash", "lost answer", "delete source"),
    _configuration("reuse of a child flow", "crash", "delete source"),
    _configuration("reuse of half a child flow", "crash", "fail", "delete source"),
    _configuration("reuse of a repeat", "crash", "lost answer", "delete source"),
    _configuration("reuse of a claim", "crash", "lost answer", "fail", "delete source"),
    _configuration("reuse behind an approval", "crash", "approve", "lost answer", "delete source"),
    _configuration("reuse behind an approval", "crash", "approve", "reject", "delete source"),
    _configuration("reuse", "crash", "lost answer", "template", "delete source"),
    _configuration("reuse", "crash", "fail", "retry", "delete source"),
    _configuration("reuse of a failed flow", "crash", "fail", "retry"),
    _configuration("places", "crash", "lost answer", "fail", "busy"),
    _configuration("places and a retry", "crash", "fail", "busy"),
    _configuration("places", "crash", "suspend", "resume"),
    _configuration("places of two steps", "crash", "busy"),
    _configuration("places and parallelism", "crash", "busy"),
    _configuration("places and items", "crash", "busy"),
    _configuration("child flows that share a place", "crash"),
    _configuration("concurrency: Forbid", "crash", "lost answer", "busy"),
    _configuration("concurrency: Replace", "crash", "lost answer", "late"),
    _configuration("concurrency and finally", "crash", "cancel"),
    _configuration("concurrency", "crash", "lost answer", "fail", "busy"),
    _configuration("concurrency", "crash", "fail", "retry", "busy"),
    _configuration("concurrency", "crash", "suspend", "resume"),
    _configuration("volume claim", "crash", "lost answer", "fail"),
    _configuration("volume claim", "crash", "fail", "retry"),
    _configuration("created suspended", "crash", "resume"),
    _configuration("approval", "crash", "lost answer", "approve", "reject"),
    _configuration("approval with timeout", "crash", "late", "approve", "reject"),
    _configuration("approval", "reject", "retry", "cancel", "crash"),
    _configuration("approval with timeout", "suspend", "resume", "crash", "approve"),
    _configuration("approval of items and Abort", "approve 2", "reject", "crash"),
    _configuration("approval and Running", "approve", "crash", "lost answer"),
    _configuration("approval of items and matching items", "approve 2", "crash"),
    _configuration("approval in finally", "cancel", "fail", "reject", "crash"),
    _configuration("chain and a child flow", "crash", "lost answer", "fail"),
    _configuration("child flow", "crash", "fail", "retry"),
    _configuration("child flow", "crash", "suspend", "resume"),
    _configuration("child flow and retry", "crash", "fail 2"),
    _configuration("chain", "crash", "late", "fail", reads=True),
    _configuration("when", "crash", "lost answer", "fail"),
    _configuration("when by failure", "crash", "fail", reads=True),
    _configuration("retry when", "crash", "fail 2", reads=True),
    _configuration("disruptions", "crash", "evict 2", "fail", reads=True),
    _configuration("chain", "crash", "lost answer", "fail"),
    _configuration("chain", "crash", "template", "fail"),
    _configuration("container", "crash", "template", "fail"),
    _configuration("retain policy delete", "crash", "lost answer", "fail"),
    _configuration("forEach", "crash", "fail"),
    _configuration("optional step", "crash", "lost answer", "fail"),
    _configuration("switch", "crash", "lost answer", "fail"),
    _configuration("on failure", "crash", "lost answer", "fail"),
    _configuration("on failure", "crash", "fail 2", "retry"),
    _configuration("child flow that continues", "crash", "fail", "retry tolerated"),
    _configuration("child flow and a handler", "crash", "fail"),
    _configuration("child flow of two steps", "crash", "fail", "retry"),
    _configuration("child flow with an error", "crash", "fail"),
    _configuration("child flow and Abort", "crash", "fail"),
    _configuration("child flows of items", "crash", "fail"),
    _configuration("retry", "crash", "template", "fail"),
    _configuration("forEach from", "crash", "fail"),
    _configuration("forEach that continues", "crash", "fail"),
    _configuration("forEach with maxFailed", "crash", "fail 2"),
    _configuration("forEach with minSuccess", "crash", "fail"),
    _configuration("forEach with until", "crash", "fail"),
    _configuration("retry at once", "crash", "lost answer", "fail 2"),
    _configuration("retry", "crash", "lost answer", "fail 2"),
    _configuration("repeat with a pause", "crash", "lost answer", "fail"),
    _configuration("retry patch", "crash", "delete job", "fail 2"),
    _configuration("probe of a task", "crash", "lost answer", "fail"),
    _configuration("parallelism and a chain", "crash", "lost answer", "fail"),
    _configuration("repeat", "crash", "lost answer", "fail"),
    _configuration("chain", "crash", "fail", "suspend", "resume"),
    _configuration("Continue", "crash", "fail"),
    _configuration("retry", "crash", "retry", "fail 3"),
    _configuration("repeat", "crash", "fail", "retry"),
    _configuration("chain of 3", "crash 2", "lost answer", "fail"),
    _configuration("finally", "crash", "fail", "retry"),
    _configuration("chain", "crash", "fail", "retry", "template"),
    _configuration("chain", "crash", "delete job", "fail"),
    _configuration("retry", "edit", "crash", "delete job", "fail"),
    _configuration("forEach", "edit", "crash", "fail"),
    _configuration("child flow", "edit", "crash", "fail"),
    _configuration("values and a gate", "crash", "lost answer"),
    _configuration("values of items and matching items", "crash"),
    _configuration("fan-in", "crash", "lost answer", "fail"),
    _configuration("conditions", "crash", "lost answer", "fail"),
    _configuration("chain", "crash", "fail", "cancel"),
    _configuration("one step", "fail", "suspend and abort", "resume"),
    _configuration("ttl of jobs", "crash", "lost answer", "fail"),
    _configuration("daemon", "crash", "lost answer", "fail"),
    _configuration("daemon and its end", "crash", "fail"),
    _configuration("ends of two daemons", "crash"),
    _configuration("finally", "crash", "lost answer", "fail", "delete flow"),
    _configuration("retry", "crash", "delete job", "fail"),
    _configuration("any Running", "crash", "fail"),
    _configuration("retry", "crash", "suspend", "resume", "fail"),
    _configuration("Abort", "crash", "lost answer", "fail"),
    _configuration("repeat", "crash", "delete job", "fail"),
    _configuration("chain", "cancel step", "crash"),
    _configuration("chain", "skip step", "crash", "fail"),
    _configuration("child flow", "cancel step"),
    _configuration("child flow", "skip step"),
    _configuration("chain", "retry step", "crash"),
    _configuration("forEach", "skip step", "fail"),
    _configuration("forEach", "retry step"),
    _configuration("chain", "cancel", "suspend and abort"),
    _configuration("chain", "crash", "fail", "retry", "delete job"),
    _configuration("parallelism", "crash", "delete job", "lost answer", "fail"),
    _configuration("parallelism of a param", "crash", "fail"),
    _configuration("vars", "crash", "lost answer", "fail"),
    _configuration("step timeout and retry", "crash", "late"),
    _configuration("timeout of vars", "edit", "crash", "lost answer"),
    _configuration("queue timeout", "crash", "suspend", "resume"),
    _configuration("queue timeout and retry", "crash", "lost answer"),
    _configuration("daemon and finally", "crash", "cancel"),
    _configuration("finally", "crash", "fail", "cancel"),
    _configuration("chain in finally", "crash", "lost answer", "fail"),
    _configuration("targets", "crash", "fail", "retry"),
    _configuration("matching items", "crash", "fail"),
    _configuration("items that are not taken", "crash", "lost answer", "fail"),
    _configuration("daemon and Abort", "delete flow", "crash", "fail"),
    _configuration("forEach one by one", "crash", "delete job", "fail"),
    _configuration("daemon", "crash", "fail", "retry"),
    _configuration("step timeout", "crash", "late", "fail"),
    _configuration("Abort and finally", "crash", "fail"),
    _configuration("flow timeout", "suspend and abort", "resume", "crash"),
    _configuration("forEach", "cancel", "fail"),
    _configuration("repeat with retry", "crash", "fail", "suspend and abort", "resume"),
    _configuration("Abort with a handler", "crash", "lost answer", "fail"),
    _configuration("reuse of items", "crash", "template", "fail", "delete source"),
    _configuration("reuse of one of two", "crash", "lost answer", "fail", "delete source"),
    _configuration("continueOnFailure", "crash", "delete job", "fail"),
    _configuration("continueOnFailure", "crash", "fail", "retry tolerated"),
    _configuration("retry", "suspend and abort", "cancel", "fail"),
    _configuration("probe of a port", "crash", "fail", "delete job"),
    _configuration("flow timeout and finally", "late", "crash"),
    _configuration("flow timeout", "delete flow", "fail", "crash"),
    _configuration("chain", "crash", "fail", "suspend and abort", "resume"),
    _configuration("forEach one by one", "suspend and abort", "resume", "fail"),
    _configuration("child flow and a handler", "cancel"),
    _configuration("child flow with finally", "fail", "cancel"),
    _configuration("child flow", "suspend and abort", "resume"),
)
"""The smallest come first, by the states that they have."""
