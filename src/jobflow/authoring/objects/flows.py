"""Flows, child flows, and their schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, Unpack

from jobflow.authoring.objects.expressions import Expr, variable
from jobflow.authoring.objects.faults import Place, caller, ends_at_caller, refuse
from jobflow.authoring.objects.functions import TaskFunction
from jobflow.authoring.objects.steps import Manifest, Step, StepList, Template, Texts
from jobflow.core.suggest import Suggester, did_you_mean

if TYPE_CHECKING:  # names of types only
    from jobflow.authoring.objects.fields import ChildFields, CronFields, FlowFields, StepFields

P = ParamSpec("P")


class FlowBody(StepList):
    """Steps, and the fields of a flow around them."""

    @property
    def params(self) -> Expr:
        """The params of the flow: `flow.params.epochs`."""
        return variable("params")

    @property
    def phase(self) -> Expr:
        """In finally and outputs: Succeed or Failed, as the flow would end."""
        return variable("flow", "phase")

    @property
    def failures(self) -> Expr:
        """In finally and outputs: the steps that failed, with `step`, `reason`, `message` and
        `failure`."""
        return variable("flow", "failures")

    @property
    def claims(self) -> Expr:
        """The names of the PersistentVolumeClaims in `volume_claims`: `flow.claims.data`."""
        return variable("flow", "claims")

    @property
    def scheduled_time(self) -> Expr:
        """In flows of a CronFlow: the scheduled time."""
        return variable("flow", "scheduledTime")

    def step(self, name: str, **fields: Unpack[StepFields]) -> Step:
        """Add a step. Its fields are those of `spec.flows[]`, in snake_case. With `image` and
        nothing else that says what it runs, it is a container."""
        place = caller()
        return self._add(name, _placed(fields, place), place)

    def finally_(self, name: str, **fields: Unpack[StepFields]) -> Step:
        """Add a step that runs when all others have finished, whether they failed or not."""
        place = caller()
        return self._add(name, _placed(fields, place), place, is_finally=True)

    @ends_at_caller
    def task(
        self, name: str | None = None, *, is_finally: bool = False, **fields: Unpack[StepFields]
    ) -> Callable[[Callable[P, Any]], TaskFunction[P]]:
        """Return a decorator for functions that steps run: `@flow.task(image="python:3.12")`. Each
        call of the function then adds a step, with the name of the function unless `name` is
        given."""
        place = caller()
        # Without brackets the function itself arrives as the name.
        if callable(name):
            refuse(place, "write @flow.task(), with brackets")

        @ends_at_caller
        def decorate(function: Callable[P, Any]) -> TaskFunction[P]:
            return TaskFunction(self, function, name, fields, place, is_finally=is_finally)

        return decorate

    def __getattr__(self, name: str) -> Any:
        known = [each for each in dir(type(self)) if not each.startswith("_")]
        guess = did_you_mean(Suggester(known).nearest(name))
        raise AttributeError(f'a {type(self).__name__} has no "{name}"{guess}')

    def add(self, *templates: Template) -> None:
        """Send these templates with the flow, also if no step names them as objects."""
        self._templates += templates


class ChildFlow(FlowBody):
    """A flow that a step runs: `flow.step("site", flow=child)`. Its steps see its params, and
    nothing else of the flow around it."""

    def __init__(
        self, params: Mapping[str, Any] | None = None, **fields: Unpack[ChildFields]
    ) -> None:
        super().__init__(_placed(fields, caller()))
        self._params = params or {}


class NamedFlow(Manifest, FlowBody):
    """A JobFlow, without what can be done with it."""

    def __init__(
        self,
        name: str = "",
        *,
        generate_name: str | None = None,
        namespace: str | None = None,
        labels: Texts | None = None,
        annotations: Texts | None = None,
        **fields: Unpack[FlowFields],
    ) -> None:
        place = caller()
        metadata = {"namespace": namespace, "labels": labels, "annotations": annotations}
        Manifest.__init__(self, name, {"generateName": generate_name} | metadata, place)
        FlowBody.__init__(self, _placed(fields, place))


class NamedCron(Manifest):
    """A CronJobFlow, without what can be done with it."""

    def __init__(
        self,
        name: str,
        schedule: str,
        flow: NamedFlow,
        *,
        namespace: str | None = None,
        labels: Texts | None = None,
        annotations: Texts | None = None,
        **fields: Unpack[CronFields],
    ) -> None:
        place = caller()
        metadata = {"namespace": namespace, "labels": labels, "annotations": annotations}
        super().__init__(name, metadata, place)
        self.schedule = schedule
        self.flow = flow
        self._values = _placed(fields, place)


def _placed(fields: Mapping[str, object], place: Place) -> dict[str, tuple[Any, Place]]:
    arguments = place.arguments if fields else {}
    return {name: (value, arguments.get(name, place)) for name, value in fields.items()}
