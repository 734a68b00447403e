"""Course: how steps go on that may, as observed or as a forecast supposes."""

from typing import Protocol

from jobflow.api.flow import dependencies as api
from jobflow.core.lazy import lazy_property
from jobflow.core.planning.context import PlanContext
from jobflow.core.planning.decision import StepDecision
from jobflow.core.planning.pending.probes import ProbeState, Probing
from jobflow.core.planning.started.steps import begin


class Course(Protocol):
    """How steps go on: as observed, or as a forecast supposes."""

    evaluates: bool
    """Whether the conditions of a step are evaluated. If not, it runs whatever they say."""

    def look(self, position: int, probe: api.Probe, target: int) -> ProbeState:
        """Return the state of the probe of a step on a target that it has not passed before."""

    def begin(self, position: int) -> StepDecision:
        """Start a step."""


class AsObserved:
    """Steps go on as their jobs and pods show."""

    evaluates = True

    def __init__(self, ctx: PlanContext) -> None:
        self._ctx = ctx

    def look(self, position: int, probe: api.Probe, target: int) -> ProbeState:
        ctx = self._ctx
        observed, condition = ctx.observed[target], ctx.progress.standing[target]
        end = ctx.progress.ends[target]
        return self._probing.look(ctx.layout.steps[position], probe, observed, condition, end)

    def begin(self, position: int) -> StepDecision:
        return begin(self._ctx.observed[position], self._ctx)

    @lazy_property
    def _probing(self) -> Probing:
        return Probing(self._ctx.view, self._ctx.now)
