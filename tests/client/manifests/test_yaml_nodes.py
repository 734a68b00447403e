"""Valid and invalid YAML: values, errors with places, and limits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.client.manifests.yaml_errors import NotYAMLError
from jobflow.client.manifests.yaml_nodes import (
    MAX_DEPTH,
    MAX_DOCUMENTS,
    MAX_NODES,
    MappingNode,
    data_of,
    documents,
)


def read(text: str) -> list[Any]:
    """Return each document as JSON, or its error as `line:column message`."""
    return [
        f"{each.span.line}:{each.span.column} {each.message}"
        if isinstance(each, NotYAMLError)
        else data_of(each)
        for each in documents(text)
    ]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)

INVALID = [
    ("a:\n\tb: c", "2:1 not YAML: a tab in the indentation; YAML indents with spaces only"),
    (
        "a: b: c",
        "1:5 not YAML: a second `key: value` where one value ends; put a text with `: ` in "
        "quotes, or check the indentation",
    ),
    (
        "a: 1\n  b: 2",
        "2:4 not YAML: a second `key: value` where one value ends; put a text with `: ` in "
        "quotes, or check the indentation",
    ),
    ('a: "b\nc: d', "1:4 not YAML: the quote opened at line 1, column 4 is never closed"),
    (
        "a: [1,",
        "1:6 not YAML: a value is expected here; is a [ or { not closed?",
    ),
    (
        "a: [b, c\nd: e",
        "2:2 not YAML: the list opened at line 1, column 4 needs a comma or a closing ] here",
    ),
    (
        "a: {b: c\nd: e",
        "2:2 not YAML: the mapping opened at line 1, column 4 needs a comma or a closing } here",
    ),
    ("a: @b", "1:4 not YAML: no value begins with @; put it in quotes"),
    ("a: `b`", "1:4 not YAML: no value begins with `; put it in quotes"),
    ('a: "b" c', "1:8 not YAML: text after a quoted value; quote all of it"),
    (
        "a: b\n- c",
        "2:1 not YAML: this does not continue the mapping begun at line 1, column 1; "
        "check the indentation",
    ),
    (
        "- a\nb: c",
        "2:1 not YAML: this does not continue the list begun at line 1, column 1; "
        "check the indentation",
    ),
    ("a: >-b\n", "1:6 not YAML: after | or > the text begins on the next line"),
    (
        '"\\q"',
        "1:2 not YAML: \\q is no escape inside double quotes; use single quotes, or \\\\ for a "
        "backslash",
    ),
    (
        "name: {{ .Values.name }}",
        "1:8 a key must be text; render {{ … }} of a Helm or Jinja template first",
    ),
    ("[a]: b", "1:1 a key must be text"),
    ("~: b", "1:1 a key must be text"),
    ("a: *b", "1:4 *b has no anchor above it"),
    ("a: &a [*a]", "1:8 the value of anchor &a contains itself"),
    ("a: .inf", "1:4 .inf is a number that JSON does not have"),
    ("<<: 5", "1:5 <<: can only merge a mapping or a list of mappings"),
    ("a: !!binary äöü", "1:4 !!binary must contain base64 of UTF-8 text"),
    ("a: b\0c", "1:5 contains a NUL character; save the file as UTF-8 text"),
    ("a: \x1b[31m", "1:4 control character U+001B is not allowed in YAML"),
    ("a: 1\nb: \ud800", "2:4 control character U+D800 is not allowed in YAML"),
    (BOMB, f"6:32 more than {MAX_NODES:,} values, with those of aliases"),
    ("[" * 100_000, f"1:{MAX_DEPTH + 1} nested more than {MAX_DEPTH} deep"),
    ("- " * 100_000, f"1:{2 * MAX_DEPTH + 1} nested more than {MAX_DEPTH} deep"),
    ("{a: " * 100_000, f"1:{4 * MAX_DEPTH + 1} nested more than {MAX_DEPTH} deep"),
]


@pytest.mark.parametrize(("text", "error"), INVALID)
def test_invalid_yaml_has_one_error_with_its_place(text: str, error: str) -> None:
    assert read(text) == [error]


def test_deeply_nested_aliases_are_too_deep() -> None:
    levels = "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 2 * MAX_DEPTH))
    (error,) = read(f"a0: &a0 [x]\n{levels}")
    assert error.endswith(f"nested more than {MAX_DEPTH} deep")


def test_nothing_is_read_after_too_many_values() -> None:
    count, remainder = divmod(
        MAX_NODES, 1 + 50 * 51
    )  # a document is a list of 50 lists of 50 values
    assert remainder == 4  # the outer list, the first inner one and two of its values
    document = f"- &a [{'x, ' * 50}]\n" + "- *a\n" * 49 + "---\n"
    *values, last = read(document * (count + 10))
    assert len(values) == count
    assert last == f"{51 * count + 1}:13 more than {MAX_NODES:,} values, with those of aliases"


def test_an_error_in_one_document_does_not_hide_the_others() -> None:
    found = read("a: 1\n---\nb: [\n---\nc: @\n---\nd: 1\n")
    assert found == [
        {"a": 1},
        "3:4 not YAML: a value is expected here; is a [ or { not closed?",
        "5:4 not YAML: no value begins with @; put it in quotes",
        {"d": 1},
    ]


def test_json_objects_need_a_separator_between_them() -> None:
    error = (
        "1:9 not YAML: more text after the end of a document; put --- on a line between documents"
    )
    assert read('{"a": 1}{"b": 2}') == [{"a": 1}, error]


VALID: list[tuple[str, list[Any]]] = [
    ("", []),
    ("# only a comment\n", []),
    ("---\n---\na: 1\n---\n", [{"a": 1}]),
    ("%YAML 1.1\n---\na: 1\n", [{"a": 1}]),
    ("a: 1\n...\n---\nb: 2\n", [{"a": 1}, {"b": 2}]),
    ("a: |\n  ---\n  b\n", [{"a": "---\nb\n"}]),
    ("1: a\n1.5: b\nyes: c\n", [{"1": "a", "1.5": "b", "true": "c"}]),
    ('"1": a\n', [{"1": "a"}]),
    ("a: 'yes'\nb: yes\n", [{"a": "yes", "b": True}]),
    ("a: !!str 5\nb: ! 5\nc: !!int '5'\nd: !x 5", [{"a": "5", "b": "5", "c": 5, "d": "5"}]),
    ("a: !!binary aGk=", [{"a": "hi"}]),
    ("a: &x {b: 1}\nc: *x\n", [{"a": {"b": 1}, "c": {"b": 1}}]),
    ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}\n", [{"a": {"b": 1, "c": 2}, "d": {"c": 3, "b": 1}}]),
    ("a: {<<: [{b: 1}, {b: 2, c: 3}]}", [{"a": {"b": 1, "c": 3}}]),
    ('"<<": 1', [{"<<": 1}]),
    ('{"a":\n\t["b", 1, null, true]}', [{"a": ["b", 1, None, True]}]),
    ('{"a": "\\ud83d\\ude00 \\u00e4"}', [{"a": "😀 ä"}]),
    ('{"a": "\\\\ud83d"}', [{"a": "\\ud83d"}]),
    ("a: ‘b’", [{"a": "‘b’"}]),
    ("[1, 2]", [[1, 2]]),
    ("text", ["text"]),
    ("!!python/object/apply:os.system [x]", [["x"]]),
]


@pytest.mark.parametrize(("text", "expected"), VALID)
def test_yaml_is_read_as_in_kubectl(text: str, expected: list[Any]) -> None:
    assert read(text) == expected


def test_a_repeated_key_has_both_places() -> None:
    (node,) = documents("a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")
    assert isinstance(node, MappingNode)
    (duplicate,) = node.duplicates
    assert (duplicate.key, duplicate.first.line, duplicate.again.line) == ("a", 1, 5)
    assert data_of(node) == {"a": 3, "b": {"c": 2}}


def test_a_merged_key_is_not_a_duplicate() -> None:
    (node,) = documents("b: &b {a: 1}\nc: {<<: *b, a: 2}\n")
    assert isinstance(node, MappingNode)
    inner = node.entries["c"].value
    assert isinstance(inner, MappingNode)
    assert inner.duplicates == []


@given(st.text(alphabet=st.sampled_from("ab:-[]{},&*!<|>'\"#%@`?~ \t\n\r\u2028.0é“\0")))
def test_no_text_raises_an_exception(text: str) -> None:
    read(text)


def test_documents_are_counted() -> None:
    text = "---\na: 1\n" * MAX_DOCUMENTS
    assert read(text) == [{"a": 1}] * MAX_DOCUMENTS
    last = f"{2 * MAX_DOCUMENTS + 1}:1 more than 10,000 documents; split the file"
    assert read(f"{text}---\na: 1")[-1] == last
