"""`jobflow convert -o python`: a file that makes the same objects."""

import contextlib
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from jobflow.api.kinds import KINDS
from jobflow.client.manifests.objects import load
from support.paths import ROOT
from support.sandbox.command_line import jobflow

FILES = [
    *sorted((ROOT / "examples").glob("*.yaml")),
    *sorted((ROOT / "tests" / "patterns").glob("*/*.yaml")),
]
OF_VOLCANO = {
    case["what"]: case["flow"] | {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow"}
    for case in yaml.safe_load((ROOT / "tests" / "data" / "volcano-flows.yaml").read_text())
    if "refused" not in case and "dropped" not in case["what"]
}


MISTAKES = """\
from jobflow.authoring import Flow, Retry, item

flow = Flow("f", paralelism=1)  # type: ignore[call-arg]
a = flow.step("a", imge="x")  # type: ignore[call-arg]
flow.step("b", retry=Retry(limt=1))  # type: ignore[call-arg]
flow.step("c", for_each=1, env={"X": item}, when=a.outputs.x == 1)  # type: ignore[arg-type]
flow.run(runner=1)  # type: ignore[arg-type]
a >> "b"  # type: ignore[operator]
"""
"""Each comment is an error that mypy reports; in strict mode, one without an error is one too."""


def to_python(text: str) -> str:
    answer = jobflow("convert", "-o", "python", "-", stdin=text)
    assert answer.code == 0, answer.err
    return answer.out


def printed_by(source: str) -> list[dict[str, Any]]:
    """Return the objects that a converted file prints."""
    with contextlib.redirect_stdout(io.StringIO()) as stdout:
        exec(compile(source, "converted.py", "exec"), {"__name__": "__main__"})
    return [*yaml.safe_load_all(stdout.getvalue())]


def meaning(objects: list[dict[str, Any]]) -> dict[tuple[str, ...], Any]:
    """Return the objects by kind, namespace and name, without what says nothing: fields that are
    not set, and a template with the name of its step."""
    return {_key(each): _meaning(each) for each in objects}


def _key(obj: dict[str, Any]) -> tuple[str, ...]:
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace", ""), meta.get("name") or meta["generateName"]


def _meaning(obj: dict[str, Any]) -> Any:
    typed = msgspec.convert(obj, KINDS[obj["kind"]].object_type)
    plain = _without_own_templates(msgspec.to_builtins(typed))
    kept = ("name", "generateName", "namespace", "labels", "annotations")
    metadata = {key: plain["metadata"][key] for key in kept if plain["metadata"].get(key)}
    return metadata, plain["spec"]


def _without_own_templates(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_own_templates(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("name") is not None and value.get("template") == value["name"]:
        value = {key: each for key, each in value.items() if key != "template"}
    return {key: _without_own_templates(each) for key, each in value.items()}


def is_ours(obj: dict[str, Any]) -> bool:
    return obj["kind"] in KINDS


@pytest.mark.sampled(4)
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_file_makes_the_same_objects(path: Path) -> None:
    objects = [each.data for each in load([str(path)], io.BytesIO()).objects]
    made = printed_by(to_python(path.read_text()))
    assert meaning(made) == meaning([*filter(is_ours, objects)])


@pytest.mark.parametrize("what", OF_VOLCANO)
def test_the_file_makes_the_same_flow_of_volcano(what: str) -> None:
    flow = OF_VOLCANO[what]
    assert meaning(printed_by(to_python(yaml.safe_dump(flow)))) == meaning([flow])


@pytest.mark.long
def test_the_files_are_formatted_and_typed(tmp_path: Path) -> None:
    """By the defaults of ruff, and by mypy in strict mode."""
    files = [tmp_path / f"flow_{number}.py" for number in range(len(FILES))]
    for file, path in zip(files, FILES, strict=True):
        file.write_text(to_python(path.read_text()))
    check(tmp_path, "ruff format --isolated --diff", *files)
    (tmp_path / "mistakes.py").write_text(MISTAKES)
    check(tmp_path, "mypy --strict", *files[::9], tmp_path / "mistakes.py")


def check(folder: Path, command: str, *files: Path) -> None:
    arguments = [sys.executable, "-m", *command.split(), *map(str, files)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_objects_of_other_kinds_are_left_out_with_a_warning() -> None:
    flow = {"apiVersion": "flow.volcano.sh/v1alpha1", "kind": "JobFlow", "metadata": {"name": "f"},
            "spec": {"flows": [{"name": "a"}]}}  # fmt: skip
    queue = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    answer = jobflow("convert", "-o", "python", "-", stdin=yaml.safe_dump_all([queue, flow]))
    assert answer.code == 0
    assert "<stdin>:2:7: Namespace team is left out" in answer.err


def test_faults_are_printed_instead() -> None:
    answer = jobflow("convert", "-o", "python", ROOT / "examples" / "refused" / "step-cycle.yaml")
    assert (answer.code, answer.out) == (1, "")
    assert "these steps wait for each other" in answer.err
