"""The configurations: small flows, each with a budget of rare events.

A name has both: the flow, then the rare events.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from jobflow.api.control import Backoff, Case, ForEach, Repeat, Retry
from jobflow.api.jobflow import DependsOn, Probe, Step, TaskStatusProbe, TCPSocketProbe
from jobflow.core.admission.validate import Known, validate_flow
from support.plan.plan_world import World, flow
from support.plan.steps import TEMPLATE_SPEC, step, template

COMMANDS = {
    "suspend": "SuspendFlow",
    "suspend and abort": "AbortJob",
    "resume": "ResumeJob",
    "cancel": "TerminateJob",
    "retry": "RestartJob",
}
"""Commands of users, by their names in a budget."""
RARE = frozenset(
    {"crash", "lost answer", "fail", "delete job", "delete flow", "template", "late", *COMMANDS}
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
        object.__setattr__(self, "rare", tuple(sorted(self.budget)))

    @cached_property
    def steps(self) -> dict[str, Step]:
        return {step.name: step for step in self.world.flow.all_steps}

    @cached_property
    def last(self) -> frozenset[str]:
        """The steps of `finally`."""
        return frozenset(step.name for step in self.world.flow.spec.finally_ or ())

    @cached_property
    def times_jobs(self) -> bool:
        """Whether the time of a vcjob's phase matters."""
        ttl = any(
            "ttlSecondsAfterFinished" in entry.spec for entry in self.world.templates.values()
        )
        return ttl or any(step.timeout for step in self.steps.values())

    @cached_property
    def times_flow(self) -> bool:
        """Whether the times of the flow's start, suspension and end matter."""
        spec = self.world.flow.spec
        return spec.timeout is not None or spec.ttl_seconds_after_finished is not None


def _with_ttl(world: World, seconds: int) -> World:
    spec = {**TEMPLATE_SPEC, "ttlSecondsAfterFinished": seconds}
    return replace(world, templates={name: template(name, spec) for name in world.templates})


def _probing(probe: Probe) -> Step:
    return Step(depends_on=DependsOn(targets=["a"], probe=probe))


ONCE = Retry(limit=1)
AT_ONCE = Retry(limit=1, backoff=Backoff(duration="0s"))
TWICE = ForEach(count=2)
ONE_BY_ONE = ForEach(count=2, parallelism=1)
UNTIL = Repeat(until="index >= 1", max=2)
RUNNING = Probe(task_status_list=[TaskStatusProbe(task_name="t", phase="Running")])
PORT = Probe(tcp_socket_list=[TCPSocketProbe(task_name="t", port=80)])
CASES = [Case(when='steps["a"].phase == "Failed"', template="c"), Case(template="b")]
FAILED = 'steps["a"].phase == "Failed"'

FLOWS: dict[str, World] = {
    "one step": flow("a"),
    "chain": flow("a", b="a"),
    "chain of 3": flow("a", b="a", c="b"),
    "fan-in": flow("a", "b", c="a b"),
    "any Running": flow("a", "b", c=step("a b", strategy="any", condition="Running")),
    "on failure": flow("a", h=step("a", condition="Failed"), b="a"),
    "when": flow("a", b=step("a", condition="Finished", when=FAILED)),
    "switch": flow("a", b=step("a", condition="Finished", switch=CASES)).with_spec(),
    "forEach": flow(a=step(for_each=TWICE), b="a"),
    "forEach from": flow("a", b=step("a", for_each=ForEach(from_='["x", "y"]'))),
    "forEach one by one": flow(a=step(for_each=ONE_BY_ONE, retry=ONCE), b="a"),
    "forEach that continues": flow(a=step(for_each=TWICE, continue_on_failure=True), b="a"),
    "repeat": flow(a=step(repeat=UNTIL), b="a"),
    "repeat with retry": flow(a=step(repeat=UNTIL, retry=ONCE)),
    "retry": flow(a=step(retry=ONCE), b="a"),
    "retry at once": flow(a=step(retry=AT_ONCE), b="a"),
    "retry when": flow(a=step(retry=Retry(limit=1, when='phase == "Failed"')), b="a"),
    "step timeout": flow(a=step(timeout="30s"), b="a"),
    "step timeout and retry": flow(a=step(timeout="30s", retry=ONCE), b="a"),
    "flow timeout": flow("a", b="a").with_spec(timeout="100s"),
    "flow timeout and finally": flow("a", b="a").with_spec(timeout="100s").with_finally("z"),
    "parallelism": flow("a", "b").with_spec(parallelism=1),
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
    "daemon": flow(d=step(daemon=True), b=step("d", condition="Running")),
    "daemon and Abort": flow(
        "x", d=step(daemon=True), b=step("d", condition="Running")
    ).with_spec(failure_policy="Abort"),
    "daemon and finally": flow(
        d=step(daemon=True), b=step("d", condition="Running")
    ).with_finally("z"),
    "created suspended": flow("a", b="a").with_spec(suspend=True),
    "probe of a task": flow("a", b=_probing(RUNNING)),
    "probe of a port": flow("a", b=_probing(PORT)),
    "ttl of jobs": _with_ttl(flow("a", b="a"), 5),
    "ttl of the flow": flow("a").with_spec(ttl_seconds_after_finished=5),
    "retain policy delete": flow("a", b="a", retain="delete"),
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
    _configuration("ttl of the flow", "crash", "retry", "fail"),
    _configuration("one step", "crash", "lost answer", "fail"),
    _configuration("ttl of the flow", "crash", "lost answer", "fail"),
    _configuration("created suspended", "crash", "resume"),
    _configuration("chain", "crash", "late", "fail", reads=True),
    _configuration("when", "crash", "lost answer", "fail"),
    _configuration("retry when", "crash", "fail 2", reads=True),
    _configuration("chain", "crash", "lost answer", "fail"),
    _configuration("chain", "crash", "template", "fail"),
    _configuration("retain policy delete", "crash", "lost answer", "fail"),
    _configuration("forEach", "crash", "fail"),
    _configuration("switch", "crash", "lost answer", "fail"),
    _configuration("on failure", "crash", "lost answer", "fail"),
    _configuration("retry", "crash", "template", "fail"),
    _configuration("forEach from", "crash", "fail"),
    _configuration("forEach that continues", "crash", "fail"),
    _configuration("retry at once", "crash", "lost answer", "fail 2"),
    _configuration("retry", "crash", "lost answer", "fail 2"),
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
    _configuration("fan-in", "crash", "lost answer", "fail"),
    _configuration("chain", "crash", "fail", "cancel"),
    _configuration("one step", "fail", "suspend and abort", "resume"),
    _configuration("ttl of jobs", "crash", "lost answer", "fail"),
    _configuration("daemon", "crash", "lost answer", "fail"),
    _configuration("finally", "crash", "lost answer", "fail", "delete flow"),
    _configuration("retry", "crash", "delete job", "fail"),
    _configuration("any Running", "crash", "fail"),
    _configuration("retry", "crash", "suspend", "resume", "fail"),
    _configuration("Abort", "crash", "lost answer", "fail"),
    _configuration("repeat", "crash", "delete job", "fail"),
    _configuration("chain", "cancel", "suspend and abort"),
    _configuration("chain", "crash", "fail", "retry", "delete job"),
    _configuration("parallelism", "crash", "delete job", "lost answer", "fail"),
    _configuration("step timeout and retry", "crash", "late"),
    _configuration("daemon and finally", "crash", "cancel"),
    _configuration("finally", "crash", "fail", "cancel"),
    _configuration("daemon and Abort", "delete flow", "crash", "fail"),
    _configuration("forEach one by one", "crash", "delete job", "fail"),
    _configuration("daemon", "crash", "fail", "retry"),
    _configuration("step timeout", "crash", "late", "fail"),
    _configuration("Abort and finally", "crash", "fail"),
    _configuration("flow timeout", "suspend and abort", "resume", "crash"),
    _configuration("forEach", "cancel", "fail"),
    _configuration("repeat with retry", "crash", "fail", "suspend and abort", "resume"),
    _configuration("Abort with a handler", "crash", "lost answer", "fail"),
    _configuration("continueOnFailure", "crash", "delete job", "fail"),
    _configuration("retry", "suspend and abort", "cancel", "fail"),
    _configuration("probe of a port", "crash", "fail", "delete job"),
    _configuration("flow timeout and finally", "late", "crash"),
    _configuration("flow timeout", "delete flow", "fail", "crash"),
    _configuration("chain", "crash", "fail", "suspend and abort", "resume"),
    _configuration("forEach one by one", "suspend and abort", "resume", "fail"),
)
"""The smallest come first, by the states that they have."""
