"""The names that tags of Argo may use, at a place of a workflow.

A flow is a scope of its own: it sees its params and its steps. What a child flow needs of the flows
around it becomes one of its params.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobflow.cli.local.argo.expressions.cel import tag_value
from jobflow.cli.local.argo.expressions.parse import split_tags
from jobflow.cli.local.argo.expressions.syntax import UnsupportedExpression
from jobflow.cli.local.argo.expressions.values import (
    Kind,
    Ref,
    Resolve,
    Text,
    as_ref,
    as_text,
    join,
    literal,
    member,
    quote,
    single,
)
from jobflow.cli.local.argo.fields import Field
from jobflow.core.admission.object_names import to_valid_name
from jobflow.core.cel.language.parser import RESERVED

_OURS = re.compile(
    r"\$(?=\((?:params|item|index|attempt|retries|flow|steps|vars|last|failure)[.)])"
)
_PHASE_WORDS = '({0} == "Completed" ? "Succeeded" : {0})'
_LACKS = "{} has no value if the step does not run, or fails before it writes it: {}"
_NO_KEY = "{} has no value for an item without this key: {}"
_FAILS = "the flow then fails, ExpressionError; Argo ends it with an error"
_IS_TAG = (
    "the child flow then gets the text of the tag, as in Argo; a condition on it is false, and a "
    "loop over it fails"
)
_NO_EQUAL = {
    "startedAt": "the time of a step is in its status only",
    "finishedAt": "the time of a step is in its status only",
    "hostNodeName": "the node of a step is known only if it fails (failure.node)",
    "id": "a step has no id: use $(steps.NAME.job)",
}


def identifier(name: str) -> str:
    """Return the name of a param, a var or an output that is most like a name of Argo."""
    found = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"p_{found}" if not found or found[0].isdigit() or found in RESERVED else found


@dataclass(slots=True)
class StepInfo:
    """A step as the steps after it see it."""

    name: str
    """In the flow."""
    outputs: dict[str, str] = field(default_factory=dict)
    """The key in the step's outputs, by the name of the parameter; `""` for `outputs.result`."""
    lists: set[str] = field(default_factory=set)
    """Names of outputs that are lists."""
    defaults: dict[str, str] = field(default_factory=dict)
    """Default texts by the name of the parameter."""
    has_json: bool = False
    """Whether the results seem to be JSON."""
    is_loop: bool = False
    may_be_empty: bool = False
    """Whether it is a loop whose number of items is known only when it starts."""
    is_taken: bool = True
    """Whether it has no `when` of its own, which Argo skips."""
    may_be_omitted: bool = False
    """Whether its dependencies may exclude it although nothing fails."""
    is_survived: bool = False
    """Whether a step after it may run although it has failed."""
    is_sure: bool = True
    """Whether it has completed whenever a step after it runs."""
    upstream: tuple[str, ...] = ()
    """Names in Argo of the steps that it waits for."""
    has_artifacts: bool = False

    def output(self, name: str, sample: str) -> Text:
        """Return the value of a parameter, or of `outputs.result` for `""`."""
        key = self.outputs.get(name)
        if key is None:
            raise UnsupportedExpression(f"{sample} is no output of a step that is converted")
        if self.is_loop:
            each = f"get(i.outputs, {quote(key)}, {quote(self.defaults.get(name, ''))})"
            each = f"json({each})" if self.has_json and not name else each
            cel = f"{self.completed_items}.map(i, {each})"
            return (Ref(cel, kind=Kind.LIST, hint=identifier(name or "results")),)
        of_step = f"steps[{quote(self.name)}].outputs"
        kind = Kind.LIST if name in self.lists else Kind.TEXT
        or_else = f"get({of_step}, {quote(key)}, %s)"
        hint = identifier(name or f"{self.name}_result")
        if name in self.defaults:
            cel = or_else.replace("%s", quote(self.defaults[name]))
            return (Ref(cel, kind=kind, hint=hint, or_else=or_else),)
        path = f"steps.{self.name}.outputs.{key}"
        cel = f"{of_step}{member(key)}"
        lacks = not self.is_sure
        return (Ref(cel, path, kind, hint, or_else=or_else, may_lack=lacks),)

    def may_end_unasked(self, accepted: Container[str]) -> bool:
        """Whether it may end, without a failure, otherwise than a dependency accepts."""
        skipped = not self.is_taken and "Skipped" not in accepted
        return skipped or (self.may_be_omitted and self.is_taken and "Omitted" not in accepted)

    @property
    def completed_items(self) -> str:
        """CEL of the items of a loop of which Argo lists the outputs."""
        return f'steps[{quote(self.name)}].items.filter(i, i.phase == "Completed")'


@dataclass(slots=True)
class WorkflowInfo:
    """The part of a workflow that all its flows see."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    """The name of a param in the flow, by its name in Argo."""
    entrypoint: str = ""
    service_account: str = ""
    is_scheduled: bool = False
    needs_addresses: bool = False
    """Whether a step uses the address of another one."""
    outputs: dict[str, Ref] = field(default_factory=dict)
    """Global outputs as the outermost flow sees them, by their names."""
    config_maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The data of the ConfigMaps in the files, by name."""
    lists: set[str] = field(default_factory=set)
    """Params that are lists and not texts with JSON."""
    claims: set[str] = field(default_factory=set)
    """Names of the volume claims of the workflow."""


@dataclass(slots=True)
class FlowScope:
    """A flow that is being written."""

    workflow: WorkflowInfo
    parent: FlowScope | None = None
    params: dict[str, Text] = field(default_factory=dict)
    """Of a child flow: its params as values in its parent."""
    brought: dict[tuple[str, Text], str] = field(default_factory=dict)
    """Names of params by their hints and values."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Names of params, each with the number of names that were made from it."""
    names: dict[str, int] = field(default_factory=dict)
    """Names of its steps, each with the number of names that were made from it."""
    depth: int = 1
    outputs: dict[str, Ref] = field(default_factory=dict)
    """Of a child flow: global outputs of its steps, by their names."""

    def child(self) -> FlowScope:
        return FlowScope(self.workflow, self, depth=self.depth + 1)

    def bring(self, hint: str, value: Text) -> Text:
        """Return a value of the parent as one of this child flow: literals stay, anything else
        becomes a param."""
        if literal(value) is not None:
            return value
        if (name := self.brought.get((hint, value))) is None:
            name = self.brought[hint, value] = unused(self.numbers, identifier(hint), "_")
        self.params[name] = value
        ref = single(value)
        kind = Kind.TEXT if ref is None else ref.kind
        kind = Kind.ANY if kind is Kind.PHASE else kind
        return (Ref(f"params.{name}", f"params.{name}", kind, name),)

    def hand_over(self, hint: str, value: Text) -> Text:
        """Return a value of the parent as a param of this child flow, also if it is a literal."""
        name = identifier(hint)
        self.numbers.setdefault(name, 0)
        self.params[name] = value
        return (Ref(f"params.{name}", f"params.{name}", Kind.ANY, name),)

    def outer(self, hint: str, value: Ref) -> Text:
        """Return a value of the outermost flow in this one."""
        if self.parent is None:
            return (value,)
        return self.bring(hint, self.parent.outer(hint, value))

    def unique(self, name: str) -> str:
        """Return the name for a step that is most like a name of Argo, and reserve it."""
        base = to_valid_name(name.replace("_", "-").replace(".", "-")) or "step"
        return unused(self.names, base, "-")


def unused(names: dict[str, int], base: str, sign: str) -> str:
    """Return a name that is like `base`, with a number if it is used already, and note it."""
    found, number = base, names.get(base, 0)
    while found in names:
        number += 1
        found = f"{base}{sign}{number + 1}"
    names[base] = number
    names.setdefault(found, 0)
    return found


@dataclass(slots=True)
class StepDraft:
    """The values computed for the job of a step."""

    vars: dict[str, str] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    by_value: dict[tuple[str, str], str] = field(default_factory=dict)
    """The name of the var by its hint and its CEL."""
    needs_pod_name: bool = False
    can_compute: bool = True
    """Whether the step can have vars."""

    def var(self, ref: Ref) -> str:
        """Return the name of the var that has a value."""
        key = (ref.hint, ref.cel)
        if key not in self.by_value:
            self.by_value[key] = unused(self.names, ref.hint, "_")
        self.vars[self.by_value[key]] = ref.cel
        return self.by_value[key]


@dataclass(slots=True)
class Context:
    """Where a tag stands."""

    scope: FlowScope
    inputs: Mapping[str, Text] = field(default_factory=dict)
    steps: Mapping[str, StepInfo] = field(default_factory=dict)
    """Siblings by their names in Argo."""
    draft: StepDraft = field(default_factory=StepDraft)
    item: Ref | None = None
    item_keys: Container[str] = ()
    """Keys that all items have."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """Paths of files in the container, by the tag without `.path`."""
    is_pod: bool = False
    in_finally: bool = False
    own_name: str = ""
    into_flow: bool = False
    """Whether the values become params of a child flow."""

    def data(self, value: Field) -> Any:
        """Return a part of the manifest with references for tags."""
        value.take()
        if value.is_map:
            return {key: self.data(each) for key, each in value.entries()}
        if value.is_list:
            return [self.data(each) for each in value.items()]
        found = value.data
        return self.render(self.text(value)) if isinstance(found, str) else found

    def text(self, value: Field, *, must_exist: bool = False) -> Text:
        """Return a scalar with its tags resolved. Tags without an equal are reported and stay. With
        `must_exist`, outputs that may not exist are reported too."""
        pieces = split_tags(value.text)
        return join(
            *(
                self.tag(piece, value, must_exist=must_exist) if i % 2 else (piece,)
                for i, piece in enumerate(pieces)
            )
        )

    def tag(self, inside: str, value: Field, *, must_exist: bool = False) -> Text:
        """Return the value of a tag in a scalar; one without an equal is reported and stays."""
        is_expression = inside.lstrip().startswith("=")
        try:
            resolve = self.resolver(value, must_exist=must_exist or is_expression)
            found = tag_value(inside, resolve)
            size = sum(len(part if isinstance(part, str) else part.cel) for part in found)
            value.findings.budget.spend(size // 2)
            return found
        except UnsupportedExpression as error:
            value.gap(f"{' '.join(inside.split())[:60]}: {error}")
            return (f"{{{{{inside}}}}}",)

    def string(self, value: Field) -> str:
        """Return a scalar as a text with references."""
        return self.render(self.text(value))

    def render(self, value: Text) -> str:
        """Return a value as a text with references; what has to be computed becomes a var."""
        found = ""
        for part in value:
            if isinstance(part, str):
                found += _OURS.sub("$$", part)
                continue
            plain = found.rstrip("$")
            if dollars := "$" * ((len(found) - len(plain) + 1) // 2):  # Kubernetes halves them
                part = replace(part, cel=f"{quote(dollars)} + {as_text(part)}", path="")
            found = plain + self._reference(part)
        return found

    def _reference(self, ref: Ref) -> str:
        return f"$({ref.path})" if ref.path else f"$(vars.{self.draft.var(ref)})"

    def resolver(self, value: Field, *, must_exist: bool = True) -> Resolve:
        """Return `resolve` for a field. An output that may not exist is reported if it must, as in
        a condition, a loop or an expression; in a text, Argo leaves the tag in its place."""

        def resolve(keys: tuple[str, ...]) -> Text:
            found = self.resolve(keys)
            ref, tag = single(found), ".".join(keys)
            if ref is None or not ref.may_lack:
                return found
            if must_exist:
                value.check((_NO_KEY if keys[0] == "item" else _LACKS).format(tag, _FAILS))
                return found
            if self.into_flow and keys[0] != "item":
                value.check(_LACKS.format(tag, _IS_TAG))
            return (_or_its_tag(ref, tag),)

        return resolve

    def resolve(self, keys: tuple[str, ...]) -> Text:
        """Return the value of a tag. Raises UnsupportedExpression."""
        match keys:
            case ("inputs", "parameters", *rest) if rest and ".".join(rest) in self.inputs:
                return self.inputs[".".join(rest)]
            case ("inputs" | "outputs", "artifacts" | "parameters", *_, "path"):
                if (path := self.paths.get(".".join(keys[:-1]))) is not None:
                    return (path,)
            case ("workflow" | "cronworkflow", *rest):
                return self._of_workflow(tuple(rest))
            case ("steps" | "tasks", "name"):
                return (self.own_name,)
            case ("steps" | "tasks", name, *rest) if name in self.steps:
                return self._of_step(self.steps[name], tuple(rest), ".".join(keys))
            case ("item", *rest) if self.item is not None:
                return self._of_item(self.item, tuple(rest))
            case ("pod" | "retries" | "lastRetry", *_) if self.is_pod:
                return self._of_pod(keys)
        raise UnsupportedExpression(f"{'.'.join(keys)} has no equal here")

    def _of_pod(self, keys: tuple[str, ...]) -> Text:
        if keys == ("pod", "name"):
            self.draft.needs_pod_name = True
            return ("$(POD_NAME)",)
        if keys == ("retries",):
            return (Ref("retries", "retries", Kind.NUMBER, "retries"),)
        if keys[0] == "lastRetry" and (cel := _LAST_RETRY.get(".".join(keys[1:]))):
            kind = Kind.NUMBER if keys[1] in ("exitCode", "duration") else Kind.TEXT
            return (Ref(cel, kind=kind, hint=identifier(keys[-1])),)
        raise UnsupportedExpression(f"{'.'.join(keys)} has no equal")

    def _of_workflow(self, keys: tuple[str, ...]) -> Text:
        info, outer = self.scope.workflow, self.scope.outer
        match keys:
            case ("parameters", *rest) if ".".join(rest) in info.params:
                name = info.params[".".join(rest)]
                kind = Kind.LIST if ".".join(rest) in info.lists else Kind.ANY
                return outer(name, Ref(f"params.{name}", f"params.{name}", kind, name))
            case ("outputs", "parameters", name) if (ref := info.outputs.get(name)) is not None:
                ref = replace(ref, may_lack=ref.may_lack or self.in_finally)
                if self.scope.parent is not None:
                    ref = _or_its_tag(ref, f"workflow.outputs.parameters.{name}")
                return outer(name, ref)
            case ("parameters", "json") | ("parameters",):
                return self._all_params()
            case ("labels" | "annotations", *rest):
                values = info.metadata.get(keys[0])
                if isinstance(values, dict) and ".".join(rest) in values:
                    return (str(values[".".join(rest)]),)
            case ("status",) if self.in_finally:
                words = '(flow.phase == "Succeed" ? "Succeeded" : flow.phase)'
                ref = Ref(words, kind=Kind.PHASE, hint="status", raw="flow.phase")
                return outer("status", ref)
            case ("failures",) if self.in_finally:
                return outer("failures", Ref("flow.failures", kind=Kind.LIST, hint="failures"))
            case (fact,) if (known := self._fact(fact)) is not None:
                return known
        raise UnsupportedExpression(f"workflow.{'.'.join(keys)} has no equal here")

    def _all_params(self) -> Text:
        pairs = []
        for name in self.scope.workflow.params:
            value = self._of_workflow(("parameters", name))
            pairs.append(f'{{"name": {quote(name)}, "value": {as_ref(value).cel}}}')
        return (Ref(f"[{', '.join(pairs)}]", kind=Kind.LIST, hint="params"),)

    def _fact(self, name: str) -> Text | None:
        info, outer = self.scope.workflow, self.scope.outer
        if name == "name":
            return outer("flow_name", Ref("flow.name", "flow.name", Kind.TEXT, "flow_name"))
        if name == "namespace":
            return (Ref("flow.namespace", "flow.namespace", Kind.TEXT, "namespace"),)
        if name == "scheduledTime" and info.is_scheduled:
            path = "flow.scheduledTime"
            return outer("scheduled_time", Ref(path, path, Kind.TEXT, "scheduled_time"))
        literals = {"mainEntrypoint": info.entrypoint, "serviceAccountName": info.service_account}
        return (literals[name],) if literals.get(name) else None

    def _of_step(self, info: StepInfo, keys: tuple[str, ...], sample: str) -> Text:
        step = f"steps[{quote(info.name)}]"
        match keys:
            case ("outputs", "result"):
                return info.output("", sample)
            case ("outputs", "parameters", *rest) if rest:
                return info.output(".".join(rest), sample)
            case ("outputs", "parameters"):
                return _all_outputs(info, step)
            case ("outputs", "artifacts", *_):
                raise UnsupportedExpression("there are no artifacts: share files by a volume claim")
            case ("status",):
                words = _PHASE_WORDS.format(f"{step}.phase")
                return (Ref(words, kind=Kind.PHASE, hint="status", raw=f"{step}.phase"),)
            case ("exitCode",):
                cel = f'({step}.phase == "Completed" ? 0 : {step}.failure.exitCode)'
                return (Ref(cel, kind=Kind.NUMBER, hint="exit_code"),)
            case ("ip",):
                self.scope.workflow.needs_addresses = True
                return self._address(info, step, sample)
            case (fact,) if fact in _NO_EQUAL:
                raise UnsupportedExpression(_NO_EQUAL[fact])
        raise UnsupportedExpression(f"{sample} has no equal")

    def _address(self, info: StepInfo, step: str, sample: str) -> Text:
        if info.is_sure:
            job = Ref(f"{step}.job", f"steps.{info.name}.job", Kind.TEXT, "job")
            return join((job,), ("-main-0.",), (job,))
        address = f'{step}.job + "-main-0." + {step}.job'
        cel = f'{step}.phase == "Skipped" ? {quote(f"{{{{{sample}}}}}")} : {address}'
        return (Ref(f"({cel})", kind=Kind.TEXT, hint="address"),)

    def _of_item(self, item: Ref, keys: tuple[str, ...]) -> Text:
        if not keys:
            return (item,)
        path = ".".join((item.path, *keys)) if item.path else ""
        kind = Kind.ANY if item.kind is Kind.ANY else Kind.JSON
        found = Ref(item.cel + "".join(map(member, keys)), path, kind, identifier(keys[-1]))
        if len(keys) == 1 and keys[0] not in self.item_keys:
            or_else = f"get({item.cel}, {quote(keys[0])}, %s)"
            found = replace(found, or_else=or_else, may_lack=True)
        return (found,)


def _or_its_tag(ref: Ref, tag: str) -> Ref:
    """Return a value, or the text of its tag if it may not exist."""
    if not ref.may_lack:
        return ref
    cel = ref.or_else.replace("%s", quote(f"{{{{{tag}}}}}"))
    return replace(ref, cel=cel, path="", may_lack=False)


_LAST_RETRY = {
    "exitCode": "failure.exitCode",
    "duration": "failure.seconds",
    "message": "failure.message",
    "status": '(failure.disruption ? "Error" : "Failed")',
}


def _all_outputs(info: StepInfo, step: str) -> Text:
    """Return all output parameters: of a loop, Argo's list of maps."""
    keys = [key for name, key in info.outputs.items() if name]
    if not info.is_loop or not keys:
        raise UnsupportedExpression("all outputs of a step at once have an equal only in a loop")
    if keys == ["text"]:
        name = next(name for name in info.outputs if name)
        each = f'get(i.outputs, "text", {quote(info.defaults.get(name, ""))})'
        cel = f"{info.completed_items}.map(i, {{{quote(name)}: {each}}})"
    else:
        cel = f"{info.completed_items}.map(i, i.outputs)"
    return (Ref(cel, kind=Kind.LIST, hint="outputs"),)
