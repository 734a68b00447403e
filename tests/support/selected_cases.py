"""The cases of a parametrized test that a run has selected."""

from typing import Any

import pytest


def selected_cases(request: pytest.FixtureRequest, parameter: str) -> list[Any]:
    """Return the values of a parameter in the selected tests of the module that use the fixture of
    this request. So a fixture of the module prepares only what is needed."""
    return [
        item.callspec.params[parameter]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.module is request.module
        and request.fixturename in item.fixturenames
    ]
