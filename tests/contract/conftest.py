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
    """A server, with a namespace of the test's own."""
    if request.param == "sandbox":
        opened = sandbox_server(namespace_of_test, tmp_path)
    else:
        opened = real_server(request.getfixturevalue("real"), namespace_of_test, tmp_path)
    async with opened as server:
        yield server
