"""Objects of Python as JSON of the API, with the place of every part. An expression becomes CEL
where the API has expressions, else a reference, or a var if no reference can name it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from jobflow.api.flow import step as api
from jobflow.api.flow import traits
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.traits import fields_of
from jobflow.authoring.objects.expressions import Expr, has_expr, reference_to, to_cel
from jobflow.authoring.objects.faults import Place
from jobflow.authoring.objects.fields import Fields, ForEach, Param, Retry
from jobflow.authoring.objects.flows import ChildFlow, FlowBody
from jobflow.authoring.objects.functions import Joined
from jobflow.authoring.objects.steps import Step, Template, Values
from jobflow.authoring.uses import add_dependencies, find_misfits, find_misnamed_outputs
from jobflow.core.manifests.schema_hints import fields_of_other_tools
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.violations import join_path

_OF_FLOWS = {
    field.name: field for field in fields_of(JobFlowSpec) if field.get(traits.Apart) is None
}
_OF_STEPS = {field.name: field for field in fields_of(api.Step) if field.name != "name"}
# Types of objects in a flow. The classes of Python have the same names.
_TYPES = {
    field.struct.__name__: field.struct
    for _, field in traits.walk(JobFlowSpec)
    if field.struct is not None
}
_WORKS = traits.names_with(api.Step, traits.Runs)
_ARGUMENTS = {
    field.name: field.json
    for field in fields_of(api.Step)
    if field.get(traits.JobPart) == traits.JobPart(traits.Role.ARGUMENT)
}
# Shorter forms of fields.
_SHORTHANDS: Mapping[str, Callable[[Any], Any]] = {
    "for_each": lambda value: (
        ForEach(from_=Expr(to_cel(value))) if has_expr(value) else ForEach(items=value)
    ),
    "retry": lambda value: Retry(limit=value),
}


def to_json_name(name: str) -> str:
    """Return the name of a field in the API: `finally` for `finally_`, `forEach` for `for_each`."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(each.capitalize() for each in others)


@dataclass(slots=True)
class _Vars:
    path: str
    taken: set[str]
    made: dict[str, str] = field(default_factory=dict)
    """Expressions -> names."""

    def name_for(self, text: str, hint: str) -> str:
        if text in self.made:
            return self.made[text]
        base = re.sub(r"\W", "_", hint, flags=re.ASCII).strip("_").lower()
        base = base if re.match(r"[a-z_]", base) else "value"
        name, number = base, 1
        while name in self.taken:
            number += 1
            name = f"{base}{number}"
        self.taken.add(name)
        self.made[text] = name
        return name


@dataclass(frozen=True, slots=True)
class _Context:
    """The values of the run that a place allows."""

    may_refer: bool = False
    may_compute: bool = False
    """Whether a var may compute a value that no reference can name."""
    variables: _Vars | None = None

    def of_field(self, field: traits.FlowField) -> _Context:
        is_of_job, refers = field.get(traits.JobPart) is not None, field.get(traits.Referring)
        is_setting = field.get(traits.Setting) is not None
        # Vars are known when a job is created, but not in questions and the like.
        computes = refers.stage is traits.Stage.JOB if refers is not None else is_of_job
        return _Context(
            may_refer=is_of_job or refers is not None or is_setting,
            may_compute=computes and self.variables is not None,
            variables=self.variables,
        )


_PLAIN = _Context()


class Encoder:
    """Writes one object as JSON."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.places: dict[str, Place] = {}
        """The places of its parts by their JSON paths."""
        self.problems: list[tuple[str, str]] = []
        """Paths and messages of what cannot be written as JSON."""
        self.templates: dict[int, Template] = {}
        """Templates that steps name as objects, by their identities."""

    def place_of(self, path: str) -> Place | None:
        """Return the place of a path, or of the nearest path above it."""
        while path and path not in self.places:
            path = path[: max(path.rfind("."), path.rfind("["), 0)]
        return self.places.get(path)

    def spec(self, body: FlowBody, path: str) -> dict[str, Any]:
        known = _OF_FLOWS
        self.templates |= {id(each): each for each in body._templates}
        made: dict[str, Any] = {}
        # In the order of the API, then what it does not know.
        for name in [*known, *body._values]:
            if name not in body._values or to_json_name(name) in made:
                continue
            value, place = body._values[name]
            own = join_path(path, to_json_name(name))
            self.places[own] = place
            if name not in known:
                self.unknown(own, name, known)
            elif name == "params" and not isinstance(body, ChildFlow):
                made["params"] = self._params(value, own)
            elif value is not None:
                made[to_json_name(name)] = self._field(_OF_FLOWS[name], value, own, _PLAIN)
        # Outputs use the steps, so they are read after them.
        last = {key: made.pop(key) for key in ("outputs",) if key in made}
        groups = {"flows": body._steps, "finally": body._finally}
        for key, steps in groups.items():
            if steps or key == "flows":
                places = [f"{path}.{key}[{i}]" for i in range(len(steps))]
                made[key] = [*map(self._step, steps, places)]
                add_dependencies(made[key])
        # A patch may replace the program that was read.
        outputs = {
            step.name: step._function._outputs
            for step in (*body._steps, *body._finally)
            if step._function is not None and "patch" not in step._values
        }
        self.problems += find_misnamed_outputs(made | last, path, outputs)
        params = body._params if isinstance(body, ChildFlow) else _values_of(made.get("params"))
        for key, steps in groups.items():
            for i, step in enumerate(steps):
                if step._function is None:
                    continue
                own, function = f"{path}.{key}[{i}].arguments", step._function.function
                arguments = {name: value for name, (value, _) in step._arguments.items()}
                for name, why in find_misfits(made[key][i], function, arguments, params, outputs):
                    self.places[f"{own}.{name}"] = step._arguments[name][1]
                    self.problems.append((f"{own}.{name}", why))
        return made | last

    def _params(self, value: Any, path: str) -> Any:
        if not isinstance(value, Mapping):
            return self.value(value, path)
        params = []
        for i, (name, each) in enumerate(value.items()):
            own = f"{path}[{i}]"
            inner = each if isinstance(each, Param) else Param(value=each)
            params.append({"name": name} | self.value(inner, own))
        return params

    def _step(self, step: Step, path: str) -> dict[str, Any]:
        """Return a step, with its fields in the order of the API."""
        values, known = _with_container(step), _OF_STEPS
        self.places[path] = step._place
        variables = _Vars(f"{path}.vars", {*(_value_of(values, "vars") or {})})
        context = _Context(variables=variables)
        made: dict[str, Any] = {"name": step.name}
        for name in [*known, *values]:
            key = to_json_name(name)
            # Written also if it is not given, because `a >> b` adds to it.
            if name == "depends_on":
                made |= self._depends_on(step, values, f"{path}.dependsOn")
            if name not in values or key in made or name == "depends_on":
                continue
            value, place = values[name]
            own = f"{path}.{key}"
            self.places[own] = place
            if name not in known:
                self.unknown(own, name, known)
            elif value is not None:
                if name in _SHORTHANDS and not isinstance(value, Fields | Mapping):
                    value = _SHORTHANDS[name](value)
                made[key] = self._field(_OF_STEPS[name], value, own, context)
        # The default of the API.
        if made.get("template") == step.name:
            del made["template"]
        if variables.made:
            added = {name: text for text, name in variables.made.items()}
            made["vars"] = made.get("vars", {}) | added
        return made

    def _depends_on(self, step: Step, values: Values, path: str) -> dict[str, Any]:
        given, self.places[path] = values.get("depends_on", (None, step._place))
        listed = given if isinstance(given, list | tuple | None) else [given]
        made: dict[str, Any] = {}
        if isinstance(given, Fields):
            made = self.value(given, path)
            listed = []
        targets = [*made.get("targets", ()), *(_name_of(each) for each in listed or ())]
        for source, place in step._targets:
            if source.name not in targets:
                self.places[f"{path}.targets[{len(targets)}]"] = place
                targets.append(source.name)
        if targets or "targets" in made:
            made["targets"] = targets
        return {"dependsOn": made} if made or isinstance(given, Fields) else {}

    def unknown(self, path: str, name: str, known: Mapping[str, Any]) -> None:
        """Note a field that does not exist, at the place of its name."""
        place = self.places[path]
        self.places[path] = place.keyword or place
        # Fields of Argo and others are known by their paths in the spec.
        of_step = re.search(r"(flows|finally)\[\d+\](?=\.\w+$)", path)
        others = fields_of_other_tools(f"spec.{of_step[0]}" if of_step else "spec")
        guess = Suggester([*known, *others]).nearest(name) or ""
        ours = others.get(guess, "")
        if not ours.startswith("spec.") and " " not in ours:
            # `for_each` for `forEach`
            ours = re.sub(r"(?=[A-Z])", "_", ours.partition(".")[0]).lower()
        hint = f"; here that is {ours}" if ours and guess not in known else did_you_mean(guess)
        self.problems.append((path, f"there is no field {name}{hint}"))

    def _field(self, field: traits.FlowField, value: Any, path: str, context: _Context) -> Any:
        if field.get(traits.Evaluated) is None:
            return self.value(value, path, context.of_field(field))
        if isinstance(value, Mapping):
            items = value.items()
            return {str(key): self._field(field, each, path, context) for key, each in items}
        # A text is an expression already.
        return value if isinstance(value, str) else to_cel(value)

    def value(self, value: Any, path: str, context: _Context = _PLAIN) -> Any:
        if isinstance(value, Expr):
            return self._late(value, path, context)
        if isinstance(value, Joined):
            return value.text + str(self._late(value.value, path, context))
        if isinstance(value, Fields):
            return self._fields(value, path, context)
        if isinstance(value, ChildFlow):
            params = {"params": self.value(value._params, f"{path}.params", context)}
            return (params if value._params else {}) | self.spec(value, path)
        if isinstance(value, Template):
            self.templates[id(value)] = value
            return value.name
        if isinstance(value, Mapping):
            return {
                _name_of(key): self.value(each, join_path(path, _name_of(key)), context)
                for key, each in value.items()
            }
        if isinstance(value, list | tuple | range):
            return [self.value(each, f"{path}[{i}]", context) for i, each in enumerate(value)]
        if isinstance(value, Step) and ".targets[" in path:
            return value.name
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):  # an enum is its value
            return str(value)
        if isinstance(value, int | float) and math.isfinite(value):  # also numbers of numpy
            return int(value) if isinstance(value, int) else float(value)
        advice = repr(value)
        if isinstance(value, Step):
            advice = f"write {value.name}.outputs.NAME, or {value.name}.result"
        self.problems.append((path, f"a {type(value).__name__} is no value of JSON: {advice}"))
        return None

    def _fields(self, value: Fields, path: str, context: _Context) -> Any:
        """Return an object of the API. One of a job is as open as the field that it is in."""
        struct = _TYPES.get(type(value).__name__)
        known = {each.name: each for each in fields_of(struct)} if struct is not None else {}
        return {
            to_json_name(each.name): self._field(known[each.name], inner, own, context)
            if known
            else self.value(inner, own, context)
            for each in fields(value)  # type: ignore[arg-type]
            if (inner := getattr(value, each.name)) is not None
            and (own := join_path(path, to_json_name(each.name)))
        }

    def _late(self, value: Expr, path: str, context: _Context) -> Any:
        """Return the reference to a value of the run, if necessary to a var that computes it."""
        reference = reference_to(value)
        if reference is not None and context.may_refer:
            return reference
        text = to_cel(value)
        if context.may_compute and context.variables is not None:
            hint = re.split(r"[.\[\]]", path.rstrip("]"))[-1]
            name = context.variables.name_for(text, hint)
            # A fault of the var is shown where it was written.
            if (place := self.place_of(path)) is not None:
                self.places.setdefault(join_path(context.variables.path, name), place)
            return f"$(vars.{name})"
        allowed = "params and plain values" if context.may_refer else "plain values"
        message = f"only {allowed} can stand here, not {text}, which is known when the flow runs"
        self.problems.append((path, message))
        return text


def _with_container(step: Step) -> Values:
    """Return the fields of a step. One with an image, and nothing else that says what it runs, is
    a container, unless the flow has a template with its name."""
    values = step._values
    templates = {each.name for each in step._body._templates}
    is_container = _value_of(values, "image") is not None and step.name not in templates
    if not is_container or any(_value_of(values, name) is not None for name in _WORKS):
        return values
    kept = {name: each for name, each in values.items() if name not in _ARGUMENTS}
    container = {json: _value_of(values, name) for name, json in _ARGUMENTS.items()}
    found = {json: value for json, value in container.items() if value is not None}
    return kept | {"container": (found, values["image"][1])}


def _value_of(values: Values, name: str) -> Any:
    return values[name][0] if name in values else None


def _values_of(params: Any) -> Mapping[str, Any]:
    """Return the values of the params of a flow by name."""
    listed = params if isinstance(params, list) else ()
    return {each["name"]: each.get("value") for each in listed}


def _name_of(key: Any) -> str:
    return key.name if isinstance(key, Step | Template) else str(key)
