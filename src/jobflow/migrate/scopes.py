"""The names that tags of Argo may use, at a place of a workflow. A flow sees its params and its
steps; what a child flow needs of the flows around it becomes one of its params."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from jobflow.core.admission.object_names import to_valid_name
from jobflow.core.cel.language.parser import RESERVED
from jobflow.migrate.expressions import values
from jobflow.migrate.expressions.values import Kind, Ref, Text, UnsupportedExpression, quote


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
    defaults: dict[str, str] = field(default_factory=dict)
    """Default texts by the name of the parameter."""
    has_json: bool = False
    """Whether the results seem to be JSON."""
    is_loop: bool = False
    may_be_empty: bool = False
    """Whether it is a loop whose number of items is known only when it starts."""
    is_taken: bool = True
    """Whether it has no `when` of its own, which Argo skips. Argo omits a task that `depends`
    excludes, and lets nothing run behind it that does not ask for that."""
    is_tolerated: bool = False
    """Whether it has `continueOn`."""
    is_daemon: bool = False
    """Whether it is a daemon that may be skipped."""
    may_be_omitted: bool = False
    """Whether its dependencies may exclude it although nothing fails."""
    is_survived: bool = False
    """Whether a step after it may run although it has failed."""
    is_sure: bool = True
    """Whether it has completed whenever a step after it runs."""

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
        cel = f"{of_step}{values.member(key)}"
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
    lists: set[str] = field(default_factory=set)
    """Params that are lists and not texts with JSON."""
    claims: set[str] = field(default_factory=set)


@dataclass(slots=True)
class FlowScope:
    """A flow that is being written."""

    workflow: WorkflowInfo
    parent: FlowScope | None = None
    params: dict[str, Text] = field(default_factory=dict)
    """The params of a child flow, as values in its parent."""
    brought: dict[tuple[str, Text], str] = field(default_factory=dict)
    """Names of params by their hints and values."""
    numbers: dict[str, int] = field(default_factory=dict)
    """Names of params, each with the number of names that were made from it."""
    names: dict[str, int] = field(default_factory=dict)
    """As `numbers`, of its steps."""
    outputs: dict[str, Ref] = field(default_factory=dict)
    """Global outputs of the steps of a child flow, by their names."""

    def bring(self, hint: str, value: Text, *, varies: bool = False) -> Text:
        """Return a value of the parent as one of this child flow: a param, or a literal unless it
        is another one in each run of the flow."""
        if values.literal(value) is not None and not varies:
            return value
        if (name := self.brought.get((hint, value))) is None:
            name = self.brought[hint, value] = unused(self.numbers, identifier(hint), "_")
        self.params[name] = value
        ref = values.single(value)
        kind = Kind.TEXT if ref is None else ref.kind
        # As a param, a phase is a plain text in Argo's words.
        kind = Kind.ANY if kind is Kind.PHASE or varies else kind
        return (Ref(f"params.{name}", f"params.{name}", kind, name),)

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
    # The number is kept, so that many equal names do not try all numbers again.
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

    def var(self, ref: Ref) -> str:
        """Return the name of the var that has a value."""
        key = (ref.hint, ref.cel)
        if key not in self.by_value:
            self.by_value[key] = unused(self.names, ref.hint, "_")
        self.vars[self.by_value[key]] = ref.cel
        return self.by_value[key]
