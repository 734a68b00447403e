"""Random flows with every control primitive, and their events."""

from collections.abc import Container

import msgspec
from hypothesis import assume, given, seed
from hypothesis import strategies as st

from jobflow.api.flow.control import Concurrency, JobDefaults, Patch
from jobflow.api.flow.jobflow import JobFlow, JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import WorkKind
from jobflow.api.labels import SCHEDULED_TIME
from jobflow.api.resources import ObjectMeta
from jobflow.core.admission.validate import Known, validate_flow
from model import carrying
from model.acting import Script
from model.matching import has_items
from model.random_steps import Primitives, StepDrawing, some_or_none
from model.random_values import ANSWERS, CLAIMS, PARAMS, POLICIES, QUEUED, TEMPLATES
from model.work.kinds import KINDS
from model.work.own_work import steer, steer_inside
from support.laws.effort_of_laws import tries
from support.plan.world_state import FLOW_UID, NOW

METADATA = ObjectMeta(
    name="f",
    namespace="ns",
    uid=FLOW_UID,
    generation=1,
    creation_timestamp=NOW,
    annotations={SCHEDULED_TIME: "noon"},
)
"""The metadata of a random flow, which may refer to its scheduled time."""
EVERY = Primitives()
WITHOUT_CHILDREN = EVERY - {"children"}
"""For laws whose clusters run no child flows."""
NAMES, LAST = "abcdef", "zyx"
"""Names of steps, and of those of `finally`."""


class Drawing(StepDrawing):
    """A flow that is being drawn."""

    def last_step(self, name: str, before: str) -> Step:
        """One of `finally`."""
        depends_on = self.depends_on(before) if before and self.has("finally", 2) else None
        self.ended_before[name] = self.known_ended(depends_on) | (set(self.steps) - set(LAST))
        self.items_before[name] = self.known_items(depends_on)
        step = self.filled(name, depends_on, last=True)
        if step.when is not None and self.draw(st.booleans()):
            step = self.steps[name] = self.asking_for_the_end(step)
        return step

    def asking_for_the_end(self, step: Step) -> Step:
        """Draw another step of `finally`, which has an expression about the end of the flow."""
        phase = self.draw(st.sampled_from(["Failed", "Succeed"]))
        when = f'flow.phase == "{phase}"'
        if step.kind_of(None) in KINDS:
            return msgspec.structs.replace(step, when=when)
        if "references" in self.features and self.draw(st.booleans()):
            patch = Patch(job_spec={"queue": "q-$(flow.failures.0.step)"})
            return msgspec.structs.replace(step, patch=patch)
        loops = step.for_each or step.repeat  # which the references of env may need
        template, env = step.template or "t", None if loops else step.env
        return Step(
            name=step.name, template=template, env=env, depends_on=step.depends_on, when=when
        )

    def spec(self) -> JobFlowSpec:
        names = NAMES[: self.draw(st.integers(1, self.most_steps))]
        steps = [self.step(name, names[:n]) for n, name in enumerate(names)]
        if all(step.daemon for step in steps):
            steps = [_plain(step) for step in steps]
        last = (
            [
                self.last_step(name, LAST[:n])
                for n, name in enumerate(LAST[: self.draw(st.integers(1, 3))])
            ]
            if (self.has("finally"))
            else None
        )
        daemons = sum(bool(step.daemon) for step in steps)
        most: int | str | None = None
        if self.has("parallelism"):
            most = self.draw(st.integers(1, 3)) + daemons
            if self.params and not daemons and self.draw(st.booleans()):
                most = "$(params.n)"
        timeout = some_or_none(self.draw, ["3s", "8s", "15s", *self.refer("t")], 4)
        policies = [None, "Stop", "Abort", "Continue"]
        has = self.features.__contains__
        return JobFlowSpec(
            flows=self.draw(st.permutations(steps)),
            targets=self.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2))
            if self.has("targets", 6)
            else None,
            finally_=last,
            params=PARAMS if self.params else None,
            parallelism=most,
            timeout=timeout if has("flowTimeout") else None,
            failure_policy=self.draw(st.sampled_from(policies)) if has("failurePolicy") else None,
            job_defaults=JobDefaults(queue="q-default", priority_class_name="high")
            if self.has("jobDefaults")
            else None,
            suspend=True if self.has("suspend", 8) else None,
            concurrency=Concurrency(group="g", policy=self.draw(st.sampled_from(POLICIES)))
            if self.has("concurrency", 4)
            else None,
            volume_claims=CLAIMS if self.claims else None,
            outputs=self.outputs([*names, *(step.name for step in last or ())])
            if self.has("outputs")
            else None,
            job_retain_policy="delete" if self.has("retain") else None,
        )

    def outputs(self, names: list[str]) -> dict[str, str]:
        texts = ["flow.phase", *(f'steps["{name}"].phase' for name in names)]
        plain = [n for n in names if not has_items(self.steps[n]) and not self.steps[n].repeat]
        texts += [f'steps["{name}"].outputs.n' for name in plain]
        drawn = self.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=3))
        return {f"o{i}": text for i, text in enumerate(drawn)}

    def commands(self) -> tuple[tuple[int, str], ...]:
        if not self.has("commands"):
            return ()
        actions: tuple[str, ...] = (
            "SuspendFlow", "AbortJob", "ResumeJob", "TerminateJob", "TerminateNow", "RestartJob",
            "RetryTolerated",
        )  # fmt: skip
        by_hand = []
        for step in self.steps.values():
            own = KINDS.get(step.kind_of(None))
            if own is not None:
                by_hand += own.rules.commands_on(step)
            elif not step.daemon:
                by_hand += steer(step)
        # daemons take room as long as others need them
        by_hand += [f"ScaleFlow {1 + 4 * any(s.daemon for s in self.steps.values())}"]
        if any(step.flow for step in self.steps.values()):  # `FamilyByHand` has these
            by_hand = [command for command in by_hand if not command.startswith("RetrySteps")]
        some = st.tuples(st.integers(0, 14), st.sampled_from([*actions, *by_hand]))
        return tuple(sorted(self.draw(st.lists(some, max_size=3, unique_by=lambda c: c[0]))))

    def limited(self, step: Step) -> Step:
        """Draw limits of the time of jobs: by their vars, and in their queue."""
        if step.kinds != {WorkKind.JOB}:
            return step
        if step.timeout and self.has("vars", 2):
            outputs = (f'steps["{name}"].outputs.n' for name in self.plain_before(step.name))
            limit = self.draw(st.sampled_from(["attempt", '"2s"', *outputs]))
            values = {**(step.vars or {}), "t": limit}
            step = msgspec.structs.replace(step, timeout="$(vars.t)", vars=values)
        if self.has("queueTimeout", 4):
            limit = self.draw(st.sampled_from(["1s", "2s"]))
            step = msgspec.structs.replace(step, queue_timeout=limit)
        if step.retry and (step.timeout or step.queue_timeout) and self.has("causes", 2):
            cause = self.draw(st.sampled_from(["Timeout", "QueueTimeout"]))
            retry = msgspec.structs.replace(step.retry, when=f'failure.reason == "{cause}"')
            values = {**(step.vars or {}), "c": "failure.reason"}
            env = {"C": "$(vars.c)"}
            step = msgspec.structs.replace(step, retry=retry, vars=values, env=env)
        return step


def _plain(step: Step) -> Step:
    return msgspec.structs.replace(step, daemon=None)


def drawn_flow(drawing: Drawing) -> JobFlow:
    """Draw an admitted flow. Admission refuses that a step needs a daemon to run and to end, which
    a drawing does not foresee."""
    flow = JobFlow(metadata=METADATA, spec=drawing.spec())
    if any(step.daemon for step in flow.steps):
        faults = validate_flow(flow, Known()).violations
        assume(not any("a daemon ends when" in fault.detail for fault in faults))
    return flow


class WithChildren(Drawing):
    """A flow with many child flows."""

    one_child_in = 2


class FamilyByHand(WithChildren):
    """One in which users run steps again, and end, skip and scale steps of child flows."""

    most_steps = 4

    def commands(self) -> tuple[tuple[int, str], ...]:
        steps = [s for s in self.steps.values() if s.kind_of(None) not in KINDS and not s.daemon]
        texts = [text for step in steps for text in steer_inside(step)] * 2
        whole = [step for step in steps if step.flow or not has_items(step)]
        texts += [text for step in whole for text in steer(step) if text.startswith("RetrySteps")]
        texts += ["RestartJob", "SuspendFlow", "ResumeJob", "TerminateJob"]
        some = st.tuples(st.integers(1, 20), st.sampled_from(texts))
        drawn = st.lists(some, min_size=1, max_size=5, unique_by=lambda c: c[0])
        return tuple(sorted(self.draw(drawn)))


class RetriedFamily(WithChildren):
    """One with child flows that fail first, which is retried once or twice."""

    def scripts(self, step: Step) -> tuple[Script, ...]:
        scripts = super().scripts(step)
        fails = step.flow is not None and self.draw(st.integers(0, 3))
        return (Script(end="Failed"), *scripts) if fails else scripts

    def commands(self) -> tuple[tuple[int, str], ...]:
        times = self.draw(st.lists(st.integers(15, 40), min_size=1, max_size=2, unique=True))
        action = self.draw(st.sampled_from(("RestartJob", "RetryTolerated")))
        return (*super().commands(), *((time, action) for time in sorted(times)))


@st.composite
def cases(
    draw: st.DrawFn, features: Container[str] = EVERY, kind: type[Drawing] = Drawing
) -> carrying.Case:
    """A flow with some of these primitives, and its events."""
    drawing = kind(draw, features)
    flow = drawn_flow(drawing)
    spec = flow.spec
    scripts = {
        step.name: drawing.scripts(step) for step in (*(spec.flows or ()), *(spec.finally_ or ()))
    }
    crashes = draw(st.integers(0, 99)) if drawing.has("crashes", 4) else None
    of_steps = any(step.concurrency is not None for step in spec.all_steps)
    busy = spec.concurrency is not None or of_steps
    free_at = draw(st.integers(0, 6)) if busy else 0
    commands = drawing.commands()
    answers: tuple[str, ...] = ANSWERS[:1]
    if any(step.approval is not None for step in drawing.steps.values()):
        answers = tuple(draw(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3)))
    # drawn last, so that they change no other draws
    limited = {step.name: drawing.limited(step) for step in spec.all_steps}
    for step in limited.values():
        if step.queue_timeout:
            scripts[step.name] = (draw(st.sampled_from(QUEUED)), *scripts[step.name])
    spec = msgspec.structs.replace(
        spec,
        flows=[limited[step.name] for step in flow.steps],
        finally_=[limited[step.name] for step in spec.finally_ or ()] or None,
    )
    flow = msgspec.structs.replace(flow, spec=spec)
    return carrying.Case(flow, TEMPLATES, scripts, commands, answers, crashes, free_at)


def run_random_flows(drawn: st.SearchStrategy[carrying.Case], share: int, most: int) -> None:
    """Check that `tries(most)` flows run as the reference says. Each share draws other flows."""

    @seed(share)
    @given(drawn)
    @tries(most)
    def law(case: carrying.Case) -> None:
        carrying.Simulation(case).run_to_end()

    law()
