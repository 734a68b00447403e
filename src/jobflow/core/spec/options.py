"""Options: fields that most steps, dependencies and flows do not set, and that rules of their own
check."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from jobflow.api.flow.dependencies import DependsOn
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step

PLAIN_FIELDS = frozenset({"name", "template", "depends_on", "continue_on_failure"})
"""Fields of a step that are no options. Every other field is one, a new field too."""
PLAIN_DEPENDENCY_FIELDS = frozenset({"targets"})
"""Fields of dependsOn that are no options."""
PLAIN_SPEC_FIELDS = frozenset({"flows", "job_retain_policy", "suspend"})
"""Fields of a flow's spec that are no options."""


Select = Callable[[Iterable[Any]], list[tuple[int, Any]]]


def _with_options(
    struct: type[msgspec.Struct], plain: frozenset[str], *, within: str = ""
) -> Select:
    """Return a function that selects the values in which a field that is not plain is set, with
    their positions. `within`: the field of the given objects that has the value, or None. It is
    compiled, because it looks at every step and a call for each of them takes three times as
    long."""
    options = [field.name for field in msgspec.structs.fields(struct) if field.name not in plain]
    tests = " or ".join(f"value.{name} is not None" for name in options)
    if within:
        tests = f"(value := each.{within}) is not None and ({tests})"
    each = "each" if within else "value"
    select: Select = eval(
        f"lambda values: [(i, value) for i, {each} in enumerate(values) if {tests}]"
    )
    return select


select_steps = _with_options(Step, PLAIN_FIELDS)
select_dependencies = _with_options(DependsOn, PLAIN_DEPENDENCY_FIELDS, within="depends_on")
select_specs = _with_options(JobFlowSpec, PLAIN_SPEC_FIELDS)
