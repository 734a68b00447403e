"""Random flows with every control primitive, small enough to shrink well, and their vcjobs."""

from collections.abc import Mapping
from typing import Any

import msgspec
from hypothesis import strategies as st

from jobflow.api.control import Backoff, Case, ForEach, JobDefaults, Param, Patch, Repeat, Retry
from jobflow.api.jobflow import DependsOn, JobFlow, JobFlowSpec, Step
from jobflow.api.meta import ObjectMeta
from model import carrying
from model.acting import NEVER, Script
from support.plan.plan_world import FLOW_UID, NOW
from support.plan.steps import TEMPLATE_SPEC

EVERY = frozenset(
    {
        "when", "switch", "forEach", "repeat", "retry", "timeout", "daemon", "continueOnFailure",
        "failurePolicy", "finally", "parallelism", "flowTimeout", "params", "references",
        "jobDefaults", "suspend", "commands", "refused", "crashes", "retain",
    }
)  # fmt: skip

NAMES = "abcdef"
PARAMS = [Param(name="n", value=1), Param(name="w", value="x"), Param(name="l", value=[1, 2])]
TEMPLATES: dict[str, dict[str, Any]] = {
    "t": dict(TEMPLATE_SPEC),
    "u": {**TEMPLATE_SPEC, "queue": "q-of-u", "maxRetry": 1},
}
OUTPUTS: tuple[Mapping[str, object] | None, ...] = (
    None, {"n": 0}, {"n": 1, "l": [1, 2]}, {"n": 2, "l": []}, {"n": "none", "l": 3},
)  # fmt: skip
SUCCEEDING = tuple(
    Script(lasts=n, output=out, watched=w) for out in OUTPUTS for n in (1, 3) for w in (True, False)
)
FAILING = tuple(
    Script(lasts=n, end=end, runs=runs, output=out, node=node)
    for end, runs, n, out, node in (
        ("Failed", True, 1, None, "n1"),
        ("Failed", True, 2, {"n": 1}, "n2"),
        ("Failed", False, 1, None, "n1"),
        ("Terminated", True, 2, {"n": 2}, "n3"),
        ("Aborted", True, 4, None, "n2"),
    )
)
ABORTED = (
    Script(lasts=7),
    Script(lasts=7, obeys=3),
    Script(lasts=4, obeys=NEVER),
    Script(lasts=90, obeys=NEVER),
    Script(pending=3, lasts=5),
)
FOREVER = (Script(lasts=None), Script(lasts=None, obeys=2), Script(lasts=None, obeys=NEVER))
RETRIES = (
    Retry(limit=1),
    Retry(limit=2, avoid_nodes=True),
    Retry(limit=2, backoff=Backoff(duration="3s", factor=1)),
    Retry(limit=3, backoff=Backoff(duration="1s", factor=3, max="4s")),
    Retry(limit=2, when="outputs.n > 1"),
    Retry(limit=2, when='reason == "Timeout"'),
    Retry(limit=1, when='!(phase == "Failed")'),
)
UNTILS = ("true", "outputs.n > 1", "index > 0", "false", "!(outputs.n > 0)", 'phase == "Completed"')
ITEMS: tuple[list[Any], ...] = ([1], ["x", "y"], [{"k": "v"}, {"k": 1}], [3, 2, 1], [])


def some_or_none(draw: st.DrawFn, what: tuple[Any, ...] | list[Any], one_in: int = 3) -> Any:
    """Draw one of these values, or in most cases None."""
    return draw(st.sampled_from([*[None] * ((one_in - 1) * len(what)), *what]))


class Drawing:
    """A flow that is being drawn."""

    def __init__(self, draw: st.DrawFn, features: frozenset[str]) -> None:
        self.draw, self.features = draw, features
        self.params = "params" in features
        self.ended_before: dict[str, set[str]] = {}
        """Steps that have ended in any case when a step is decided."""
        self.steps: dict[str, Step] = {}

    def has(self, feature: str, one_in: int = 3) -> bool:
        return feature in self.features and self.draw(st.integers(0, one_in - 1)) == one_in - 1

    # ------------------------------------------------------------------------- steps

    def step(self, name: str, before: str) -> Step:
        depends_on = self.depends_on(before) if before else None
        self.ended_before[name] = self.known_ended(depends_on)
        return self.filled(name, depends_on)

    def known_ended(self, depends_on: DependsOn | None) -> set[str]:
        if depends_on is None or depends_on.strategy == "any" or depends_on.condition == "Running":
            return set()
        names = {name for name in depends_on.targets or () if not self.steps[name].daemon}
        return names.union(*(self.ended_before[name] for name in names))

    def filled(self, name: str, depends_on: DependsOn | None, *, last: bool = False) -> Step:
        """Draw the fields of a step besides its dependencies."""
        switch = self.switch(name) if self.has("switch", 5) else None
        loop = self.draw(st.sampled_from(["", "", "", "forEach", "repeat"]))
        loop = loop if loop in self.features else ""
        daemon = not last and not loop and self.has("daemon", 6)
        step = Step(
            name=name,
            template=None if switch else self.draw(st.sampled_from(["t", "u"])),
            depends_on=depends_on,
            when=self.condition(name) if self.has("when", 4) else None,
            switch=switch,
            for_each=self.for_each(name) if loop == "forEach" else None,
            repeat=self.repeat() if loop == "repeat" else None,
            retry=some_or_none(self.draw, RETRIES, 2) if "retry" in self.features else None,
            timeout=some_or_none(self.draw, ["2s", "4s"], 4)
            if "timeout" in self.features
            else None,
            daemon=True if daemon else None,
            continue_on_failure=True if self.has("continueOnFailure", 4) else None,
            patch=self.patch(name, loop) if self.has("references", 4) else None,
        )
        self.steps[name] = step
        return step

    def depends_on(self, before: str) -> DependsOn | None:
        targets = self.draw(st.lists(st.sampled_from(before), unique=True, max_size=3))
        if not targets:
            return None
        conditions = [None, None, "Completed", "Running"]
        if not any(self.steps[name].daemon for name in targets):
            conditions += ["Failed", "Finished"]
        return DependsOn(
            targets=targets,
            strategy=self.draw(st.sampled_from([None, "all", "any"])),
            condition=self.draw(st.sampled_from(conditions)),
        )

    def switch(self, name: str) -> list[Case]:
        cases = [
            Case(
                when=self.condition(name),
                template=self.draw(st.sampled_from(["t", "u"])),
                patch=some_or_none(self.draw, [Patch(job_spec={"queue": "q-of-case"})]),
            )
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        default = self.draw(st.sampled_from([None, "t", "u"]))
        return cases if default is None else [*cases, Case(template=default)]

    def for_each(self, name: str) -> ForEach:
        parallelism = self.draw(st.sampled_from([None, 1, 2]))
        kind = self.draw(st.sampled_from(["items", "count", "from"]))
        if kind == "count":
            return ForEach(count=self.draw(st.integers(0, 3)), parallelism=parallelism)
        if kind == "from":
            return ForEach(from_=self.list_(name), parallelism=parallelism)
        return ForEach(items=self.draw(st.sampled_from(ITEMS)), parallelism=parallelism)

    def repeat(self) -> Repeat:
        return Repeat(until=self.draw(st.sampled_from(UNTILS)), max=self.draw(st.integers(1, 3)))

    def patch(self, name: str, loop: str) -> Patch:
        queues = ["q-$(flow.name)"]
        queues += ["q-$(params.w)", "$(params.w)"] if self.params else []
        queues += ["q-$(index)"] if loop else []
        queues += ["q-$(item)"] if loop == "forEach" else []
        queues += [f"q-$(steps.{other}.outputs.n)" for other in self.plain_before(name)]
        spec: dict[str, Any] = {"queue": self.draw(st.sampled_from(queues))}
        if self.params and self.draw(st.booleans()):
            spec["maxRetry"] = "$(params.n)"
        return Patch(job_spec=spec)

    # ------------------------------------------------------------------- expressions

    def plain_before(self, name: str) -> list[str]:
        before = sorted(self.ended_before[name])
        return [n for n in before if not self.steps[n].for_each and not self.steps[n].repeat]

    def condition(self, name: str) -> str:
        texts = ["true", "false"]
        texts += ["params.n == 1", 'params.w == "y"'] if self.params else []
        for other in sorted(self.ended_before[name]):
            step = f'steps["{other}"]'
            texts += [f'{step}.phase == "{p}"' for p in ("Completed", "Failed", "Skipped")]
            texts.append(f'{step}.reason == "NotTaken"')
            if self.steps[other].for_each:
                texts += [f'{step}.items[0].phase == "Completed"', f"{step}.items[0].outputs.n > 0"]
        for other in self.plain_before(name):
            step = f'steps["{other}"]'
            texts += [f"{step}.outputs.n > 0", f"{step}.attempts > 1", f"{step}.outputs.n"]
        text = self.draw(st.sampled_from(texts))
        return f"!({text})" if self.draw(st.booleans()) and not text.endswith(".n") else text

    def list_(self, name: str) -> str:
        texts = ["[]", '["x", "y"]', *(["params.l"] if self.params else [])]
        texts += [f'steps["{other}"].outputs.l' for other in self.plain_before(name)]
        return self.draw(st.sampled_from(texts))

    # ------------------------------------------------------------------- other fields

    def scripts(self, step: Step) -> tuple[Script, ...]:
        kinds = [*SUCCEEDING, *FAILING, *FAILING, *ABORTED]
        if "refused" in self.features:
            kinds.append(Script(refused=True))
        if step.daemon:
            kinds = [*FOREVER * 6, *FAILING, *ABORTED]
        elif step.timeout:
            kinds += FOREVER
        drawn = self.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
        return tuple(drawn)

    def last_step(self, name: str) -> Step:
        """One of `finally`."""
        self.ended_before[name] = set(self.steps) - {"y", "z"}
        step = self.filled(name, None, last=True)
        if step.when is not None and self.draw(st.booleans()):
            phase = self.draw(st.sampled_from(["Failed", "Succeed"]))
            return Step(name=name, template=step.template or "t", when=f'flow.phase == "{phase}"')
        return step

    def spec(self) -> JobFlowSpec:
        names = NAMES[: self.draw(st.integers(1, len(NAMES)))]
        steps = [self.step(name, names[:n]) for n, name in enumerate(names)]
        if all(step.daemon for step in steps):
            steps = [_plain(step) for step in steps]
        last = (
            [self.last_step(name) for name in ("z", "y")[: self.draw(st.integers(1, 2))]]
            if (self.has("finally"))
            else None
        )
        daemons = sum(bool(step.daemon) for step in steps)
        most = self.draw(st.integers(1, 3)) + daemons if self.has("parallelism") else None
        timeout = some_or_none(self.draw, ["3s", "8s", "15s"], 4)
        policies = [None, "Stop", "Abort", "Continue"]
        has = self.features.__contains__
        return JobFlowSpec(
            flows=self.draw(st.permutations(steps)),
            finally_=last,
            params=PARAMS if self.params else None,
            parallelism=most,
            timeout=timeout if has("flowTimeout") else None,
            failure_policy=self.draw(st.sampled_from(policies)) if has("failurePolicy") else None,
            job_defaults=JobDefaults(queue="q-default", priority_class_name="high")
            if self.has("jobDefaults")
            else None,
            suspend=True if self.has("suspend", 8) else None,
            job_retain_policy="delete" if self.has("retain") else None,
        )

    def commands(self) -> tuple[tuple[int, str], ...]:
        if not self.has("commands"):
            return ()
        actions = (
            "SuspendFlow", "AbortJob", "ResumeJob", "TerminateJob", "TerminateNow", "RestartJob",
        )  # fmt: skip
        some = st.tuples(st.integers(0, 14), st.sampled_from(actions))
        return tuple(sorted(self.draw(st.lists(some, max_size=3, unique_by=lambda c: c[0]))))


def _plain(step: Step) -> Step:
    return msgspec.structs.replace(step, daemon=None)


@st.composite
def cases(draw: st.DrawFn, features: frozenset[str] = EVERY) -> carrying.Case:
    """A flow with some of these primitives, and its events."""
    drawing = Drawing(draw, features)
    spec = drawing.spec()
    flow = JobFlow(
        metadata=ObjectMeta(
            name="f", namespace="ns", uid=FLOW_UID, generation=1, creation_timestamp=NOW
        ),
        spec=spec,
    )
    scripts = {
        step.name: drawing.scripts(step) for step in (*(spec.flows or ()), *(spec.finally_ or ()))
    }
    crashes = draw(st.integers(0, 99)) if drawing.has("crashes", 4) else None
    return carrying.Case(flow, TEMPLATES, scripts, drawing.commands(), crashes)
