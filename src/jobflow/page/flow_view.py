"""One flow and its selected step, as every panel of its page is given them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import RunCondition, StepCondition, StepPhase
from jobflow.api.flow.step import Step
from jobflow.api.volcano.pod import Pod
from jobflow.client.conditions import condition_of
from jobflow.core.explain.item import describe_unknown_item
from jobflow.core.spec.param_values import with_param_values
from jobflow.core.timelines.past import flow_at, last_time
from jobflow.core.timelines.timeline import first_start
from jobflow.page.watches.live import Live
from jobflow.page.watches.step import LivePage, StepChoice
from jobflow.page.web.fragments import Fragment


@dataclass(frozen=True, slots=True)
class FlowQuery:
    """The choices on the page of a flow, as its address has them."""

    step: str = ""
    """The selected step, `STEP` or `STEP/INDEX`; the same one in all views."""
    view: str = ""
    """The name of a view; the first one if there is no such view."""
    q: str = ""
    """A part of the names of the steps that timeline and table show."""
    open: str = ""
    """Rows of timeline and table whose runs or child flows are shown, with commas between."""
    sort: str = ""
    """The column by which the table is sorted, after `-` from the last value to the first."""
    items: str = ""
    """The items of a step that its panel shows: `STEP:failed:2` is the second page of those that
    failed, `STEP:all:1` the first page of all. It is ignored if another step is selected."""
    at: str = ""
    """An earlier time, in RFC 3339, at which graph, timeline and table show the flow."""
    since: str = ""
    """`retry`: the timeline begins with the last retry, and not with the start of the flow."""

    @classmethod
    def of(cls, params: Mapping[str, str]) -> FlowQuery:
        return cls(**{name: params[name] for name in cls.__slots__ if name in params})

    def selects(self, step: str) -> bool:
        return step in (self.step, self.step.partition("/")[0])


@dataclass(frozen=True, slots=True)
class FlowView:
    """A flow at a moment, for the panels of its page."""

    flow: JobFlow
    query: FlowQuery
    page: LivePage
    now: datetime
    choice: StepChoice | None = None
    """The selected step; None if the flow has no such step."""
    at: datetime | None = None
    """The earlier time that is shown; None at present."""

    @classmethod
    def of(cls, flow: JobFlow, query: FlowQuery, page: LivePage) -> FlowView:
        choice = StepChoice.of(flow, query.step)
        return cls(with_param_values(flow), query, page, datetime.now(UTC), choice)

    def as_of(self) -> FlowView:
        """Return the flow at the time of the address, the present one if it had ended by then."""
        start = first_start(self.flow)
        try:
            at = datetime.fromisoformat(self.query.at)
        except ValueError:
            return self
        # the present is shown live, not as a moment of the past
        if at.tzinfo is None or start is None or at >= self.end:
            return self
        # a link may name any time
        at = max(at, start)
        return replace(self, flow=flow_at(self.flow, at), now=at, at=at)

    def present(self) -> FlowView:
        """Return the flow as it is now."""
        if self.at is None:
            return self
        flow = with_param_values(self.page.flow.flow or self.flow)
        return replace(self, flow=flow, now=datetime.now(UTC), at=None)

    @property
    def end(self) -> datetime:
        """The end of a flow that has a start, or the present time."""
        return last_time(self.flow) if self.flow.final else self.now

    def child(self, name: str) -> JobFlow | None:
        """Return a child flow, at any level, as it was at the time that is shown."""
        found = self.page.flow.children().get(name) if name else None
        return found if found is None or self.at is None else flow_at(found, self.at)


def notice(live: Live[Any], problem: str = "") -> Fragment:
    """Return the notice at the top: a `problem`, or why the page is not up to date."""
    problem = problem or live.trouble
    text = problem or ("" if live.cache.synced else "The cluster has not answered yet.")
    return Fragment("notice", "notice.html", {"text": text, "is_error": bool(problem)})


@dataclass(frozen=True, slots=True)
class SelectedStep:
    """A step, or an item of it, at a moment."""

    view: FlowView
    choice: StepChoice
    step: Step
    condition: StepCondition
    """The condition of the step, also if an item is selected."""
    run: RunCondition
    """The condition of the item, or that of the step if no item is selected."""
    unknown: str
    """Why there is no such item; "" if there is one."""

    @classmethod
    def of(cls, view: FlowView) -> SelectedStep | None:
        """Return the selected step; None if the address names none of the flow."""
        choice = view.choice
        if choice is None:
            return None
        step = next(each for each in view.flow.all_steps if each.name == choice.step)
        condition, unknown = condition_of(view.flow, step.name), ""
        run: RunCondition = condition
        if choice.index is not None:
            unknown = describe_unknown_item(view.flow, step, str(choice.index))
            # an item is in the status only once it has started
            waiting = RunCondition(index=choice.index, phase=StepPhase.WAITING)
            run = condition.run_at(choice.index) or waiting
        return cls(view, choice, step, condition, run, unknown)

    @property
    def flow(self) -> JobFlow:
        return self.view.flow

    @property
    def pods(self) -> Sequence[Pod]:
        """The pods of the step or item, as far as they may be read."""
        watches = self.view.page.step
        return watches.pods(self.flow) if watches is not None else ()

    @property
    def has_many_runs(self) -> bool:
        """Whether the step as a whole is selected, and it has items or repeats."""
        return self.step.has_runs and self.choice.index is None
