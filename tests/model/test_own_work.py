"""Work without objects runs as the reference says, whatever its attempts wait for.

Calls (`support/plan/calls.py`) take the place of approvals. Attempts, retries, timeouts, loops and
ends are those of all such work.
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from jobflow.api.flow.control import Approval
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.flow.traits import WorkKind
from jobflow.core.admission.validate import Known, validate_flow
from jobflow.core.planning.actions import ProbeResult
from jobflow.core.violations import Verdict
from model import carrying, random_flows
from model.acting import Script
from model.explorer import configurations
from model.explorer.configurations import AT_ONCE, Configuration
from model.explorer.search import Search
from model.random_flows import WITHOUT_CHILDREN, Drawing, cases, run_random_flows
from model.random_steps import StepDrawing, some_or_none
from model.random_values import RETRIES
from model.work.approvals import approval_of
from model.work.kinds import KINDS, Kind
from model.work.own_work import OwnWork
from support.plan.calls import call_in_place_of_approvals
from support.plan.plan_world import flow
from support.plan.steps import step


class Calls(OwnWork):
    fails = "JobFailed"
    scripts = tuple(Script(lasts=n, end=end) for n in (1, 3, 9) for end in ("Completed", "Failed"))

    @staticmethod
    def draw(drawing: StepDrawing, name: str, depends_on: DependsOn | None, *, last: bool) -> Step:
        loop = depends_on is not None and depends_on.items is not None
        for_each = drawing.matching_for_each(name, depends_on) if loop else None
        kind = drawing.draw(st.sampled_from(["", "forEach", "repeat"])) if not loop else ""
        others = [f"$(steps.{other}.outputs.n)?" for other in drawing.plain_before(name)]
        retries = [each for each in RETRIES if not (each.avoid_nodes or each.patch)]
        return Step(
            name=name,
            approval=Approval(message=some_or_none(drawing.draw, ["$(flow.name)", *others])),
            depends_on=depends_on,
            when=drawing.condition(name) if drawing.has("when", 4) else None,
            for_each=drawing.for_each(name) if kind == "forEach" else for_each,
            repeat=drawing.repeat() if kind == "repeat" else None,
            retry=some_or_none(drawing.draw, retries, 2),
            timeout=some_or_none(drawing.draw, ["2s", "4s"], 2),
            continue_on_failure=True if drawing.has("continueOnFailure", 4) else None,
        )

    def written(self, step: Step) -> Any:
        return approval_of(step).message or ""


class Calling(Drawing):
    """A flow of which every second step is a call."""

    def has(self, feature: str, one_in: int = 3) -> bool:
        return super().has(feature, 2 if feature == WorkKind.APPROVAL else one_in)


def answer(script: Script) -> ProbeResult:
    return ProbeResult(passed=script.end == "Completed")


def judge(flow: JobFlow, known: Known) -> Verdict:
    """Let calls have fields that approvals cannot have."""
    verdict = validate_flow(flow, known)
    others = tuple(each for each in verdict.violations if "approval" not in each.detail)
    return replace(verdict, violations=others)


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> None:
    call_in_place_of_approvals(monkeypatch)
    for module in (carrying, random_flows, configurations):
        monkeypatch.setattr(module, "validate_flow", judge)
    monkeypatch.setitem(KINDS, WorkKind.APPROVAL, Kind(Calls, answer))


@pytest.mark.sampled(3)
@pytest.mark.law
@pytest.mark.parametrize("share", range(3))
def test_a_random_flow_of_calls_runs_as_the_reference_says(share: int) -> None:
    run_random_flows(cases(WITHOUT_CHILDREN, Calling), share, 40)


def test_every_state_of_a_flow_of_calls_satisfies_the_laws() -> None:
    call = step(approval=Approval(), retry=AT_ONCE)
    explored = Search(Configuration(flow(call=call, b="call"), {"crash": 1, "fail": 1})).run()
    assert explored.exhausted
    assert not explored.violations, "\n".join(explored.stories.values())
