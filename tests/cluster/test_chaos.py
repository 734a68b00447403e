"""A minute of chaos; `make test-chaos` has ten, and other seeds."""

from pathlib import Path

import pytest

from chaos.run import chaos
from support.cluster.real_cluster import RealCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SEED = 7


async def test_no_invariant_is_violated_by_a_minute_of_chaos(
    real: RealCluster, tmp_path: Path
) -> None:
    assert await chaos(real, tmp_path, SEED, 60.0) == []
