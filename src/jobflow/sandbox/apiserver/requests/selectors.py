"""Label and field selectors, parsed once per request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jobflow.sandbox.apiserver.kinds import Kind
from jobflow.sandbox.apiserver.requests.failures import bad_request
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.storage import Stored

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

_SET = re.compile(r"^\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*$")
_LABEL = re.compile(r"^\s*([^=!\s]+)\s*(==|!=|=)\s*([-A-Za-z0-9_.]*)\s*$")
_FIELD = re.compile(r"^\s*([^=!\s]+)\s*(==|!=|=)\s*(\S*)\s*$")
_ORDER = re.compile(r"^\s*([^=!<>\s]+)\s*([<>])\s*(-?[0-9]+)\s*$")
_HERE = re.compile(r"^\s*(!?)\s*([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)\s*$")


class Selector:
    """A predicate on stored objects."""

    def __init__(self, tests: list[Callable[[Stored], bool]]) -> None:
        self._tests = tests

    @property
    def everything(self) -> bool:
        """Whether every object matches."""
        return not self._tests

    def __call__(self, stored: Stored) -> bool:
        return all(test(stored) for test in self._tests)


def selector(kind: Kind, request: Request, name: str = "") -> Selector:
    """Return the selector of a request, and of a name. Raises RequestFailure, 400."""
    terms = _field_terms(kind, request.query.get("fieldSelector", ""))
    if name:
        terms.append(("metadata.name", True, name))
    tests = [_on_labels(wanted) for wanted in label_tests(request.query.get("labelSelector", ""))]
    return Selector(tests + [_on_field(kind, *term) for term in terms])


def label_tests(text: str) -> list[Test]:
    """Parse a label selector into tests that must all pass. Raises RequestFailure, 400."""
    if re.search(r",\s*(,|$)|^\s*,", text):
        raise bad_request("found ',', expected: identifier after ','")
    return [_label_test(term, text) for term in _split(text)]


def matches(selector: Mapping[str, Any] | None, labels: Labels) -> bool:
    """Return whether labels match a LabelSelector object; an empty selector matches."""
    wanted = (selector or {}).get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression(e, labels) for e in (selector or {}).get("matchExpressions") or ())


def _expression(expression: Mapping[str, Any], labels: Labels) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
    return key not in labels


def _split(text: str) -> list[str]:
    return [term for term in re.split(r",(?![^()]*\))", text) if term.strip()]


def _label_test(term: str, text: str) -> Test:
    if found := _SET.match(term):
        key, operator, listed = found.groups()
        values = frozenset(value.strip() for value in listed.split(","))
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _LABEL.match(term):
        key, operator, value = found.groups()
        if operator == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _ORDER.match(term):
        key, operator, value = found.groups()
        return lambda labels: _ordered(labels.get(key, ""), operator, int(value))
    if found := _HERE.match(term):
        absent, key = found.groups()
        return (lambda labels: key not in labels) if absent else (lambda labels: key in labels)
    raise bad_request(f'unable to parse requirement: cannot read "{term}" of "{text}"')


def _ordered(label: str, operator: str, limit: int) -> bool:
    try:
        number = int(label)
    except ValueError:
        return False
    return number > limit if operator == ">" else number < limit


def _on_labels(test: Test) -> Callable[[Stored], bool]:
    return lambda stored: test(stored.labels)


def _field_terms(kind: Kind, text: str) -> list[tuple[str, bool, str]]:
    terms = []
    for term in _split(text):
        found = _FIELD.match(term)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        name, operator, value = found.groups()
        if name not in ("metadata.name", "metadata.namespace") and name not in kind.selectable:
            raise bad_request(f"field label not supported: {name}")
        terms.append((name, operator != "!=", value))
    return terms


def _on_field(kind: Kind, name: str, equal: bool, value: str) -> Callable[[Stored], bool]:
    if name == "metadata.name":
        return lambda stored: (stored.key[1] == value) is equal
    if name == "metadata.namespace":
        return lambda stored: (stored.key[0] == value) is equal
    return lambda stored: (kind.fields(stored.obj).get(name, "") == value) is equal
