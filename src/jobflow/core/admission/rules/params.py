"""Rules of the names and values of params, vars and outputs (docs/decisions/expressions.md).
`expressions` has the rules of their expressions."""

import re
from collections.abc import Iterator, Mapping

from msgspec import UNSET

from jobflow.api.flow.traits import Evaluated, Setting, Stage, find_set
from jobflow.core.admission.analysis.child_flows import MAX_PARAM_VALUES
from jobflow.core.admission.analysis.flow_expressions import is_unknown
from jobflow.core.admission.analysis.flow_facts import FlowFacts
from jobflow.core.admission.rule import RuleGroup, Rules, flow_with_options
from jobflow.core.cel.language.parser import RESERVED
from jobflow.core.cel.language.values import describe_type
from jobflow.core.cel.references import measure_json
from jobflow.core.cel.scope import MAX_PARAMS
from jobflow.core.spec.param_values import (
    find_param_reference,
    find_value,
    find_vars_reference,
    fits,
    params_of,
)
from jobflow.core.suggest import Suggester, did_you_mean
from jobflow.core.text import join_names
from jobflow.core.violations import Reason, Violation, join_path, quote

MAX_VARS = 64
MAX_OUTPUTS = 100
"""Outputs of a flow, or values of a step, which are all evaluated at once."""
_OUTPUT = re.compile(r"[A-Za-z_][-A-Za-z0-9_]{0,62}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def params_are_few(facts: FlowFacts) -> Iterator[Violation]:
    params = facts.flow.spec.params or ()
    if len(params) > MAX_PARAMS:
        detail = f"at most {MAX_PARAMS} are allowed; put more into one, as a map"
        yield Violation("spec.params", Reason.TOO_MANY, len(params), detail)


def params_have_names(facts: FlowFacts) -> Iterator[Violation]:
    # CEL must be able to read `params.NAME`
    first: dict[str, int] = {}
    for i, param in enumerate(facts.flow.spec.params or ()):
        path, name = f"spec.params[{i}].name", param.name
        if not name:
            continue  # the name is Required
        if not _NAME.fullmatch(name) or name in RESERVED:
            detail = "a param's name holds letters, digits and _ and does not begin with a digit"
            detail += _meant(name)
            if name in RESERVED:
                detail = "it is a reserved word of CEL; give the param another name"
            yield Violation(path, Reason.INVALID, name, detail)
        elif first.setdefault(name, i) != i:
            yield Violation(
                path, Reason.DUPLICATE, name, f"already the name of spec.params[{first[name]}]"
            )


def _meant(name: str) -> str:
    """Return the suggestion of a name that CEL can read, or ""."""
    meant = re.sub(r"\W", "_", name, flags=re.ASCII)
    return did_you_mean(meant if _NAME.fullmatch(meant) else None)


def params_have_allowed_values(facts: FlowFacts) -> Iterator[Violation]:
    # a flow runs as it is stored; a value cannot be added later. 1 equals 1.0 but not true
    for i, param in enumerate(facts.flow.spec.params or ()):
        path, value, is_bool = f"spec.params[{i}].value", param.value, isinstance(param.value, bool)
        if value is None:
            name = param.name or "NAME"
            detail = (
                f"set a value, here or with --param {name}=VALUE of jobflow run, lint and submit"
            )
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
    # every expression that mentions a param gets a copy of its value
    params = facts.flow.spec.params or ()
    if (size := measure_json([param.value for param in params])) > MAX_PARAM_VALUES:
        detail = (
            f"the values have {size:,} bytes; at most {MAX_PARAM_VALUES:,} are allowed: put large "
            "values into a ConfigMap or a volume"
        )
        yield Violation("spec.params", Reason.TOO_LONG, None, detail)


def settings_refer_to_params(facts: FlowFacts) -> Iterator[Violation]:
    # a number or a timeout is written out, or one reference to a param of its type. Rules of the
    # field itself judge the value
    params = params_of(facts.written_flow)
    suggester = Suggester([*params])
    written, steps = facts.written_flow.spec, facts.written_flow.all_steps
    settings = [*find_set(written, Setting, "spec.")]
    for i, _ in facts.steps_with_options:
        settings += find_set(steps[i], Setting, f"{facts.path(i)}.")
    for path, setting, text, owner, _ in settings:
        takes_text = setting.is_time or (setting.is_share and fits(text, setting))
        if not isinstance(text, str) or (takes_text and "$(" not in text):
            continue
        if setting.of_vars and (read := find_vars_reference(text)) is not None:
            if read.keys[0] not in (known := owner.vars or {}):
                guess = did_you_mean(Suggester([*known]).nearest(read.keys[0]))
                detail = f'vars of the step have no "{read.keys[0]}"{guess}'
                yield Violation(path, Reason.INVALID, text, detail)
            continue
        # the schema takes any text, because a reference is one
        what = "a duration such as 2h" if setting.is_time else "a whole number"
        what += " or a percentage such as 5%" if setting.is_share else ""
        reference = find_param_reference(text)
        if reference is None:
            unquoted = f"; write {text}, without quotes" if text.isdecimal() else ""
            detail = f"{what}, or one reference to a param, such as $(params.n){unquoted}"
            detail += ", or to vars of the step, such as $(vars.n)" if setting.of_vars else ""
        elif (value := find_value(reference, params)) is UNSET:
            guess = did_you_mean(suggester.nearest(reference.keys[0]))
            detail = f'there is no parameter "{".".join(reference.keys)}"{guess}'
        elif fits(value, setting) or value is None:
            continue  # a param without a value has a fault of its own
        elif facts.level > 1 and is_unknown(value):
            continue  # its parent knows it when the child flow is made
        else:
            detail = f"{what}, but the value of {reference.path} is {describe_type(value)}"
        yield Violation(path, Reason.INVALID, text, detail)


def vars_are_few_and_have_names(facts: FlowFacts) -> Iterator[Violation]:
    for i, step in facts.steps_with_options:
        path = f"{facts.path(i)}.vars"
        # each is evaluated for every attempt
        if (count := len(step.vars or ())) > MAX_VARS:
            detail = f"at most {MAX_VARS} are allowed; compute a map in one of them"
            yield Violation(path, Reason.TOO_MANY, count, detail)
        # a dot in a reference begins a key of the value
        for name in step.vars or ():
            if not _NAME.fullmatch(name):
                detail = "a name holds letters, digits and _ and does not begin with a digit"
                yield Violation(join_path(path, name), Reason.INVALID, name, detail + _meant(name))


def outputs_are_few_and_have_names(facts: FlowFacts) -> Iterator[Violation]:
    """Checks the outputs of the flow, and the values of `compute`."""
    written: list[tuple[str, Mapping[str, str] | None]] = [
        ("spec.outputs", facts.flow.spec.outputs)
    ]
    for i, step in facts.steps_with_options:
        found = find_set(step, Evaluated, f"{facts.path(i)}.")
        written += [(each.path, each.value) for each in found if each.trait.stage is Stage.QUESTION]
    for path, outputs in written:
        if (count := len(outputs or ())) > MAX_OUTPUTS:
            detail = f"at most {MAX_OUTPUTS} are allowed; put more into one, as a map"
            yield Violation(path, Reason.TOO_MANY, count, detail)
        for name in outputs or ():
            if not _OUTPUT.fullmatch(name):
                detail = (
                    "the name of an output holds at most 63 letters, digits, _ and - and begins "
                    "with a letter or _"
                )
                yield Violation(path, Reason.INVALID, name, detail)


RULES: Rules = (
    RuleGroup(
        lambda facts: facts.flow.spec.params,
        (params_are_few, params_have_names, params_have_allowed_values, param_values_are_small),
    ),
    RuleGroup(flow_with_options, (settings_refer_to_params, vars_are_few_and_have_names)),
    RuleGroup(lambda facts: facts.written_expressions, (outputs_are_few_and_have_names,)),
)
