"""Ctrl-C ends a command with 130 and without a traceback, whenever it comes; so do several. SIGTERM
ends it with 143, also as PID 1 of a container."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.paths import ROOT
from support.sandbox.flow_commands import JOBFLOW

pytestmark = pytest.mark.long

COMMANDS = [
    ("get", "-w", "--kubeconfig", "missing"),
    ("run", str(ROOT / "examples" / "diamond.yaml")),
    ("sandbox",),
    ("plan", str(ROOT / "examples" / "diamond.yaml")),
]
IMPORTED = ("typer.models", "typer.main", "jobflow.cli.program", "yaml", "h11")
"""Modules in the order in which a command imports them."""


@pytest.mark.parametrize("module", IMPORTED)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_while_modules_are_imported(command: tuple[str, ...], module: str, tmp_path: Path) -> None:
    _signal_during_import(signal.SIGINT, command, module, tmp_path, code=130)


@pytest.mark.parametrize("command", ["serve", "crds --apply", "ui", "sandbox"])
def test_sigterm_while_modules_are_imported(command: str, tmp_path: Path) -> None:
    """A handler ends the process, which PID 1 of a container needs: the default action, which is
    for other processes only, would give the code -15."""
    _signal_during_import(signal.SIGTERM, command.split(), IMPORTED[0], tmp_path, code=143)


def _signal_during_import(
    number: signal.Signals, command: Sequence[str], module: str, cwd: Path, *, code: int
) -> None:
    """Send a signal after the import of a module. Python names each on stderr after its import."""
    process = subprocess.Popen(
        [JOBFLOW, *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env=os.environ | {"PYTHONPROFILEIMPORTTIME": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.split()[-1:] == [module.encode()]:
            break
    process.send_signal(number)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == code
    assert [line for line in rest.splitlines() if not line.startswith(b"import time:")] == []


@pytest.mark.parametrize("more", [0.0, 0.001, 0.01, 0.05, 0.1, 0.2])
def test_a_second_one_while_the_sandbox_ends(more: float, tmp_path: Path) -> None:
    """The sandbox ends with 0 after one, and with 130 after two, unless it has ended before."""
    process = subprocess.Popen(
        [JOBFLOW, "sandbox"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    while process.stdout.readline() != b"ready\n":
        pass
    process.send_signal(signal.SIGINT)
    select.select([], [], [], more)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode in (0, 130)
    assert err == b""
    assert not (tmp_path / ".jobflow" / "kubeconfig").exists()


AT_THE_END = """
import asyncio, signal
from jobflow.cli import main, program
from jobflow.runtime import ctrl_c, event_loop

ignore = ctrl_c.ignore

def ignore_too_late():
    for _ in range({times}):
        signal.raise_signal(signal.SIGINT)
    ignore()

ctrl_c.ignore = ignore_too_late
program.run = lambda *_: event_loop.run(asyncio.sleep(0, 0))
main.main()
"""


@pytest.mark.parametrize("times", [1, 2, 3])
def test_after_the_end_of_the_event_loop(times: int) -> None:
    """They come after the command has ended, just before they are ignored."""
    program = AT_THE_END.format(times=times)
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (process.returncode, process.stderr) == (130, b"")


TWO_AT_ONCE = """
import asyncio, signal
from jobflow.cli import main, program
from jobflow.client.signals import interruption
from jobflow.runtime import event_loop

async def command():
    with interruption() as stop:
        {signals}
        await stop.wait()
        await asyncio.sleep({rest})
    return 0

program.run = lambda *_: event_loop.run(command())
main.main()
"""


@pytest.mark.parametrize(("times", "code"), [(1, 0), (2, 130), (3, 130)])
def test_several_before_the_first_is_handled(times: int, code: int) -> None:
    """The first ends the command, the second cancels what it does then, the third ends all."""
    rest = 0 if code == 0 else 1000
    program = TWO_AT_ONCE.format(signals="signal.raise_signal(2); " * times, rest=rest)
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=False, timeout=60
    )
    assert (process.returncode, process.stderr) == (code, b"")


@pytest.mark.parametrize("arguments", ["get -h", "crds", "lint -o json {}", "graph {}", "plan {}"])
def test_a_pipe_that_closes_is_no_error(arguments: str) -> None:
    """The reader is gone before the command writes."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [JOBFLOW, *arguments.format(ROOT / "examples" / "diamond.yaml").split()]
    process = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (process.returncode, process.stderr) == (0, b"")
