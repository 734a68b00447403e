"""Label and field selectors, parsed once per request."""

import re
from collections.abc import Mapping
from typing import Any

from jobflow.api.label_selector import Requirement, holds, parse_label_selector, split_terms
from jobflow.sandbox.apiserver.kinds import Kind, value_at
from jobflow.sandbox.apiserver.requests.failures import bad_request
from jobflow.sandbox.apiserver.requests.http import Request
from jobflow.sandbox.apiserver.storage import Stored

_FIELD = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*(\S*)\s*")


class Selector:
    """A predicate on stored objects."""

    def __init__(self, kind: Kind, labels: list[Requirement], fields: list[Requirement]) -> None:
        self.everything = not labels and not fields
        self._kind, self._labels, self._fields = kind, labels, fields

    def __call__(self, stored: Stored) -> bool:
        if not all(holds(stored.labels, *each) for each in self._labels):
            return False
        # Most requests select by labels only, and paths cost time.
        if not self._fields:
            return True
        names = {"metadata.namespace": stored.key[0], "metadata.name": stored.key[1]}
        paths = self._kind.selectable.items()
        fields = names | {name: str(value_at(stored.obj, path) or "") for name, path in paths}
        return all(holds(fields, *each) for each in self._fields)


def selector(kind: Kind, request: Request, name: str = "") -> Selector:
    """Return the selector of a request, and of a name. Raises RequestFailure, 400."""
    fields: list[Requirement] = []
    text = request.query.get("fieldSelector", "")
    for term in split_terms(text):
        found = _FIELD.fullmatch(term)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        if found[1] not in {"metadata.name", "metadata.namespace", *kind.selectable}:
            raise bad_request(f"field label not supported: {found[1]}")
        fields.append((found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)))
    if name:
        fields.append(("metadata.name", "In", (name,)))
    try:
        labels = parse_label_selector(request.query.get("labelSelector", ""))
    except ValueError as error:
        raise bad_request(str(error)) from None
    return Selector(kind, labels, fields)


def matches(wanted: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return whether labels match a LabelSelector object; an empty selector matches."""
    wanted = wanted or {}
    equal = wanted.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in equal.items()) and all(
        holds(labels, each["key"], each["operator"], each.get("values") or ())
        for each in wanted.get("matchExpressions") or ()
    )
