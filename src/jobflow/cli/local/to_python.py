"""Manifests as a Python file that makes the same objects with `jobflow.authoring`."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from jobflow.api.flow.control import Case
from jobflow.api.flow.cronjobflow import CronJobFlowSpec
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import JobPart, Role, Runs, fields_of
from jobflow.api.volcano.job import JobSpec
from jobflow.cli.local.python_code import Call, Code, Name, Names, write, write_lines
from jobflow.client.manifests.objects import Manifest
from jobflow.core.text import join_names

_WORKS = frozenset(each.json for each in fields_of(Step) if each.get(Runs) is not None)
_STEP_METHODS = {"flows": "step", "finally": "finally_"}
"""Methods that add a step, by the field of the flow."""
_Fields = Sequence[tuple[str, Code]]


def to_python(manifests: Sequence[Manifest], *, lenient: bool) -> str:
    """Return the source for flows, CronJobFlows and templates without faults. `lenient`: they have
    fields that only admission accepts."""
    module = _Module()
    templates = {
        (each.namespace, each.name): module.add_template(each)
        for each in manifests
        if each.kind == "JobTemplate"
    }
    others = [each for each in manifests if each.kind != "JobTemplate"]
    made = [_make(module, each, templates, is_only=len(others) == 1) for each in others]
    # a template that a step names is a part of its flow
    unused = [each for each in templates.values() if each not in module.named]
    flags: _Fields = [("lenient", True)] if lenient else []
    result = Call(f"{made[0]}.yaml", flags) if len(made) == 1 else None
    if result is None:
        objects = [("", Name(each)) for each in (*unused, *made)]
        result = Call(module.imported("to_yaml"), [*objects, *flags])
    elif unused:
        module.lines.append(write(Call(f"{made[0]}.add", [("", Name(each)) for each in unused])))
    names = [f"{each.kind} {each.name or each.generate_name}" for each in others or manifests]
    return module.source(join_names(names), result)


def _make(
    module: _Module, manifest: Manifest, templates: Mapping[tuple[str, str], str], *, is_only: bool
) -> str:
    metadata, spec = _metadata(module, manifest.data), manifest.data.get("spec") or {}
    seen = {name: each for (space, name), each in templates.items() if space == manifest.namespace}
    wanted = manifest.name or manifest.generate_name
    if manifest.kind == "JobFlow":
        return _Flow(module, seen).flow(wanted, metadata, spec, is_only=is_only)
    template = spec.get("jobFlowTemplate") or {}
    # the flows of a schedule are named after it
    inner = [each for each in _metadata(module, template) if each[0] != "name"]
    flow = _Flow(module, seen).flow(wanted, inner, template.get("spec") or {}, is_only=is_only)
    own = {key: each for key, each in spec.items() if key not in ("schedule", "jobFlowTemplate")}
    fields = module.fields(own, CronJobFlowSpec, wanted)
    [(_, name), *metadata] = metadata
    head: _Fields = [("", name), ("", spec["schedule"]), ("", Name(flow))]
    call = Call(module.imported("CronFlow"), [*head, *metadata, *fields])
    return module.assign("cron" if is_only else f"{wanted}_cron", call)


def _metadata(module: _Module, data: Mapping[str, Any]) -> list[tuple[str, Code]]:
    found = data.get("metadata") or {}
    kept: list[tuple[str, Code]] = [("", found["name"])] if found.get("name") else []
    names = {"namespace": "namespace", "labels": "labels", "annotations": "annotations"}
    if not kept:
        names = {"generateName": "generate_name"} | names
    owner = found.get("name") or ""
    written = ((key, name) for key, name in names.items() if found.get(key))
    return [*kept, *((name, module.value(found[key], owner, key)) for key, name in written)]


class _Module:
    def __init__(self) -> None:
        self.named: set[str] = set()
        """Variables of templates that steps name."""
        self._imports: set[str] = set()
        self.names = Names([*dir(builtins), *_EXPORTED])
        self._constants: dict[str, str] = {}
        """Names by their literals."""
        self.lines: list[str] = []

    def imported(self, name: str) -> str:
        self._imports.add(name)
        return name

    def assign(self, wanted: str, code: Code) -> str:
        """Assign an expression to a new variable, and return its name, which is like `wanted`."""
        name = self.names.make(wanted)
        self.lines.append(write(code, before=f"{name} = "))
        return name

    def source(self, subject: str, result: Call) -> str:
        names: Code = Call("import ", [("", Name(each)) for each in sorted(self._imports)])
        imported = write(names, before="from jobflow.authoring ")
        if "\n" not in imported:  # an import has brackets only over several lines
            imported = imported.replace("(", "").replace(")", "")
        constants = [f"{name} = {literal}" for literal, name in self._constants.items()]
        printed = write(Call("print", [("", result)]), before="    ")
        return "\n\n".join(
            [
                f'"""{subject}, as `jobflow convert` wrote it."""',
                "\n".join([imported, *(["", *constants] if constants else [])]),
                "\n".join(self.lines),
                f'if __name__ == "__main__":\n{printed}\n',
            ]
        )

    def add_template(self, manifest: Manifest) -> str:
        [name, *metadata] = _metadata(self, manifest.data)
        spec = self.job_spec(manifest.data.get("spec") or {}, manifest.name)
        call = Call(self.imported("Template"), [name, ("", spec), *metadata])
        return self.assign(f"{manifest.name}_template", call)

    def fields(
        self, value: Mapping[str, Any], struct: type[msgspec.Struct], owner: str
    ) -> list[tuple[str, Code]]:
        """Return the fields of an object as arguments, in the order of its type."""
        found: list[tuple[str, Code]] = []
        # by the traits of fields, so that a new field is converted without a change here
        for each in fields_of(struct):
            inner = value.get(each.json)
            if inner is None:
                continue
            if each.get(JobPart) == JobPart(Role.SPEC):  # Volcano's, of which we know a part
                code = self.job_spec(inner, owner)
            elif each.struct is not None and each.is_list:
                code = [self.object(entry, each.struct, owner) for entry in inner]
            elif each.struct is not None:
                code = self.object(inner, each.struct, owner)
            else:
                code = self.value(inner, owner, each.name)
            found.append((each.name, code))
        return found

    def object(self, value: Mapping[str, Any], struct: type[msgspec.Struct], owner: str) -> Code:
        return Call(self.imported(struct.__name__), self.fields(value, struct, owner))

    def job_spec(self, value: Mapping[str, Any], owner: str) -> Code:
        """Return the spec of a job, or a patch of one: as a JobSpec if that has all its fields."""
        try:
            msgspec.convert(value, JobSpec)
        except (msgspec.ValidationError, RecursionError):  # a manifest may be nested deeply
            return self.value(value, owner, "")
        fits = _has_fields(value, JobSpec)
        return self.object(value, JobSpec, owner) if fits else self.value(value, owner, "")

    def value(self, value: Any, owner: str, key: str) -> Code:
        """Return a value of JSON. A text of several lines becomes a constant."""
        if isinstance(value, Mapping):
            return {name: self.value(each, owner, name) for name, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, owner, key) for each in value]
        # a script inside a call would lose the indentation of its lines
        is_long = isinstance(value, str) and "\n" in value.rstrip("\n")
        literal = write_lines(value) if is_long else None
        if literal is None:  # a text is written as one line with escapes
            return value  # type: ignore[no-any-return]
        if literal not in self._constants:
            kind = "script" if key in ("args", "command") else key.rpartition("/")[2] or "text"
            self._constants[literal] = self.names.make(f"{owner}_{kind}".upper())
        return Name(self._constants[literal])


@dataclass(slots=True)
class _Flow:
    module: _Module
    templates: Mapping[str, str]
    """Variables of the templates that it sees, by name."""
    name: str = ""
    """Its variable."""
    steps: dict[str, str] = field(default_factory=dict)
    """Variables of the steps, by name."""

    def flow(
        self, wanted: str, metadata: _Fields, spec: Mapping[str, Any], *, is_only: bool
    ) -> str:
        params: dict[str, Code] = {}
        for entry in spec.get("params") or ():
            value = self.module.value(entry.get("value"), wanted, entry["name"])
            if entry.get("enum") is not None:
                allowed = self.module.value(entry["enum"], wanted, entry["name"])
                given: _Fields = [("value", value)] if value is not None else []
                value = Call(self.module.imported("Param"), [*given, ("enum", allowed)])
            params[entry["name"]] = value
        head = metadata if spec.get("params") is None else [*metadata, ("params", params)]
        return self._write("Flow", "flow" if is_only else wanted, head, spec, wanted)

    def _write(
        self, kind: str, variable: str, head: _Fields, spec: Mapping[str, Any], owner: str
    ) -> str:
        """Write the flow, whose first arguments are given, and its steps. Return its variable."""
        rest = {key: each for key, each in spec.items() if key not in (*_STEP_METHODS, "params")}
        fields = self.module.fields(rest, JobFlowSpec, owner)
        call = Call(self.module.imported(kind), [*head, *fields])
        self.name = self.module.assign(variable, call)
        for key, method in _STEP_METHODS.items():
            steps = spec.get(key) or []
            groups = dict(_edges(steps))
            # only steps that an operation names need a variable
            ordered = {name for each in groups.items() for names in each for name in names}
            self.steps = {name: self.module.names.make(name) for name in ordered}
            for step in steps:
                is_ordered = any(step["name"] in each for each in groups.values())
                self._step(step, method, with_targets=not is_ordered)
            for line in _chains(groups, self.steps):
                if "Steps(" in line:
                    self.module.imported("Steps")
                self.module.lines.append(line)
        return self.name

    def _step(self, step: Mapping[str, Any], method: str, *, with_targets: bool) -> None:
        owner = step["name"]
        own = {key: each for key, each in step.items() if key not in ("name", *_WORKS)}
        if not with_targets:  # an operation below says them
            del own["dependsOn"]
        works = {key: step[key] for key in _WORKS if step.get(key) is not None}
        fields = self._work(works, Step, owner)
        if not works and owner in self.templates:
            fields = [("template", self._template(owner))]
        elif not works and step.get("image") is not None:
            fields = [("template", owner)]  # else it would be a container
        fields += self.module.fields(own, Step, owner)
        arguments: list[tuple[str, Code]] = [("", owner)]
        for name, code in fields:
            # a list for ForEach(items=...), and a number for Retry(limit=...)
            if isinstance(code, Call) and len(code.arguments) == 1:
                [(key, value)] = code.arguments
                is_short = (name, key) in (("for_each", "items"), ("retry", "limit"))
                code = value if is_short and not isinstance(value, str) else code
            arguments.append((name, code))
        call = Call(f"{self.name}.{method}", arguments)
        variable = f"{self.steps[owner]} = " if owner in self.steps else ""
        self.module.lines.append(write(call, before=variable))

    def _work(
        self, works: Mapping[str, Any], struct: type[msgspec.Struct], owner: str
    ) -> list[tuple[str, Code]]:
        special: dict[str, Code] = {}
        if (raw := works.get("flow")) is not None:
            params = raw.get("params")
            head = [("params", self.module.value(params, owner, "params"))] if params else []
            child = _Flow(self.module, self.templates)
            special["flow"] = Name(child._write("ChildFlow", f"{owner}_flow", head, raw, owner))
        if works.get("template") is not None:
            special["template"] = self._template(works["template"])
        if works.get("switch") is not None:
            case = self.module.imported("Case")
            special["switch"] = [
                Call(case, self._work(each, Case, f"{owner}_{i}"))
                for i, each in enumerate(works["switch"])
            ]
        others = {key: each for key, each in works.items() if key not in special}
        return [*special.items(), *self.module.fields(others, struct, owner)]

    def _template(self, name: str) -> Code:
        if name not in self.templates:
            return name
        self.module.named.add(self.templates[name])
        return Name(self.templates[name])


def _edges(steps: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield lists of targets with the steps that have just these, and nothing else in dependsOn."""
    names = {each["name"] for each in steps}
    groups: dict[tuple[str, ...], list[str]] = {}
    for step in steps:
        depends = step.get("dependsOn") or {}
        targets = tuple(depends.get("targets") or ())
        is_plain = depends.keys() == {"targets"} and targets and len({*targets}) == len(targets)
        if is_plain and names.issuperset(targets) and step["name"] not in targets:
            groups.setdefault(targets, []).append(step["name"])
    for targets, others in groups.items():
        # by the names of steps, because their variables are not made yet
        if len(_operation([[*targets], others], {each: each for each in names})) < _LONGEST:
            yield targets, others


_LONGEST = 60
"""Characters of an operation of names; longer ones are fields, because the lines would be long."""
_LINE = 80


def _chains(groups: Mapping[tuple[str, ...], list[str]], names: Mapping[str, str]) -> Iterator[str]:
    """Yield `a >> [b, c] >> d` for all groups, each group once."""
    pending = dict(groups)
    for targets in groups:
        if targets not in pending:
            continue
        chain = [[*targets], pending.pop(targets)]
        while (following := tuple(chain[-1])) in pending:
            longer = [*chain, pending[following]]
            if len(_operation(longer, names)) > _LINE:
                break
            chain = longer
            del pending[following]
        yield _operation(chain, names)


def _operation(chain: Sequence[Sequence[str]], names: Mapping[str, str]) -> str:
    parts = [
        names[each[0]] if len(each) == 1 else f"[{', '.join(names[name] for name in each)}]"
        for each in chain
    ]
    if len(chain[0]) > 1 and len(chain[1]) > 1:
        parts[0] = f"Steps({parts[0]})"  # Python has no `list >> list`
    return " >> ".join(parts)


def _has_fields(value: Mapping[str, Any], struct: type[msgspec.Struct]) -> bool:
    """Whether a type of the API has all fields of an object."""
    kinds = {each.json: each.struct for each in fields_of(struct)}
    for key, inner in value.items():
        if key not in kinds or inner is None:
            return False
        entries = inner if isinstance(inner, list) else [inner]
        kind = kinds[key]
        if kind is not None and not all(_has_fields(each, kind) for each in entries):
            return False
    return True


_EXPORTED = (
    "Approval Backoff Case ChildFlow Concurrency CronFlow DependsOn Flow ForEach HTTPGetProbe "
    "HTTPHeader JobDefaults JobSpec LifecyclePolicy NetworkTopology Param PartitionPolicy Patch "
    "Probe Repeat Retry StepConcurrency Steps TCPSocketProbe Task TaskDependsOn TaskStatusProbe "
    "Template Volume to_yaml"
).split()
"""Names of `jobflow.authoring` that a file may import."""
