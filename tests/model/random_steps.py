"""Random steps with every control primitive, small enough to shrink well, and their scripts."""

from collections.abc import Container, Set
from typing import Any

import msgspec
from hypothesis import strategies as st

from jobflow.api.flow.control import (
    Case,
    ForEach,
    Patch,
    Repeat,
    Retry,
    StepConcurrency,
)
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.flow.traits import WorkKind
from model.acting import Script
from model.matching import has_items
from model.random_values import (
    ABORTED,
    CHILD,
    DISRUPTED,
    FAILING,
    FOREVER,
    ITEMS,
    RETRIES,
    SUCCEEDING,
    UNTILS,
    WORKS,
)
from model.work.kinds import KINDS

TOLERANCES = (
    *(("max_failed", value) for value in (0, 1, "50%")),
    *(("min_success", value) for value in ("1%", "50%", "100%")),
    *(("until", value) for value in ("false", 'items[0].phase == "Completed"')),
    ("until", "items[0].outputs.n > 1"),
)
"""Fields of forEach that say how many items may fail, and values of them."""
MAX_UNKNOWN = 2
"""Most steps of a flow whose number of items admission does not know: it counts them as 1,000."""

PLACE = StepConcurrency(group="p")
"""The place of all steps that need one."""


def some_or_none(draw: st.DrawFn, what: tuple[Any, ...] | list[Any], one_in: int = 3) -> Any:
    """Draw one of these values, or in most cases None."""
    return draw(st.sampled_from([*[None] * ((one_in - 1) * len(what)), *what]))


class Primitives:
    """The primitives that drawn flows may use: all but those left out."""

    def __init__(self, left_out: Set[str] = frozenset()) -> None:
        self.left_out = left_out

    def __contains__(self, name: object) -> bool:
        return name not in self.left_out

    def __sub__(self, names: Set[str]) -> "Primitives":
        return Primitives(self.left_out | names)


class StepDrawing:
    """The steps of a flow that is being drawn."""

    most_steps = 6
    """Most steps besides those of `finally`."""
    one_child_in = 7
    """One of so many steps runs a child flow."""

    def __init__(self, draw: st.DrawFn, features: Container[str]) -> None:
        self.draw, self.features = draw, features
        self.params = "params" in features
        self.claims = self.has("volumeClaims")
        self.ended_before: dict[str, set[str]] = {}
        """Steps that have ended in any case when a step is decided."""
        self.items_before: dict[str, set[str]] = {}
        """Steps whose item has ended in any case when the same item of a step starts."""
        self.steps: dict[str, Step] = {}
        self.unknown = set[str]()
        """Steps whose number of items admission does not know."""

    def has(self, feature: str, one_in: int = 3) -> bool:
        return feature in self.features and self.draw(st.integers(0, one_in - 1)) == one_in - 1

    # ------------------------------------------------------------------------- steps

    def step(self, name: str, before: str) -> Step:
        depends_on = self.depends_on(before) if before else None
        self.ended_before[name] = self.known_ended(depends_on)
        self.items_before[name] = self.known_items(depends_on)
        return self.filled(name, depends_on)

    def known_ended(self, depends_on: DependsOn | None) -> set[str]:
        if depends_on is None or depends_on.strategy == "any":
            return set()
        own = depends_on.conditions or {}
        targets = [name for name in depends_on.targets or () if not self.steps[name].daemon]
        matched = [n for n in targets if depends_on.items and has_items(self.steps[n])]
        names = {
            name
            for name in targets
            if name not in matched and own.get(name, depends_on.condition) != "Running"
        }
        return names.union(*(self.ended_before[name] for name in (*names, *matched)))

    def known_items(self, depends_on: DependsOn | None) -> set[str]:
        if depends_on is None or depends_on.strategy == "any" or not depends_on.items:
            return set()
        own = depends_on.conditions or {}
        found = set[str]()
        for name in filter(lambda each: has_items(self.steps[each]), depends_on.targets or ()):
            condition = own.get(name, depends_on.condition)
            found |= {name} if condition != "Running" else set()
            # an item that is skipped for another one has finished before all that it waited for
            found |= self.items_before[name] if condition in (None, "Completed") else set()
        return found

    def filled(self, name: str, depends_on: DependsOn | None, *, last: bool = False) -> Step:
        """Draw the fields of a step besides its dependencies."""
        for kind, (rules, _) in KINDS.items():
            if self.has(kind, 7):
                step = self.steps[name] = rules.draw(self, name, depends_on, last=last)
                return step
        matches = depends_on is not None and depends_on.items is not None
        if not (last or matches) and self.has("children", self.one_child_in):
            step = self.steps[name] = self.child(name, depends_on)
            return step
        switch = self.switch(name) if self.has("switch", 5) else None
        loop = self.draw(st.sampled_from(["", "", "", "forEach", "repeat"]))
        loop = loop if loop in self.features else ""
        matching = depends_on is not None and depends_on.items is not None
        loop = "forEach" if matching else loop
        daemon = not last and not loop and self.has("daemon", 6)
        step = Step(
            name=name,
            **({} if switch else self.work()),
            env=self.env(name, loop) if self.has("env", 4) else None,
            depends_on=depends_on,
            when=self.condition(name) if self.has("when", 4) else None,
            switch=switch,
            for_each=self.matching_for_each(name, depends_on)
            if matching
            else self.for_each(name)
            if loop == "forEach"
            else None,
            repeat=self.repeat() if loop == "repeat" else None,
            retry=some_or_none(self.draw, self.retries(), 2) if "retry" in self.features else None,
            timeout=some_or_none(self.draw, ["2s", "4s", *self.refer("t")], 4)
            if "timeout" in self.features
            else None,
            daemon=True if daemon else None,
            concurrency=PLACE if not daemon and self.has("places", 4) else None,
            continue_on_failure=True if self.has("continueOnFailure", 4) else None,
            patch=self.patch(name, loop) if self.has("references", 4) else None,
        )
        if step.for_each is not None and self.has("tolerance", 3):
            field, value = self.draw(st.sampled_from(TOLERANCES))
            each = msgspec.structs.replace(step.for_each, **{field: value})
            step = msgspec.structs.replace(step, for_each=each, continue_on_failure=None)
        if step.patch is not None and self.has("vars", 2):
            patch = Patch(job_spec={**(step.patch.job_spec or {}), "queue": "q-$(vars.v)"})
            step = msgspec.structs.replace(step, vars=self.vars(name, loop), patch=patch)
        self.steps[name] = step
        return step

    def child(self, name: str, depends_on: DependsOn | None) -> Step:
        """Draw a step that runs a child flow."""
        loop = self.draw(st.sampled_from(["", "", "forEach", "repeat"]))
        loop = loop if loop in self.features else ""
        most = self.draw(st.sampled_from([None, 1, 2]))
        each = ForEach(count=self.draw(st.integers(0, 3)), parallelism=most)
        texts = [text for text in self.references(name, loop) if "attempt" not in text]
        params = {"p": self.draw(st.sampled_from([1, "x", *texts]))}
        retries = [each for each in RETRIES if not (each.avoid_nodes or each.patch)]
        timeouts = ["2s", "4s"] if "timeout" in self.features else []
        flow = self.child_flow()
        return Step(
            name=name,
            flow=flow | {"params": params} if self.draw(st.booleans()) else flow,
            depends_on=depends_on,
            when=self.condition(name) if self.has("when", 4) else None,
            for_each=each if loop == "forEach" else None,
            repeat=self.repeat() if loop == "repeat" else None,
            retry=some_or_none(self.draw, retries, 2) if "retry" in self.features else None,
            timeout=some_or_none(self.draw, timeouts, 4),
            concurrency=PLACE if self.has("places", 4) else None,
            continue_on_failure=True if self.has("continueOnFailure", 4) else None,
        )

    def child_flow(self) -> dict[str, Any]:
        """Draw what a child flow runs."""
        return CHILD

    def work(self) -> dict[str, Any]:
        """Draw what a step or a case runs."""
        if self.has("work", 4):
            return dict(self.draw(st.sampled_from(WORKS)))
        return {"template": self.draw(st.sampled_from(["t", "u"]))}

    def depends_on(self, before: str) -> DependsOn | None:
        targets = self.draw(st.lists(st.sampled_from(before), unique=True, max_size=3))
        if not targets:
            return None
        words = ["Completed", "Running", "Failed", "Finished", "NotFailed", "Always"]
        return DependsOn(
            targets=targets,
            strategy=self.draw(st.sampled_from([None, "all", "any"])),
            condition=self.draw(st.sampled_from([None, None, *words])),
            conditions={targets[0]: self.draw(st.sampled_from(words))}
            if self.has("conditions", 4)
            else None,
            items="Matching" if self.may_match(targets) else None,
        )

    def may_match(self, targets: list[str]) -> bool:
        """Draw whether a step matches the items of its targets."""
        steps = [self.steps[name] for name in targets]
        return any(map(has_items, steps)) and self.has("matching", 2)

    def switch(self, name: str) -> list[Case]:
        cases = [
            Case(
                when=self.condition(name),
                **self.work(),
                patch=some_or_none(self.draw, [Patch(job_spec={"queue": "q-of-case"})]),
            )
            for _ in range(self.draw(st.integers(1, 2)))
        ]
        default = self.draw(st.sampled_from([None, "t", "u"]))
        return cases if default is None else [*cases, Case(template=default)]

    def refer(self, *params: str) -> list[str]:
        """Return references to these params, if the flow has them."""
        return [f"$(params.{name})" for name in params] if self.params else []

    def retries(self) -> list[Retry]:
        return [*RETRIES, *(Retry(limit=text) for text in self.refer("n"))]

    def turn(self, name: str) -> str | None:
        """Draw a condition for single items."""
        if not self.has("itemWhen", 4):
            return None
        texts = ["index > 0", "index == 0", 'item == "x"', self.condition(name)]
        for other in sorted(self.items_before[name]):
            item = f'steps["{other}"].item'
            texts += [f"{item}.outputs.n > 1", f'{item}.phase == "Completed"'] * 2
        return self.draw(st.sampled_from(texts))

    def for_each(self, name: str) -> ForEach:
        return msgspec.structs.replace(self.items_of(name), when=self.turn(name))

    def items_of(self, name: str) -> ForEach:
        parallelism = self.draw(st.sampled_from([None, 1, 2, *self.refer("n")]))
        kind = self.draw(st.sampled_from(["items", "count", "from"]))
        if kind == "count":
            counts: list[int | str] = [0, 1, 2, 3, *self.refer("m.c")]
            return ForEach(count=self.draw(st.sampled_from(counts)), parallelism=parallelism)
        if kind == "from" and len(self.unknown) < MAX_UNKNOWN:
            text = self.list_(name)
            self.unknown |= set() if text.startswith("params.") else {name}
            return ForEach(from_=text, parallelism=parallelism)
        return ForEach(items=self.draw(st.sampled_from(ITEMS)), parallelism=parallelism)

    def matching_for_each(self, name: str, depends_on: DependsOn | None) -> ForEach | None:
        """Draw the items of a step that matches them: none of its own, or as many in most cases."""
        each = self.items_like(name, depends_on)
        when = self.turn(name)
        return each if when is None else msgspec.structs.replace(each or ForEach(), when=when)

    def items_like(self, name: str, depends_on: DependsOn | None) -> ForEach | None:
        assert depends_on is not None
        kind = self.draw(st.sampled_from(["none", "parallelism", "count", "own"]))
        if kind in ("none", "parallelism") and self.unknown.intersection(depends_on.targets or ()):
            if len(self.unknown) == MAX_UNKNOWN:
                kind = "count"
            else:
                self.unknown.add(name)
        if kind == "none":
            return None
        if kind == "count":
            targets = [self.steps[target] for target in depends_on.targets or ()]
            counts = [each.for_each.count for each in targets if each.for_each is not None]
            return ForEach(count=next((n for n in counts if isinstance(n, int)), 2))
        if kind == "own":
            return self.items_of(name)
        return ForEach(parallelism=self.draw(st.sampled_from([1, 2])))

    def repeat(self) -> Repeat:
        most: list[int | str] = [1, 2, 3, *self.refer("m.c")]
        return Repeat(
            until=self.draw(st.sampled_from(UNTILS)),
            max=self.draw(st.sampled_from(most)),
            pause=some_or_none(self.draw, ["3s", "0s"]),
        )

    def vars(self, name: str, loop: str) -> dict[str, str]:
        texts = ["flow.name", *(["params.w", "params.l[1]"] if self.params else [])]
        texts += ["index"] if loop else []
        texts += ["item"] if loop == "forEach" else []
        for other in self.plain_before(name):
            step = f'steps["{other}"]'
            texts += [f"{step}.outputs.n", f'{step}.phase == "Completed"']
            texts += [f"{step}.job"] if self.has_job(other) else []
        for other in sorted(self.items_before[name]):
            item = f'steps["{other}"].item'
            texts += [f"{item}.outputs.n", f'{item}.phase == "Completed"']
        return {name: self.draw(st.sampled_from(texts)) for name in "vw"}

    def references(self, name: str, loop: str) -> list[str]:
        """Return texts with the references that a step may have."""
        texts = ["q-$(flow.name)", "q-$(flow.scheduledTime)"]
        texts += ["q-$(params.w)", "$(params.w)"] if self.params else []
        texts += ["q-$(flow.claims.data)"] if self.claims else []
        texts += ["q-$(index)"] if loop else []
        texts += ["q$(last.index)-l"] if loop == "repeat" else []
        texts += ["q-$(attempt)-$(retries)"]
        texts += ["q-$(item)"] if loop == "forEach" else []
        for other in self.plain_before(name):
            facts = ["outputs.n", "phase", "failure.exitCode"]
            facts += ["job"] if self.has_job(other) else []
            texts += [f"q-$(steps.{other}.{fact})" for fact in facts]
        for other in sorted(self.items_before[name]):
            texts += [f"q-$(steps.{other}.item.{fact})" for fact in ("outputs.n", "phase")]
        return texts

    def env(self, name: str, loop: str) -> dict[str, Any]:
        values = [*self.references(name, loop), "text", 3, 0.5, True, None]
        values += ["$(index)"] if loop else []
        values += ["$(last.outputs.n)", "$(last.index)"] if loop == "repeat" else []
        values += ["$(item)"] if loop == "forEach" else []
        drawn = self.draw(st.lists(st.sampled_from(values), min_size=1, max_size=2))
        return dict(zip(("Z", "A"), drawn, strict=False))

    def patch(self, name: str, loop: str) -> Patch:
        queues = self.references(name, loop)
        spec: dict[str, Any] = {"queue": self.draw(st.sampled_from(queues))}
        if self.params and self.draw(st.booleans()):
            spec["maxRetry"] = "$(params.n)"
        return Patch(job_spec=spec)

    # ------------------------------------------------------------------- expressions

    def plain_before(self, name: str) -> list[str]:
        before = sorted(self.ended_before[name])
        return [n for n in before if not has_items(self.steps[n]) and not self.steps[n].repeat]

    def has_job(self, name: str) -> bool:
        """Whether a step runs vcjobs, so that others may use their name."""
        return self.steps[name].kinds == {WorkKind.JOB}

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
            texts += [f"{step}.failure.exitCode == 1", f'{step}.failure.node == "n2"']
            texts.append(f"{step}.failure.disruption")
        text = self.draw(st.sampled_from(texts))
        return f"!({text})" if self.draw(st.booleans()) and not text.endswith(".n") else text

    def list_(self, name: str) -> str:
        texts = ["[]", '["x", "y"]', *(["params.l"] if self.params else [])]
        texts += [f'steps["{other}"].outputs.l' for other in self.plain_before(name)]
        return self.draw(st.sampled_from(texts))

    # ---------------------------------------------------------------------- scripts

    def scripts(self, step: Step) -> tuple[Script, ...]:
        own = KINDS.get(step.kind_of(None))
        if own is not None and own.rules.scripts:
            answers = st.lists(st.sampled_from(own.rules.scripts), min_size=1, max_size=3)
            return tuple(self.draw(answers))
        kinds = [*SUCCEEDING, *FAILING, *FAILING, *DISRUPTED, *ABORTED]
        if "refused" in self.features:
            kinds.append(Script(refused=True))
        if step.flow is not None:
            failing = [script for script in FAILING if script.end == "Failed"]
            kinds = [*SUCCEEDING, *failing, *ABORTED, Script(end="Failed", flow_error=True)]
            kinds.append(Script(is_changed=True))
        if step.daemon:
            kinds = [*FOREVER * 6, *FAILING, *ABORTED]
        elif step.timeout and step.flow is None:
            kinds += FOREVER
        drawn = self.draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
        return tuple(drawn)
