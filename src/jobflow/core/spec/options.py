"""Options: fields that most steps, dependencies and flows do not set, and that rules of their own
check. Every field is one unless it is Plain."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.flow.traits import Plain, fields_of

Select = Callable[[Iterable[Any]], list[tuple[int, Any]]]


def _with_options(struct: type[msgspec.Struct], *, within: str = "") -> Select:
    """Return a function that selects the values in which an option is set, with their positions.
    `within`: the field of the given objects that has the value, or None. It is compiled, because it
    looks at every step and a call for each of them takes three times as long."""
    options = [field.name for field in fields_of(struct) if field.get(Plain) is None]
    tests = " or ".join(f"value.{name} is not None" for name in options)
    if within:
        tests = f"(value := each.{within}) is not None and ({tests})"
    each = "each" if within else "value"
    select: Select = eval(
        f"lambda values: [(i, value) for i, {each} in enumerate(values) if {tests}]"
    )
    return select


select_steps = _with_options(Step)
select_dependencies = _with_options(DependsOn, within="depends_on")
select_specs = _with_options(JobFlowSpec)
