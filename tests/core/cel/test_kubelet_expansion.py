"""What references insert arrives in a container as it is, although the kubelet expands the text."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobflow.core.cel.references import OF_JOB_SPEC, replace_references
from jobflow.sandbox.nodes.environment import expand
from support.laws.effort_of_laws import tries

VARIABLES = {"A": "secret", "": "empty", "A$": "odd"}
PLAIN = "\0"
"""In place of a `$` that the kubelet does not read."""


def argument(text: str, values: dict[str, Any]) -> str:
    """Return an argument of a container with these params."""
    spec = {"tasks": [{"template": {"spec": {"containers": [{"args": [text]}]}}}]}
    made = replace_references(spec, lambda found: values[found.keys[0]], expanded=OF_JOB_SPEC)
    [word] = made["tasks"][0]["template"]["spec"]["containers"][0]["args"]
    assert isinstance(word, str)
    return word


@pytest.mark.parametrize(
    ("text", "made", "arrived"),
    [
        ("$(params.x)", "pa$$$$w$$(A)", "pa$$w$(A)"),
        ("--x=$(params.x)!", "--x=pa$$$$w$$(A)!", "--x=pa$$w$(A)!"),
        ("$(params.x) $$ $(A)", "pa$$$$w$$(A) $$ $(A)", "pa$$w$(A) $ secret"),
        ("$(params.dollar)$(params.name)", "$$(A)", "$(A)"),
        ("$(params.dollar)(A)", "$$(A)", "$(A)"),
        ("$(params.map)", '{"k":"$$(A)"}', '{"k":"$(A)"}'),
        ("$$(A) $$$(A) $(params.name)", "$(A) $$(A) (A)", "secret $(A) (A)"),
        ("$(date -d $(params.x))", "$(date -d pa$$w$(A))", "$(date -d pa$$w$(A))"),
        ("$(ls $(params.x)) $(A)", "$(ls pa$$w$(A)) $(A)", "$(ls pa$$w$(A)) secret"),
        ("$(ls $(params.dollar)", "$(ls $$", "$(ls $"),
    ],
)
def test_inserted_text_arrives_as_it_is(text: str, made: str, arrived: str) -> None:
    values = {"x": "pa$$w$(A)", "dollar": "$", "name": "(A)", "map": {"k": "$(A)"}}
    word = argument(text, values)
    assert word == made
    assert expand(word, VARIABLES) == arrived


TEXTS = st.text("$()A ", max_size=8)


@tries(300)
@given(st.lists(TEXTS | st.integers(0, 2)), st.lists(TEXTS, min_size=3, max_size=3))
@example(["$$", 0], ["(A)", "", ""])
def test_the_kubelet_reads_no_dollar_of_a_value(parts: list[str | int], values: list[str]) -> None:
    names = {str(i): value for i, value in enumerate(values)}
    text = "".join(each if isinstance(each, str) else f"$(params.{each})" for each in parts)
    unread = {name: value.replace("$", PLAIN) for name, value in names.items()}
    expected = expand(argument(text, unread), VARIABLES).replace(PLAIN, "$")
    assert expand(argument(text, names), VARIABLES) == expected


def test_many_brackets_without_an_end_are_read_once() -> None:
    assert argument("$(" * 50_000 + "$(params.x)", {"x": "$"}) == "$(" * 50_000 + "$$"
