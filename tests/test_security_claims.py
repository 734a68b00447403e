"""The tests that docs/security.md names for its claims exist."""

import re

import pytest

from support.paths import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_a_claim_names_a_test_that_exists(path: str, name: str) -> None:
    assert f"def {name or 'test_'}" in (ROOT / path).read_text(encoding="utf-8")
