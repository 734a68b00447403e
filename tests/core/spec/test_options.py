"""Options: the fields that rules and plans look at by default."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import DependsOn, Step
from jobflow.api.flow.traits import Plain, names_with
from jobflow.core.spec.graph import _with_options


class StepOfTomorrow(Step, frozen=True, kw_only=True):
    field_of_tomorrow: int | None = None


@pytest.mark.parametrize("struct", [StepOfTomorrow, DependsOn, JobFlowSpec])
def test_every_field_is_an_option_unless_it_is_plain(struct: Any) -> None:
    fields = {field.name for field in msgspec.structs.fields(struct)}
    select = _with_options(struct)
    options = {name for name in fields if select([struct(**{name: 1})])}
    assert options == fields - names_with(struct, Plain)
