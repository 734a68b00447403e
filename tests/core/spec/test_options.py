"""Options: the fields that rules and plans look at by default."""

from typing import Any

import msgspec
import pytest

from jobflow.api.flow.dependencies import DependsOn
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.core.spec.options import (
    PLAIN_DEPENDENCY_FIELDS,
    PLAIN_FIELDS,
    PLAIN_SPEC_FIELDS,
    _with_options,
)


class StepOfTomorrow(Step, frozen=True, kw_only=True):
    field_of_tomorrow: int | None = None


@pytest.mark.parametrize(
    ("struct", "plain"),
    [
        (StepOfTomorrow, PLAIN_FIELDS),
        (DependsOn, PLAIN_DEPENDENCY_FIELDS),
        (JobFlowSpec, PLAIN_SPEC_FIELDS),
    ],
)
def test_every_field_is_an_option_unless_it_is_plain(struct: Any, plain: frozenset[str]) -> None:
    fields = {field.name for field in msgspec.structs.fields(struct)}
    select = _with_options(struct, plain)
    assert {name for name in fields if select([struct(**{name: 1})])} == fields - plain
