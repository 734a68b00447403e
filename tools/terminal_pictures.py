"""Writes docs/pictures: terminals in which commands of JobFlow have run, as SVG.

`make pictures` runs this script. It starts a sandbox, submits examples, runs each command in a
pseudo-terminal, and draws its output.
"""

import fcntl
import io
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).parent.parent
FLOWS = ROOT / "examples"

COLUMNS = 100
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px FONT; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
""".replace("FONT", FONT)
"""A picture without fonts from elsewhere, which the template of Rich loads."""
PICTURES = {
    "get": ("jobflow get", "jobflow get search --items"),
    "why": ("jobflow why forecast",),
    "graph": ("jobflow graph search",),
    "timeline": ("jobflow timeline training",),
    "plan": ("jobflow plan training-pipeline.yaml -o gantt",),
}


def main() -> None:
    """Write the pictures into the folder that is the first argument."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with sandbox() as environment:
        run("jobflow submit training-pipeline.yaml on-failure.yaml --wait", environment)
        run("jobflow submit hyperparameter-search.yaml", environment)
        run("jobflow wait search --timeout 6s", environment)  # the flow is in the middle
        for name, commands in PICTURES.items():
            shown = [(command, run(command, environment)) for command in commands]
            (folder / f"{name}.svg").write_text(draw(name, shown))


@contextmanager
def sandbox() -> Iterator[dict[str, str]]:
    """Run a sandbox; yield the environment of commands that use it."""
    with TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [str(jobflow()), "sandbox", "--kubeconfig", str(kubeconfig)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout is not None
            while server.stdout.readline() != "ready\n":
                assert server.poll() is None
            path = f"{jobflow().parent}{os.pathsep}{os.environ['PATH']}"
            yield {
                **os.environ,
                "KUBECONFIG": str(kubeconfig),
                "PATH": path,
                "TERM": "xterm-256color",
            }
        finally:
            server.terminate()
            server.wait()


def jobflow() -> Path:
    return Path(sys.executable).parent / "jobflow"


def run(command: str, environment: dict[str, str]) -> str:
    """Run a command in a pseudo-terminal; return its output with colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    process = subprocess.Popen(
        shlex.split(command), cwd=FLOWS, env=environment, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:  # Linux: the other end is closed
        pass
    os.close(ours)
    assert process.wait() in (0, 1, 124), output.decode()
    return re.sub(r"\r\n", "\n", output.decode())


def draw(name: str, shown: list[tuple[str, str]]) -> str:
    """Return a picture of commands and their output."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for command, output in shown:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output.rstrip("\n")))
    picture = console.export_svg(title=name, theme=MONOKAI, code_format=SVG, unique_id=name)
    return "".join(f"{line.rstrip()}\n" for line in picture.splitlines())


if __name__ == "__main__":
    main()
