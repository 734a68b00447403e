"""Modules that short commands import. Their time is the time of their imports, and a count does not
depend on the machine."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from jobflow.api.resources import JOBFLOWS
from support.sandbox.running_controller import Cluster, flow, write_status

MODULE = re.compile(r"^import time:.*\| *(\S+)$", re.MULTILINE)
HEAVY = {
    "aiohttp",
    "fastapi",
    "httpx",
    "jsonschema_rs",
    "pydantic",
    "structlog",
    "urllib3",
    "uvloop",
}
TAB = {"_JOBFLOW_COMPLETE": "complete_bash", "COMP_WORDS": "jobflow get ", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("arguments", "environment", "most"),
    [
        (("get", "f"), {}, 228),
        (("why", "f"), {}, 258),
        (("retry", "f"), {}, 178),
        (("logs", "f"), {}, 202),
        (("wait", "f"), {}, 205),
        ((), TAB, 146),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
async def test_a_short_command_imports_few_modules(
    world: Cluster,
    kubeconfig: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    most: int,
) -> None:
    await world.apply(flow("f", {"a": ""}))
    await write_status(world.client, JOBFLOWS, "f", {"state": {"phase": "Succeed"}})
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "importtime", "-m", "jobflow.cli.main", *arguments),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environment | {"KUBECONFIG": str(kubeconfig)},
    )
    _, err = await process.communicate()
    modules = MODULE.findall(err.decode())
    packages = {module.partition(".")[0] for module in modules}
    others = [m for m in modules if m.partition(".")[0] not in sys.stdlib_module_names]
    assert (packages & HEAVY, len(others) <= most) == (set(), True), len(others)
