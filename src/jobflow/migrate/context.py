"""The values of Argo's tags at a place of a workflow."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobflow.migrate.expressions import values
from jobflow.migrate.expressions.cel import tag_value
from jobflow.migrate.expressions.parse import split_tags
from jobflow.migrate.expressions.values import Kind, Ref, Text, UnsupportedExpression, quote
from jobflow.migrate.fields import Field
from jobflow.migrate.scopes import FlowScope, StepDraft, StepInfo, identifier

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
    has_failed: bool = False
    """Whether an attempt has failed, so that there is a last one."""
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
        """Return a scalar with its tags resolved; a tag without an equal is reported and stays.
        With `must_exist`, outputs that may not exist are reported too."""
        pieces: list[Text] = [
            self.tag(piece, value, must_exist=must_exist) if i % 2 else (piece,)
            for i, piece in enumerate(split_tags(value.text))
        ]
        return values.join(*pieces)

    def tag(self, inside: str, value: Field, *, must_exist: bool = False) -> Text:
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
        return self.render(self.text(value))

    def render(self, value: Text) -> str:
        """Return a value as a text with references; what has to be computed becomes a var."""
        found = ""
        for part in value:
            if isinstance(part, str):
                found += _OURS.sub("$$", part)
                continue
            plain = found.rstrip("$")
            # Kubernetes halves dollars before a reference, which a var then contains.
            if dollars := "$" * ((len(found) - len(plain) + 1) // 2):
                part = replace(part, cel=f"{quote(dollars)} + {values.as_text(part)}", path="")
            found = plain + (f"$({part.path})" if part.path else f"$(vars.{self.draft.var(part)})")
        return found

    def resolver(self, value: Field, *, must_exist: bool = True) -> values.Resolve:
        """Return `resolve` for a field. An output that may not exist is reported if it must, as in
        a condition, a loop or an expression; in a text, Argo leaves the tag in its place."""

        def resolve(keys: tuple[str, ...]) -> Text:
            found = self.resolve(keys)
            ref, tag = values.single(found), ".".join(keys)
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
            case ("item",) if self.item is not None:
                return (self.item,)
            case ("item", *rest) if self.item is not None:
                item, last = self.item, identifier(rest[-1])
                path = ".".join((item.path, *rest)) if item.path else ""
                kind = Kind.ANY if item.kind is Kind.ANY else Kind.JSON
                lacks = len(rest) == 1 and rest[0] not in self.item_keys
                or_else = f"get({item.cel}, {quote(rest[0])}, %s)" if lacks else ""
                cel = item.cel + "".join(map(values.member, rest))
                return (Ref(cel, path, kind, last, or_else=or_else, may_lack=lacks),)
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
            if not self.has_failed:
                cel = f"(attempt == 1 ? {'0' if kind is Kind.NUMBER else quote('')} : {cel})"
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
                params = {name: self._of_workflow(("parameters", name)) for name in info.params}
                pairs = (
                    f'{{"name": {quote(name)}, "value": {values.as_ref(value).cel}}}'
                    for name, value in params.items()
                )
                return (Ref(f"[{', '.join(pairs)}]", kind=Kind.LIST, hint="params"),)
            case ("labels" | "annotations", *rest):
                written = info.metadata.get(keys[0])
                if isinstance(written, dict) and ".".join(rest) in written:
                    return (str(written[".".join(rest)]),)
            case ("status",) if self.in_finally:
                words = '(flow.phase == "Succeed" ? "Succeeded" : flow.phase)'
                ref = Ref(words, kind=Kind.PHASE, hint="status", raw="flow.phase")
                return outer("status", ref)
            case ("failures",) if self.in_finally:
                return outer("failures", Ref("flow.failures", kind=Kind.LIST, hint="failures"))
            case ("name",):
                return outer("flow_name", Ref("flow.name", "flow.name", Kind.TEXT, "flow_name"))
            case ("namespace",):
                return (Ref("flow.namespace", "flow.namespace", Kind.TEXT, "namespace"),)
            case ("scheduledTime",) if info.is_scheduled:
                path = "flow.scheduledTime"
                return outer("scheduled_time", Ref(path, path, Kind.TEXT, "scheduled_time"))
            case ("mainEntrypoint",) if info.entrypoint:
                return (info.entrypoint,)
            case ("serviceAccountName",) if info.service_account:
                return (info.service_account,)
        raise UnsupportedExpression(f"workflow.{'.'.join(keys)} has no equal here")

    def _of_step(self, info: StepInfo, keys: tuple[str, ...], sample: str) -> Text:
        step = f"steps[{quote(info.name)}]"
        match keys:
            case ("outputs", "result"):
                return info.output("", sample)
            case ("outputs", "parameters", *rest) if rest:
                return info.output(".".join(rest), sample)
            case ("outputs", "parameters"):
                # Argo lists a map for each item of a loop.
                names = [name for name in info.outputs if name]
                if not info.is_loop or not names:
                    raise UnsupportedExpression(
                        "all outputs of a step at once have an equal only in a loop"
                    )
                if len(names) == 1 and info.outputs[names[0]] == "text":
                    each = f'get(i.outputs, "text", {quote(info.defaults.get(names[0], ""))})'
                    cel = f"{info.completed_items}.map(i, {{{quote(names[0])}: {each}}})"
                else:
                    with_outputs = f"{info.completed_items}.filter(i, size(i.outputs) > 0)"
                    cel = f"{with_outputs}.map(i, i.outputs)"
                return (Ref(cel, kind=Kind.LIST, hint="outputs"),)
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
                # The name of a pod and the domain of its job, as the plugin svc makes them.
                if info.is_sure:
                    job = Ref(f"{step}.job", f"steps.{info.name}.job", Kind.TEXT, "job")
                    return values.join((job,), ("-main-0.",), (job,))
                address = f'{step}.job + "-main-0." + {step}.job'
                cel = f'{step}.phase == "Skipped" ? {quote(f"{{{{{sample}}}}}")} : {address}'
                return (Ref(f"({cel})", kind=Kind.TEXT, hint="address"),)
            case (fact,) if fact in _NO_EQUAL:
                raise UnsupportedExpression(_NO_EQUAL[fact])
        raise UnsupportedExpression(f"{sample} has no equal")


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
