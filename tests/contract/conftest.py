"""Two servers with one contract: the sandbox's API server and a real kube-apiserver."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from support.sandbox.servers import Server, real_server, sandbox_server


@pytest_asyncio.fixture(params=["sandbox", pytest.param("cluster", marks=pytest.mark.cluster)])
async def api(
    request: pytest.FixtureRequest, namespace_of_test: str, tmp_path: Path
) -> AsyncIterator[Server]:
    """A server, with a namespace for the test."""
    if request.param == "sandbox":
        context = sandbox_server(namespace_of_test, tmp_path)
    else:
        context = real_server(request.getfixturevalue("real"), namespace_of_test, tmp_path)
    async with context as server:
        yield server
