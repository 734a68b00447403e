"""Rules of params: names that an expression can use, and allowed values."""

import re
from collections.abc import Iterator

from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import Group, Rule
from jobflow.core.cel.language.parser import RESERVED
from jobflow.core.cel.references import measure_json
from jobflow.core.cel.scope import MAX_PARAMS
from jobflow.core.suggest import did_you_mean
from jobflow.core.text import join_names
from jobflow.core.violations import Reason, Violation, quote

MAX_SIZE = 65_536
"""Bytes of all values as JSON."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def params_are_few(facts: FlowFacts) -> Iterator[Violation]:
    params = facts.flow.spec.params or ()
    if len(params) > MAX_PARAMS:
        detail = f"at most {MAX_PARAMS} are allowed; put more into one, as a map"
        yield Violation("spec.params", Reason.TOO_MANY, len(params), detail)


def params_have_names(facts: FlowFacts) -> Iterator[Violation]:
    """CEL must be able to read `params.NAME`."""
    first: dict[str, int] = {}
    for i, param in enumerate(facts.flow.spec.params or ()):
        path, name = f"spec.params[{i}].name", param.name
        if not name:
            yield Violation(path, Reason.REQUIRED, name, "a param has a name")
        elif not _NAME.fullmatch(name) or name in RESERVED:
            yield Violation(path, Reason.INVALID, name, _name_fault(name))
        elif first.setdefault(name, i) != i:
            yield Violation(
                path, Reason.DUPLICATE, name, f"already the name of spec.params[{first[name]}]"
            )


def _name_fault(name: str) -> str:
    if name in RESERVED:
        return "it is a reserved word of CEL; give the param another name"
    meant = re.sub(r"\W", "_", name, flags=re.ASCII)
    guess = meant if _NAME.fullmatch(meant) else None
    return (
        "a param's name holds letters, digits and _ and does not begin with a digit"
        + did_you_mean(guess)
    )


def params_have_allowed_values(facts: FlowFacts) -> Iterator[Violation]:
    """A flow runs as it is stored; a value cannot be added later. 1 equals 1.0 but not true."""
    for i, param in enumerate(facts.flow.spec.params or ()):
        path, value, is_bool = f"spec.params[{i}].value", param.value, isinstance(param.value, bool)
        if value is None:
            name = param.name or "NAME"
            detail = f"set a value, here or with --param {name}=VALUE of jobflow run and lint"
            if param.enum:
                detail += f"; supported values: {join_names(map(quote, param.enum))}"
            yield Violation(path, Reason.REQUIRED, None, detail)
        elif param.enum is not None and not any(
            value == each and is_bool == isinstance(each, bool) for each in param.enum
        ):
            listed = ", ".join(quote(allowed) for allowed in param.enum[:20])
            detail = f"supported values: {listed}" if param.enum else "its enum allows nothing"
            yield Violation(path, Reason.NOT_SUPPORTED, value, detail)


def param_values_are_small(facts: FlowFacts) -> Iterator[Violation]:
    """Every expression that mentions a param gets a copy of its value."""
    params = facts.flow.spec.params or ()
    if (size := measure_json([param.value for param in params])) > MAX_SIZE:
        detail = (
            f"the values have {size:,} bytes; at most {MAX_SIZE:,} are allowed: put large values "
            "into a ConfigMap or a volume"
        )
        yield Violation("spec.params", Reason.TOO_LONG, None, detail)


PARAM_RULES = (
    Group[Rule](
        lambda facts: facts.flow.spec.params,
        (
            params_are_few,
            params_have_names,
            params_have_allowed_values,
            param_values_are_small,
        ),
    ),
)
