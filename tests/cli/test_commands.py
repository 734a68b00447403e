"""Help, invalid calls, and the commands that only print or write files."""

import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import jobflow as package
from jobflow.app.settings import Settings, settings_help
from jobflow.cli.cluster import serve as serve_command
from support.paths import ROOT
from support.sandbox.command_line import jobflow

FULL = Path("/dev/full")
DIAMOND = str(ROOT / "examples" / "diamond.yaml")
COMMANDS = (
    *("run", "lint", "convert", "migrate", "sandbox"),
    *("get", "wait", "outputs", "graph", "timeline", "logs", "plan", "why", "ui"),
    *("submit", "cancel", "suspend", "resume", "resubmit", "delete", "trigger", "backfill"),
    *("retry", "skip", "scale", "approve", "reject"),
    *("serve", "crds", "certs", "doctor", "completion"),
)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    answer = jobflow(command, "--help")
    assert answer.code == 0
    assert f"jobflow {command}" in answer.out.split("Examples:")[1]
    options = answer.out.split("Options:")[1].split("\n\n")[0]
    assert "--help" in options  # no flag is an empty line
    assert "  \n" not in options


def test_help_lists_the_commands() -> None:
    answer = jobflow("-h")
    assert answer.code == 0
    lines = answer.out.split("Commands:")[1].splitlines()[1 : 1 + len(COMMANDS)]
    assert [line.split()[0] for line in lines] == list(COMMANDS)


def test_version_prints_the_version() -> None:
    answer = jobflow("--version")
    assert (answer.code, answer.out) == (0, f"jobflow {package.__version__}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("lint",),
        ("run",),
        ("what",),
        ("lint", "--what"),
        ("lint", "-o", "xml", "f"),
        ("certs",),
        ("sandbox", "--port", "65536"),
        ("sandbox", "--webhook-port", "-1"),
    ],
)
def test_an_invalid_call_has_exit_code_2(arguments: tuple[str, ...]) -> None:
    answer = jobflow(*arguments)
    assert (answer.code, "Traceback" in answer.err) == (2, False)


def test_help_imports_no_large_modules() -> None:
    """`--help` must be fast. The test counts imports, because a clock is unreliable."""
    script = (
        "import sys; sys.argv = ['jobflow', '--help']\n"
        "from jobflow.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'fastapi', 'uvicorn', 'kubernetes_asyncio', 'pydantic', 'yaml', 'jsonschema_rs',"
        " 'httpx', 'cryptography', 'msgspec', 'jinja2'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert process.stderr == "[]\n"


@pytest.mark.long
def test_crds_match_the_chart() -> None:
    answer = jobflow("crds")
    assert answer.code == 0
    files = sorted(Path("charts/jobflow/crds").glob("*.yaml"))
    assert [file.stem.split("_")[1] for file in files] == [
        "cronjobflows",
        "jobflows",
        "jobtemplates",
    ]
    chart = [yaml.safe_load(file.read_text()) for file in files]
    printed = yaml.safe_load_all(answer.out)
    assert chart == sorted(printed, key=lambda definition: definition["metadata"]["name"])


def test_certs_are_written_and_named(tmp_path: Path) -> None:
    answer = jobflow("certs", tmp_path / "pki", "--host", "webhook.example.com")
    assert answer.code == 0
    names = ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert answer.out.splitlines() == [str(tmp_path / "pki" / name) for name in names]
    assert (tmp_path / "pki" / "tls.key").stat().st_mode & 0o077 == 0


def test_certs_that_cannot_be_written_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    answer = jobflow("certs", tmp_path / "file")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"jobflow: error: {tmp_path}/file: File exists\n"
    answer = jobflow("certs", tmp_path, "--host", "hôte")
    assert answer.code == 2
    assert answer.err.startswith("jobflow: error: ") and "hôte" in answer.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--tls-cert", "tls.crt"), "--tls-cert and --tls-key go together"),
        (("--ca-lifetime", "1h"), "--ca-lifetime has to be at least twice"),
        (
            ("--shutdown-delay", "soon"),
            '(JOBFLOW_SHUTDOWN_DELAY): "soon" is not a',
        ),
        (("--no-webhook", "--no-controller"), "leave nothing to do"),
        (("--no-webhook", "--http-port", "70000"), "--http-port (JOBFLOW_HTTP_PORT): "),
        (("--no-webhook", "--kubeconfig", "missing"), "missing"),
    ],
)
def test_serve_names_invalid_settings(arguments: tuple[str, ...], sentence: str) -> None:
    answer = jobflow("serve", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert sentence in answer.err
    assert all(line.startswith("jobflow: error: ") for line in answer.err.splitlines())


def test_the_help_of_serve_lists_all_settings() -> None:
    text = " ".join(re.sub(r"-\n +", "-", jobflow("serve", "--help").out).split())
    assert len(list(settings_help())) == len(Settings.model_fields)
    for entry in settings_help():
        start = entry.flag if entry.metavar is None else f"{entry.flag} {entry.metavar}"
        default = f"; default: {entry.default}]" if entry.default else "]"
        assert f"{start} {entry.description}. [{entry.variable}{default}" in text
    assert "--lease-duration TIME" in text and "default: 15s]" in text


def test_a_flag_of_serve_with_several_values_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Mapping[str, Any]] = []
    monkeypatch.setattr(serve_command, "serve", lambda flags: given.append(flags) or 0)
    jobflow("serve", "--controller-user", "a", "--controller-user", "b")
    jobflow("serve", "--http-port", "1")
    assert given == [{"controller_user": ["a", "b"]}, {"http_port": "1"}]


def test_an_invalid_value_is_named_by_flag_and_variable() -> None:
    answer = jobflow("serve", "--webhook-port", "https", "--retry-period", "often")
    assert answer.code == 2
    assert [line.split(": ")[2] for line in answer.err.splitlines()] == [
        "--retry-period (JOBFLOW_RETRY_PERIOD)",
        "--webhook-port (JOBFLOW_WEBHOOK_PORT)",
    ]


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        answer = jobflow("sandbox", "--port", port, "--kubeconfig", tmp_path / "kubeconfig")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"jobflow: error: cannot listen on 127.0.0.1:{port}: ")
    assert answer.err.endswith("; choose another port by --port\n")


@pytest.mark.sampled(3)
@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "arguments",
    [("--version",), ("crds",), ("lint", DIAMOND), ("lint", "-o", "json", DIAMOND)]
    + [("run", "--speed", "100", DIAMOND), ("run", "--speed", "100", "-o", "json", DIAMOND)],
)
def test_a_full_disk_is_one_error(arguments: tuple[str, ...]) -> None:
    with FULL.open("wb") as full:
        process = subprocess.run(
            [sys.executable, "-m", "jobflow.cli.main", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert process.returncode == 2
    sentence = "cannot write to standard output: No space left on device; free some space"
    assert process.stderr == f"jobflow: error: {sentence}\n"
