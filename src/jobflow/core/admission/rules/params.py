"""The rules of a flow's params: names that expressions can write, and values that are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from jobflow.api.control import Param
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.cel.language.parser import RESERVED
from jobflow.core.cel.references import measure_json
from jobflow.core.cel.scope import MAX_PARAMS
from jobflow.core.suggest import did_you_mean
from jobflow.core.violations import Reason, Violation, quote, some

MAX_SIZE = 65_536
"""Bytes that their values come to as JSON."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def params_are_few(facts: FlowFacts) -> Iterator[Violation]:
    params = facts.flow.spec.params or ()
    if len(params) > MAX_PARAMS:
        detail = f"at most {MAX_PARAMS} are allowed; put more into one, as a map"
        yield Violation("spec.params", Reason.TOO_MANY, len(params), detail)


def params_have_names(facts: FlowFacts) -> Iterator[Violation]:
    """Names that CEL can write: `params.NAME`."""
    first: dict[str, int] = {}
    for i, param in enumerate(facts.flow.spec.params or ()):
        path, name = f"spec.params[{i}].name", param.name
        if not name:
            yield Violation(path, Reason.REQUIRED, name, "a param has a name")
        elif not _NAME.fullmatch(name) or name in RESERVED:
            yield Violation(path, Reason.INVALID, name, _no_name(name))
        elif first.setdefault(name, i) != i:
            yield Violation(
                path, Reason.DUPLICATE, name, f"already the name of spec.params[{first[name]}]"
            )


def _no_name(name: str) -> str:
    if name in RESERVED:
        return "it is a word of CEL; give the param another name"
    meant = re.sub(r"\W", "_", name, flags=re.ASCII)
    guess = meant if _NAME.fullmatch(meant) else None
    return (
        "a param's name holds letters, digits and _ and does not begin with a digit"
        + did_you_mean(guess)
    )


def params_have_values(facts: FlowFacts) -> Iterator[Violation]:
    """A flow runs as it is stored: nobody is asked for a value later."""
    for i, param in enumerate(facts.flow.spec.params or ()):
        if param.value is None:
            name = param.name or "NAME"
            detail = (
                "give the param a value, here or for jobflow run and lint by "
                f"--param {name}=VALUE{_choice(param)}"
            )
            yield Violation(f"spec.params[{i}].value", Reason.REQUIRED, None, detail)


def _choice(param: Param) -> str:
    return f"; it may be {some(map(quote, param.enum))}" if param.enum else ""


def param_values_are_allowed(facts: FlowFacts) -> Iterator[Violation]:
    for i, param in enumerate(facts.flow.spec.params or ()):
        if param.enum is None or param.value is None:
            continue
        if not any(_same(param.value, allowed) for allowed in param.enum):
            words = ", ".join(quote(allowed) for allowed in param.enum[:20])
            detail = f"supported values: {words}" if param.enum else "its enum allows nothing"
            yield Violation(f"spec.params[{i}].value", Reason.NOT_SUPPORTED, param.value, detail)


def _same(one: Any, other: Any) -> bool:
    """As JSON: 1 is 1.0, and neither is true."""
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def param_values_are_small(facts: FlowFacts) -> Iterator[Violation]:
    """They are handed to every expression that mentions them."""
    params = facts.flow.spec.params or ()
    if (size := measure_json([param.value for param in params])) > MAX_SIZE:
        detail = (
            f"its values come to {size:,} bytes; at most {MAX_SIZE:,} are allowed: put what is "
            "large into a ConfigMap or a volume"
        )
        yield Violation("spec.params", Reason.TOO_LONG, None, detail)


PARAM_RULES = (
    Group[Rule](
        lambda facts: facts.flow.spec.params,
        (
            params_are_few,
            params_have_names,
            params_have_values,
            param_values_are_allowed,
            param_values_are_small,
        ),
    ),
)
