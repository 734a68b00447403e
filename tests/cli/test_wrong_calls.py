"""A wrong value of any option of any command is a sentence with the option and the value."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from jobflow.cli.program import commands
from support.paths import ROOT
from support.sandbox.command_line import jobflow

DIAMOND = str(ROOT / "examples" / "diamond.yaml")
ARGUMENTS = {
    **dict.fromkeys(("get", "sandbox", "doctor", "crds", "ui"), ()),
    **dict.fromkeys(("wait", "why", "delete", "cancel", "suspend", "resume", "retry"), ("f",)),
    **dict.fromkeys(("approve", "reject", "skip"), ("f", "a")),
    "scale": ("f", "--parallelism", "2"),
    **dict.fromkeys(("run", "lint", "convert", "submit", "plan", "graph"), (DIAMOND,)),
    "migrate": (DIAMOND,),
    **dict.fromkeys(("timeline", "logs", "outputs", "resubmit", "trigger"), ("f",)),
    "backfill": ("f", "--from", "2026-01-01", "--to", "2026-01-02"),
}
WRONG = {
    "--output": "xml",
    "-o": "xml",
    "--runner": "docker",
    "--speed": "0",
    "--max-restarts": "-1",
    "--port": "70000",
    "--webhook-port": "https",
    "--selector": "a in b",
    "--phase": "Done",
    "--timeout": "soon",
    "--since": "yesterday",
    "--from": "monday",
    "--to": "2026-13-01",
    "--limit": "0",
    "--parallelism": "0",
    "--tail": "-5",
    "--capacity": "cpu=many",
    "--dry-run": "true",
    "--param": "workers",
    "--param-file": "missing",
    "--kubeconfig": "missing",
}
ANY_TEXT = {
    *(
        "--namespace",
        "--context",
        "--as",
        "--task",
        "--pod",
        "--container",
        "--name",
        "--host",
        "--step",
    ),
    *("--durations", "--message", "--step", "--reuse", "--rerun"),
}
"""Options whose value only a cluster or a file can refuse."""
ELSEWHERE = {("sandbox", "--kubeconfig"), ("submit", "--param"), ("submit", "--param-file")}
"""A file to write, and options that are read after the namespace: tests/client/manifests."""
MORE = {
    ("crds", "--kubeconfig"): ("--apply",),
    ("run", "--max-restarts"): ("--runner", "process"),
    ("sandbox", "--max-restarts"): ("--runner", "process"),
}


def options() -> Iterator[tuple[str, str]]:
    """Return each command with each of its options that takes a value."""
    program: Any = commands()
    for name, command in program.commands.items():
        if name == "serve":  # see tests/app/test_settings.py
            continue
        for param in command.get_params(typer.Context(command)):
            if param.param_type_name == "option" and not param.is_flag:
                option = max(param.opts, key=len)
                if option not in ANY_TEXT and (name, option) not in ELSEWHERE:
                    yield name, option


@pytest.mark.parametrize(("command", "option"), [*options()])
def test_a_wrong_value_is_named_with_its_option(
    command: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    value = WRONG[option]
    arguments = ARGUMENTS[command]
    if option == "--kubeconfig" and command in ("graph", "plan"):
        arguments = ("f",)
    more = MORE.get((command, option), ())
    answer = jobflow(command, *arguments, *more, option, value)
    assert (answer.code, answer.out) == (2, "")
    (line,) = answer.err.splitlines()
    assert line.startswith("jobflow: error: ")
    assert value in line
    assert option.removeprefix("--") in line or option == "--phase"
    for noise in ("Value error", "Input should", "Invalid value", "class", "[", "None"):
        assert noise not in line


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("get", "-o", "jsn"), '--output "jsn" is not one of table, wide, tree, json, yaml, name; '
         'did you mean "json"?'),
        (("sandbox", "--port", "x"), '--port "x" is not a whole number from 0 to 65535'),
        (("completion", "tcsh"), '"tcsh" is not one of bash, zsh, fish'),
        (("get", "--xyz"), "no such option: --xyz; see `jobflow get --help`"),
        (("skip", "f", "--step", "a"),
         "no such option: --step; write `jobflow skip FLOW STEP[/INDEX]`"),
        (("scale", "f", "--step=a", "--parallelism=1"),
         "no such option: --step; write `jobflow scale FLOW STEP[/INDEX]`"),
        (("lint",), "missing argument 'FILE'; see `jobflow lint --help`"),
        (("list",), "no such command 'list'; did you mean 'lint'?; see `jobflow --help`"),
        (("crds", "--kubeconfig", "f"), "--kubeconfig needs --apply"),
        (("get", "-n"), "option '-n' requires an argument"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    answer = jobflow(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"jobflow: error: {sentence}\n"


@pytest.mark.parametrize(
    "command", ["get", "wait", "why", "cancel", "suspend", "resume", "retry", "delete"]
)
def test_a_wrong_selector_is_refused_by_each_command_without_a_cluster(command: str) -> None:
    answer = jobflow(command, "-l", "team=vision,,")
    advice = "is not a label selector: write it like team=vision,stage!=test"
    assert (answer.code, answer.err) == (
        2,
        f'jobflow: error: --selector "team=vision,," {advice}\n',
    )


@pytest.mark.parametrize("command", ["lint", "run", "convert", "migrate", "plan", "graph"])
def test_a_missing_file_is_reported_once(command: str) -> None:
    answer = jobflow(command, "missing.yaml")
    assert (answer.code, answer.out + answer.err) == (2, "missing.yaml: error: no such file\n")


def test_help_shows_no_types_of_python() -> None:
    program: Any = commands()
    for name in program.commands:
        text = jobflow(name, "--help").out
        for noise in ("<str>", "list[", "INTEGER", "<=x", "x>="):
            assert noise not in text, name
