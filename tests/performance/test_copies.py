"""The bench of many objects, with few."""

import pytest
from bench import copies

FLOWS = 3


@pytest.mark.long
def test_serve_becomes_ready_with_the_objects_of_the_list_server() -> None:
    figures = {figure.what: figure for figure in copies.measured(1, FLOWS)}
    objects = "3 flows, 30 vcjobs"
    assert figures.keys() == {
        f"{objects}: start to ready",
        f"{objects}: start to all planned once",
        f"{objects}: memory afterwards",
        f"{objects}: most memory on the way",
    }
    assert all(figure.median > 0 for figure in figures.values())
