"""Label and field selectors, parsed once per request."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from jobflow.sandbox.apiserver.kinds import Kind, value_at
from jobflow.sandbox.apiserver.requests.failures import bad_request
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.storage import Stored

Requirement = tuple[str, str, Collection[str]]
"""Key, operator of a LabelSelector (or `<`, `>`), values."""

_SET = re.compile(r"\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_LABEL = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*([-A-Za-z0-9_.]*)\s*")
_FIELD = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*(\S*)\s*")
_ORDER = re.compile(r"\s*([^=!<>\s]+)\s*([<>])\s*(-?[0-9]+)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)\s*")


class Selector:
    """A predicate on stored objects."""

    def __init__(self, kind: Kind, labels: list[Requirement], fields: list[Requirement]) -> None:
        self.everything = not labels and not fields
        self._kind, self._labels, self._fields = kind, labels, fields

    def __call__(self, stored: Stored) -> bool:
        if not all(_holds(stored.labels, *each) for each in self._labels):
            return False
        if not self._fields:
            return True
        names = {"metadata.namespace": stored.key[0], "metadata.name": stored.key[1]}
        paths = self._kind.selectable.items()
        fields = names | {name: str(value_at(stored.obj, path) or "") for name, path in paths}
        return all(_holds(fields, *each) for each in self._fields)


def selector(kind: Kind, request: Request, name: str = "") -> Selector:
    """Return the selector of a request, and of a name. Raises RequestFailure, 400."""
    fields = _field_requirements(kind, request.query.get("fieldSelector", ""))
    if name:
        fields.append(("metadata.name", "In", (name,)))
    text = request.query.get("labelSelector", "")
    if re.search(r",\s*(,|$)|^\s*,", text):
        raise bad_request("found ',', expected: identifier after ','")
    return Selector(kind, [_label_requirement(term, text) for term in _split(text)], fields)


def matches(wanted: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a LabelSelector object; an empty selector matches."""
    wanted = wanted or {}
    equal = wanted.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in equal.items()) and all(
        _holds(labels, each["key"], each["operator"], each.get("values") or ())
        for each in wanted.get("matchExpressions") or ()
    )


def _holds(labels: Mapping[str, str], key: str, operator: str, values: Collection[str]) -> bool:
    value = labels.get(key)
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    if value is None or not re.fullmatch(r"[-+]?[0-9]+", value):
        return False
    (limit,) = map(int, values)
    return int(value) > limit if operator == ">" else int(value) < limit


def _split(text: str) -> list[str]:
    return [term for term in re.split(r",(?![^()]*\))", text) if term.strip()]


def _label_requirement(term: str, text: str) -> Requirement:
    if found := _SET.fullmatch(term):
        values = [value.strip() for value in found[3].split(",")]
        return found[1], "In" if found[2] == "in" else "NotIn", values
    if found := _LABEL.fullmatch(term):
        return found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)
    if found := _ORDER.fullmatch(term):
        return found[1], found[2], (found[3],)
    if found := _EXISTS.fullmatch(term):
        return found[2], "DoesNotExist" if found[1] else "Exists", ()
    raise bad_request(f'unable to parse requirement: cannot read "{term}" of "{text}"')


def _field_requirements(kind: Kind, text: str) -> list[Requirement]:
    requirements: list[Requirement] = []
    for term in _split(text):
        found = _FIELD.fullmatch(term)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if found[1] not in {"metadata.name", "metadata.namespace", *kind.selectable}:
            raise bad_request(f"field label not supported: {found[1]}")
        requirements.append((found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
    return requirements
