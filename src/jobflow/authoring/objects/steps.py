"""JobTemplates, steps that run them, and the operators that order steps: `a >> [b, c] >> d`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

from jobflow.authoring.objects.expressions import Expr, step_value
from jobflow.authoring.objects.faults import Place, caller
from jobflow.authoring.objects.fields import JobSpec
from jobflow.authoring.objects.returns import Outputs
from jobflow.core.suggest import Suggester, did_you_mean

Texts = Mapping[str, str]


class Manifest:
    """An object with metadata: a flow, a template or a schedule."""

    def __init__(self, name: str, metadata: Mapping[str, Any], place: Place) -> None:
        self.name = name
        """`metadata.name`; empty if the server generates it."""
        self._metadata = {key: value for key, value in metadata.items() if value}
        self._place = place

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Template(Manifest):
    """A JobTemplate: the spec of a Volcano job that steps run. A flow sends it with itself if a
    step has it as `template`, or after `flow.add(template)`."""

    def __init__(
        self,
        name: str,
        spec: Mapping[str, Any] | JobSpec,
        *,
        namespace: str | None = None,
        labels: Texts | None = None,
        annotations: Texts | None = None,
    ) -> None:
        metadata = {"namespace": namespace, "labels": labels, "annotations": annotations}
        super().__init__(name, metadata, caller())
        self.spec = spec


Values = Mapping[str, tuple[Any, Place]]
"""The fields of a step by their names here, each with the place of its value."""


class Function(Protocol):
    """A function of the user, as far as a step that runs it knows it."""

    function: Callable[..., Any]
    _place: Place
    _outputs: Outputs
    _is_called: bool


class _Ordered:
    """A step, or several, that others can wait for."""

    @overload
    def __rshift__(self, other: Step) -> Step: ...
    @overload
    def __rshift__(self, other: Sequence[Step]) -> Steps: ...
    def __rshift__(self, other: Step | Sequence[Step]) -> Step | Steps:
        _order(self, other, caller())
        return other if isinstance(other, Step) else Steps(other)


class Step(_Ordered):
    """A step of a flow. `a >> b` lets b wait for a. Its results are expressions: `a.outputs.x` is
    one of its outputs, `a.result` what a function returned."""

    def __init__(self, body: StepList, name: str, values: Values, place: Place) -> None:
        self.name = name
        """The name of the step in the flow."""
        self._body = body
        self._values = values
        self._place = place
        self._targets: list[tuple[Step, Place]] = []
        self._function: Function | None = None
        self._arguments: Values = {}
        """Those of the function; known ones as the JSON that it gets."""

    def __repr__(self) -> str:
        return f"Step({self.name!r})"

    @property
    def outputs(self) -> Expr:
        """The outputs of the step, by name."""
        return step_value(self.name).outputs

    @property
    def result(self) -> Expr:
        """The output `result`: the value that a function returned, if it is no dict."""
        return self.outputs["result"]

    @property
    def items(self) -> Expr:
        """With for_each: a list with `outputs` and `phase` of each item."""
        return step_value(self.name)["items"]

    @property
    def item(self) -> Expr:
        """In a step with `items="Matching"`: `phase`, `outputs`, `job` and `failure` of the item
        with the same index."""
        return step_value(self.name).item

    @property
    def phase(self) -> Expr:
        """Completed, Failed, Skipped, or the phase while it runs."""
        return step_value(self.name).phase

    @property
    def reason(self) -> Expr:
        """The reason of its phase."""
        return step_value(self.name).reason

    @property
    def job(self) -> Expr:
        """The name of its job."""
        return step_value(self.name).job

    @property
    def attempts(self) -> Expr:
        """The number of jobs that were created for it."""
        return step_value(self.name).attempts

    @property
    def failure(self) -> Expr:
        """How it failed: exitCode, signal, reason, node, task, pod, message, ..."""
        return step_value(self.name).failure

    @property
    def tasks(self) -> Expr:
        """The number of pods by task and phase: `tasks.worker.Succeeded`."""
        return step_value(self.name).tasks

    if not TYPE_CHECKING:  # or a type checker accepts any name

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            known = [each for each in dir(Step) if not each.startswith("_")]
            guess = did_you_mean(Suggester(known).nearest(name))
            advice = f"; an output is .outputs.{name}"
            raise AttributeError(f'step {self.name} has no "{name}"{guess or advice}', name=name)

    def __rrshift__(self, other: Sequence[Step]) -> Step:
        _order(other, self, caller())
        return self

    @overload
    def __lshift__(self, other: Step) -> Step: ...
    @overload
    def __lshift__(self, other: Sequence[Step]) -> Steps: ...
    def __lshift__(self, other: Step | Sequence[Step]) -> Step | Steps:
        _order(other, self, caller())
        return other if isinstance(other, Step) else Steps(other)

    def __bool__(self) -> bool:
        raise TypeError(
            f"step {self.name} is neither true nor false: write when=step.outputs.x > 1, or "
            'step.phase == "Completed"'
        )


class StepList:
    """The steps of a flow, in the order in which they were added, and what they need."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._steps: list[Step] = []
        self._finally: list[Step] = []
        self._templates: list[Template] = []
        self._functions: list[Function] = []

    def _add(self, name: str, values: Values, place: Place, *, is_finally: bool = False) -> Step:
        step = Step(self, name, values, place)
        (self._finally if is_finally else self._steps).append(step)
        return step


class Steps(list[Step], _Ordered):
    """Several steps in an order: `Steps([a, b]) >> [c, d]`."""


def _order(sources: object, targets: object, place: Place) -> None:
    """Let each of `targets` wait for all `sources`; both are a step or a list of steps."""
    earlier, later = _listed(sources), _listed(targets)
    for step in later:
        for source in earlier:
            if source._body is not step._body:
                raise ValueError(
                    f"step {step.name} cannot wait for step {source.name}, which is in another flow"
                )
            # `a >> b` twice is one dependency; the first place is shown.
            if not any(known is source for known, _ in step._targets):
                step._targets.append((source, place))


def _listed(steps: object) -> list[Step]:
    found = []
    for each in steps if isinstance(steps, list | tuple) else [steps]:
        if not isinstance(each, Step):
            raise TypeError(f">> orders steps and lists of steps, not a {type(each).__name__}")
        found.append(each)
    return found
