"""Values of flags: `--param NAME=VALUE` and `--output NAME=VALUE` are JSON, or else text."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobflow.client.manifests.check import load_files
from jobflow.client.manifests.flag_values import FlagValueError, read_flag_value
from jobflow.client.manifests.yaml_nodes import data_of
from jobflow.client.options import FileOptions
from support.sandbox.command_line import jobflow
from support.sandbox.manifests import template


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("-0.5", -0.5),
        ("1e3", 1000),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", 2.0**63),
        ("9" * 30, 1e30),
        ("true", True),
        ("null", None),
        (" 4 ", 4),
        ('"4"', "4"),
        ("'4'", "4"),
        ("'it''s'", "it's"),
        ('"[draft] x"', "[draft] x"),
        ("[0.1, 1e-3, null]", [0.1, 0.001, None]),
        ('{"a": [null, {}]}', {"a": [None, {}]}),
        ("[eu, NO, 1_000, 12:30, 2026-01-31, 012, ~]",
         ["eu", "NO", "1_000", "12:30", "2026-01-31", "012", "~"]),
        ('["\\ud83d\\ude00"]', ["😀"]),
        ("{yes: on, n: }", {"yes": "on", "n": None}),
    ],
)  # fmt: skip
def test_json_is_read_as_such(text: str, value: Any) -> None:
    found = data_of(read_flag_value(text))
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    "text",
    [
        *("YES", "no", "on", "True", "Null", "~", "", " ", "1_000", "0x10", "0o17", "007"),
        *("+1", ".5", "1.", "12:30:00", "2026-01-31", "2026-01-31T00:00:00Z", "NaN", "-Infinity"),
        *("a: b", "- a", "*", "&x", "!!int 4", "# c", "a=b", "$(flow.name)", "1 2", "@x", "it's"),
        *("'tis", "'a' or 'b'", "1\n---\n2", "1e999", "9" * 10_000),
    ],
    ids=lambda text: text[:20],
)
def test_everything_else_is_text(text: str) -> None:
    assert data_of(read_flag_value(text)) == text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[a", "is not YAML: the list opened at line 1, column 1 needs a comma or a closing ]"),
        ("[draft] x", "has more text after its end; put all of it into double quotes"),
        ('"a', "is not YAML: "),
        ("{{ x }}", "cannot be read: a key must be text; render {{ … }} of a Helm"),
        ("[a]\n---\n[b]", "has more text after its end"),
        ("[" * 10_000, "cannot be read: nested more than"),
        ("a\udc80", "has characters that UTF-8 does not have"),
        ("[a\udc80]", "cannot be read: control character U+DC80"),
    ],
    ids=lambda text: text[:20].encode("ascii", "replace").decode(),
)
def test_values_that_cannot_be_read_are_errors(text: str, fault: str) -> None:
    with pytest.raises(FlagValueError) as raised:
        read_flag_value(text)
    assert str(raised.value).startswith(fault)


FLOW = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata:
  name: {name}
spec:
  params:
    - name: workers
    - name: mode
      value: fast
      enum: [fast, slow]
  flows:
    - name: a
      template: t
      when: params.workers > 2
      patch:
        jobSpec:
          minAvailable: 1
          plugins:
            env: ["--n=$(params.workers) --mode=$(params.mode)"]
"""
TEMPLATE = json.dumps(template("t", duration="10ms")) + "\n"
BOTH = f"{FLOW.format(name='one')}---\n{TEMPLATE}"


def flags(params: Iterable[str]) -> list[str]:
    return [word for param in params for word in ("--param", param)]


def lint(*params: str, text: str = BOTH) -> list[str]:
    """Return the faults of a text as `line:column path`."""
    answer = jobflow("lint", "-o", "json", *flags(params), "-", stdin=text)
    return [f"{f['line']}:{f['column']} {f['path']}" for f in answer.json]


def test_a_param_without_a_value_gets_that_of_the_command_line() -> None:
    assert lint() == ["7:7 spec.params[0].value"]
    assert lint("workers=4") == []


@pytest.mark.parametrize(
    ("values", "faults"),
    [
        (["3", "3.5", "1e3", " 4 "], []),
        (
            ["many", '"4"', "'4'", "[4]", '{"n": 4}', "{n: 4}", "true", "", "a=b=c", "0x10", "~"],
            ["14:13 spec.flows[0].when"],
        ),
        (["null"], ["7:13 spec.params[0].value"]),
    ],
    ids=["numbers fit", "other types do not", "null is no value"],
)
def test_a_value_has_its_type_in_json(values: list[str], faults: list[str]) -> None:
    assert [lint(f"workers={value}") for value in values] == [faults] * len(values)


def test_a_value_in_the_file_is_replaced() -> None:
    assert lint("workers=4", "mode=slow") == []
    assert lint("workers=4", "mode=slw") == ["8:13 spec.params[1].value"]


def test_every_flow_with_the_param_gets_the_value() -> None:
    two = f"{BOTH}---\n{FLOW.format(name='two')}"
    assert lint("workers=4", text=two) == []
    other = two.replace("    - name: workers\n", "    - name: other\n      value: 1\n", 1)
    other = other.replace("params.workers", "params.other", 2)
    assert lint("workers=4", text=other) == []
    assert lint("workers=4", "other=x", text=other) == ["15:13 spec.flows[0].when"]


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        (["workers"], "--param workers: write it as --param NAME=VALUE"),
        (["=3"], "--param =3: write it as --param NAME=VALUE"),
        (["workers=1", "workers=2"], "--param workers is given twice: remove one of them"),
        (
            ["wrkers=1"],
            '--param wrkers: no JobFlow in the files has this param; did you mean "workers"?',
        ),
        (
            ["x=1"],
            "--param x: no JobFlow in the files has this param; their params are workers and mode",
        ),
        (
            ["workers=[1"],
            "--param workers: its value is not YAML: the list opened at line 1, column 1 needs a "
            "comma or a closing ] here",
        ),
        (
            ["workers=[1]\n---\n2"],
            "--param workers: its value has more text after its end; put all of it into double "
            "quotes",
        ),
    ],
)
@pytest.mark.parametrize("command", ["lint", "run"])
def test_invalid_params_are_refused(command: str, params: list[str], sentence: str) -> None:
    answer = jobflow(command, *flags(params), "-", stdin=BOTH)
    assert (answer.code, answer.out, answer.err) == (2, "", f"jobflow: error: {sentence}\n")


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1234567", 1234567, "a number"),
        ("-1.10", -1.1, "a number"),
        ("true", True, "a boolean"),
        ('"1.10"', "1.10", ""),
        ("7e3", "7e3", ""),
        ("1E-5", "1E-5", ""),
        ("nan", "nan", ""),
        ("0xab", "0xab", ""),
        ("[1]", [1], ""),
    ],
)
def test_a_param_that_is_text_in_the_spec_changes_with_a_warning(
    tmp_path: Path, text: str, value: Any, kind: str
) -> None:
    flow = yaml.safe_load(FLOW.format(name="one"))
    cron = {**flow, "kind": "CronJobFlow", "spec": {"jobFlowTemplate": {"spec": flow["spec"]}}}
    file = tmp_path / "flows.json"
    for obj, path in ((flow, "spec"), (cron, "spec.jobFlowTemplate.spec")):
        file.write_text(json.dumps(obj))
        loaded = load_files(FileOptions([str(file)], [f"mode={text}"]), namespace="team")
        quoted = f"--param 'mode=\"{text}\"' keeps it text"
        sentence = f"--param mode changes it from text to {kind}; {quoted}"
        warnings = [each.sentence for each in loaded.flag_warnings]
        assert warnings == ([f"{path}.params[1].value: {sentence}"] if kind else [])
        found = loaded.objects[0].data["spec"]
        param = found.get("jobFlowTemplate", {"spec": found})["spec"]["params"][1]
        assert (param["value"], type(param["value"])) == (value, type(value))


def test_lint_shows_the_warning() -> None:
    answer = jobflow("lint", *flags(["workers=4", "mode=12"]), "-", stdin=BOTH)
    assert "warning: spec.params[1].value: --param mode changes it from text" in answer.out


def test_a_file_has_values_of_params_and_flags_replace_them(tmp_path: Path) -> None:
    params = tmp_path / "params.yaml"
    params.write_text("workers: 4\nmode: slow\n")
    given = ("--param-file", str(params), "-")
    assert jobflow("lint", *given, stdin=BOTH).code == 0
    assert "Unsupported value" in jobflow("lint", "--param", "mode=slw", *given, stdin=BOTH).out
    run = jobflow("run", "-o", "json", "--speed", "50", *flags(["mode=fast"]), *given, stdin=BOTH)
    values = [param["value"] for param in run.json["items"][0]["spec"]["params"]]
    assert values == [4, "fast"]
    params.write_text('{"workers": [1, {"n": "x"}], "mode": "7e3"}')
    [first, second] = (
        load_files(FileOptions([write(tmp_path, BOTH)], param_file=str(params)), namespace="team")
        .objects[0]
        .data["spec"]["params"]
    )
    assert (first["value"], second["value"]) == ([1, {"n": "x"}], "7e3")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("- workers", ' is not a mapping: write a line for each param, such as "workers: 4"'),
        ("", ' is not a mapping: write a line for each param, such as "workers: 4"'),
        ("{", " not YAML: "),
        ("workers: 1\nworkers: 2", "2: workers is given twice: remove one of them"),
    ],
)
def test_a_file_of_params_that_cannot_be_read_is_refused(
    tmp_path: Path, text: str, fault: str
) -> None:
    params = tmp_path / "params.yaml"
    params.write_text(text)
    answer = jobflow("lint", "--param-file", params, "-", stdin=BOTH)
    assert (answer.code, answer.out) == (2, "")
    flag = "" if fault[0].isdigit() else "--param-file "
    assert answer.err.startswith(f"jobflow: error: {flag}{params}:{fault}")


def test_a_file_of_params_is_one_file_with_known_names(tmp_path: Path) -> None:
    for name in ("-", str(tmp_path)):
        answer = jobflow("lint", "--param-file", name, "-", stdin=BOTH)
        sentence = f"--param-file {name}: name one file, not stdin or a folder"
        assert (answer.code, answer.err) == (2, f"jobflow: error: {sentence}\n")
    assert "no such file" in jobflow("lint", "--param-file", tmp_path / "x", "-", stdin=BOTH).err
    params = tmp_path / "params.yaml"
    params.write_text("wrkers: 4")
    answer = jobflow("lint", "--param-file", params, "-", stdin=BOTH)
    assert (answer.code, 'did you mean "workers"?' in answer.err) == (2, True)


def write(folder: Path, text: str) -> str:
    path = folder / "flow.yaml"
    path.write_text(text)
    return str(path)


def test_a_param_for_files_without_params_is_refused() -> None:
    answer = jobflow("lint", "--param", "x=1", "-", stdin=TEMPLATE)
    assert answer.code == 2
    assert answer.err == "jobflow: error: --param x: no JobFlow in the files has params\n"


def test_unreadable_files_are_reported_first() -> None:
    answer = jobflow("lint", "--param", "x=1", "-", stdin="{")
    assert answer.code == 2
    assert "not YAML" in answer.out


@pytest.mark.parametrize(
    ("params", "values", "phase"),
    [
        (("workers=4", 'mode="slow"'), [4, "slow"], ("Completed", None)),
        (("workers=1",), [1, "fast"], ("Skipped", "NotTaken")),
    ],
)
def test_a_flow_runs_with_the_values(
    params: tuple[str, ...], values: list[Any], phase: tuple[str, str | None]
) -> None:
    answer = jobflow("run", "-o", "json", "--speed", "50", *flags(params), "-", stdin=BOTH)
    assert answer.code == 0, answer.err
    (flow,) = answer.json["items"]
    condition = flow["status"]["conditions"]["one-a"]
    assert [param["value"] for param in flow["spec"]["params"]] == values
    assert (condition["phase"], condition.get("reason")) == phase


def test_params_that_are_shared_by_an_alias_get_values(tmp_path: Path) -> None:
    """Two flows that share params by an alias have one list in the file."""
    shared = "  params: &params\n    - name: workers\n"
    first, second = FLOW.format(name="one"), FLOW.format(name="two")
    params = first[first.index("  params:") : first.index("  flows:")]
    items = [first.replace(params, shared), second.replace(params, "  params: *params\n")]
    manifest = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
        "  - " + item.replace("$(params.mode)", "fast").replace("\n", "\n    ").rstrip() + "\n"
        for item in items
    )
    path = tmp_path / "flows.yaml"
    path.write_text(manifest)
    assert jobflow("lint", "--param", "workers=4", path).code == 0
