"""`jobflow ui` as a process: it prints its link, serves it, and ends by a signal."""

import asyncio
import json
import signal
import sys
from asyncio import StreamReader
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from jobflow.page.serve import has_browser, served_page
from jobflow.runtime.http_listener import PortInUse
from support.paths import ROOT
from support.sandbox.command_line import jobflow
from support.sandbox.running_controller import cluster, flow

ASK = '"name": "ask", "approval": {"message": "go?"}'


@asynccontextmanager
async def started(*arguments: object) -> AsyncIterator[Process]:
    """Run `jobflow ARGUMENTS` without a screen, and kill it at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "jobflow.cli.main", *map(str, arguments)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def read_page(link: str) -> str:
    """Open a link as a browser does, and return the list of flows."""
    async with httpx.AsyncClient(trust_env=False) as browser:
        await browser.get(link)
        return (await browser.get(link.partition("?")[0] + "flows")).text


async def interrupt(process: Process) -> tuple[int | None, str, str]:
    """Press Ctrl-C; return the exit code and what was still printed."""
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@pytest.mark.long
async def test_the_printed_link_opens_the_page_until_ctrl_c(tmp_path: Path) -> None:
    async with cluster() as world:
        path = tmp_path / "kubeconfig"
        world.server.write_kubeconfig(path)
        async with started("ui", "--no-browser", "--kubeconfig", path) as process:
            assert process.stdout is not None
            link = (await process.stdout.readline()).decode().strip()
            text = await read_page(link)
            end = await interrupt(process)
    assert link.startswith("http://127.0.0.1:")
    assert "<h1>Flows</h1>" in text
    assert end == (0, "", "The page is open until you press Ctrl-C.\n")


async def line_with(stream: StreamReader | None, text: str) -> str:
    """Return the next line with this text."""
    assert stream is not None
    async for line in stream:
        if text in line.decode():
            return line.decode().strip()
    raise AssertionError(f"no line with {text}")


@pytest.mark.long
async def test_a_run_stays_on_its_page_until_ctrl_c() -> None:
    diamond = ROOT / "examples" / "diamond.yaml"
    arguments = ("run", "--ui", "--no-browser", "--speed", "100", diamond)
    async with started(*arguments) as process:
        link = await line_with(process.stderr, "page: ")
        await line_with(process.stdout, "STEP")  # the table of the end
        text = await read_page(link.removeprefix("page: "))
        code, _, errors = await interrupt(process)
    assert "Succeed" in text and "row:default/test" in text
    assert (code, errors) == (0, "")


@pytest.mark.long
async def test_a_run_with_a_page_waits_for_an_approval(tmp_path: Path) -> None:
    """Without a page nobody could give it, and the command ends."""
    file = tmp_path / "flow.yaml"
    file.write_text(json.dumps(flow("f", {"ask": ""})).replace('"name": "ask"', ASK))
    async with started("run", "--ui", "--no-browser", file) as process:
        await line_with(process.stdout, "WaitingForApproval")
        code, out, _ = await interrupt(process)
    assert code == 130
    assert "ask" in out


@pytest.mark.long
async def test_a_sandbox_has_a_page(tmp_path: Path) -> None:
    arguments = ("sandbox", "--ui", "--no-browser", "--kubeconfig", tmp_path / "kubeconfig")
    async with started(*arguments) as process:
        link = await line_with(process.stderr, "page: ")
        await line_with(process.stdout, "ready")
        text = await read_page(link.removeprefix("page: "))
        code, _, _ = await interrupt(process)
    assert "No flows in any namespace yet" in text
    assert code == 0


def test_a_page_that_is_not_shown_has_no_browser() -> None:
    answer = jobflow("run", "--no-browser", "flow.yaml")
    assert (answer.code, "--no-browser needs --ui" in answer.err) == (2, True)


async def test_a_port_in_use_is_an_error_with_a_way_out() -> None:
    async with cluster() as world, served_page(world.client) as served:
        with pytest.raises(PortInUse, match="choose another port by --port"):
            async with served_page(world.client, port=served.port):
                pass


def test_no_kubeconfig_is_an_error(tmp_path: Path) -> None:
    answer = jobflow("ui", "--no-browser", "--kubeconfig", tmp_path / "none")
    assert answer.code == 2
    assert answer.err.startswith("jobflow: error: ")


@pytest.mark.skipif(sys.platform != "linux", reason="others always have a window")
def test_no_browser_is_opened_without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert not has_browser()
    monkeypatch.setenv("DISPLAY", ":0")
    assert has_browser()
