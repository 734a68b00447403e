"""Colours: on a terminal only, and none with NO_COLOR."""

import os
import pty
import re
import subprocess
from pathlib import Path

import pytest

from support.paths import ROOT
from support.sandbox.flow_commands import JOBFLOW

STYLES = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.long
@pytest.mark.parametrize(("no_color", "styled"), [("1", False), ("", True)])
def test_no_color_leaves_no_style_not_even_bold(no_color: str, styled: bool) -> None:
    ours, its = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "NO_COLOR": no_color}
    lint = [JOBFLOW, "lint", ROOT / "examples" / "refused" / "first-user.yaml"]
    process = subprocess.Popen(lint, stdout=its, env=environment)
    os.close(its)
    shown = b""
    try:
        while chunk := os.read(ours, 10_000):
            shown += chunk
    except OSError:  # Linux: the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 1
    assert bool(STYLES.search(shown.decode())) is styled


def test_all_commands_have_their_console_from_one_place() -> None:
    """A notebook has consoles of its own, which write HTML."""
    files = {path.name for path in (ROOT / "src").rglob("*.py") if makes_console(path)}
    assert files == {"console.py", "notebook.py"}


def makes_console(path: Path) -> bool:
    return re.search(r"\bConsole\(", path.read_text(encoding="utf-8")) is not None
