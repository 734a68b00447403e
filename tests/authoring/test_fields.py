"""Each field of the API has a field in Python, with its name in snake_case."""

import ast
import dataclasses
import subprocess
import sys
from itertools import chain
from pathlib import Path

import msgspec
import pytest

from jobflow.api.flow import control, cronjobflow
from jobflow.api.flow import step as steps
from jobflow.api.flow.jobflow import JobFlowSpec
from jobflow.api.flow.step import Step
from jobflow.api.flow.traits import InChild, names_with
from jobflow.api.volcano import job
from jobflow.authoring.encode import to_json_name
from jobflow.authoring.objects import fields
from support.paths import ROOT

MADE = ROOT / "src" / "jobflow" / "authoring" / "objects"
MODULES = (steps, control, job)
CLASSES = [
    each
    for each in vars(fields).values()
    if isinstance(each, type)
    and dataclasses.is_dataclass(each)
    and each.__module__ == fields.__name__
]


def api_type(name: str) -> type:
    return next(getattr(module, name) for module in MODULES if hasattr(module, name))


def typed_fields() -> dict[str, set[str]]:
    """Return the names of the fields of each class that editors and type checkers see."""
    found: dict[str, set[str]] = {}
    for made in ast.parse((MADE / "fields.pyi").read_text()).body:
        if isinstance(made, ast.ClassDef):
            inherited = (
                found.get(each.id, ()) for each in made.bases if isinstance(each, ast.Name)
            )
            found[made.name] = {
                *chain.from_iterable(inherited),
                *(
                    each.target.id
                    for each in made.body
                    if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                ),
            }
    return found


def api_fields(struct: type) -> dict[str, str]:
    """Return the fields of a type of the API: Python names -> JSON names."""
    return {each.name: each.encode_name for each in msgspec.structs.fields(struct)}


@pytest.mark.parametrize("module", ["fields.py", "fields.pyi"])
def test_the_fields_are_those_that_the_generator_writes(module: str, tmp_path: Path) -> None:
    """`make manifests` updates them."""
    script = ROOT / "tools" / "authoring_types.py"
    subprocess.run([sys.executable, script, tmp_path], check=True, cwd=ROOT)
    assert (tmp_path / module).read_text() == (MADE / module).read_text()


@pytest.mark.parametrize("made", CLASSES, ids=lambda made: made.__name__)
def test_a_class_has_the_fields_of_the_api(made: type) -> None:
    known = api_fields(api_type(made.__name__))
    names = [each.name for each in dataclasses.fields(made)]  # type: ignore[arg-type]
    assert {name: to_json_name(name) for name in names} == known
    assert typed_fields()[made.__name__] == known.keys()


def test_steps_flows_and_schedules_have_the_fields_of_the_api() -> None:
    step, spec = api_fields(Step), api_fields(JobFlowSpec)
    cron = api_fields(cronjobflow.CronJobFlowSpec)
    typed = typed_fields()
    assert {"name", *typed["StepFields"]} == set(step)
    assert {"flows", "finally_", *typed["FlowFields"]} == set(spec)
    children = names_with(JobFlowSpec, InChild)
    assert {"flows", "finally_", "params", *typed["ChildFields"]} == children
    assert {"schedule", "job_flow_template", *typed["CronFields"]} == set(cron)
    for names in (step, spec, cron):
        assert {name: to_json_name(name) for name in names} == names


def test_all_types_of_a_field_exist_in_python() -> None:
    """Also those of a field that is new in the API."""
    names = {each.__name__ for each in CLASSES}
    structs = {
        name
        for module in (steps, control)
        for name, each in vars(module).items()
        if isinstance(each, type)
        and issubclass(each, msgspec.Struct)
        and each.__module__ == module.__name__
    }
    assert structs - {Step.__name__} <= names


def test_a_wrong_field_of_an_object_has_a_suggestion() -> None:
    with pytest.raises(TypeError, match='Retry has no field limits; did you mean "limit"'):
        fields.Retry(limits=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Retry has no field foo$"):
        fields.Retry(foo=2)  # type: ignore[call-arg]
