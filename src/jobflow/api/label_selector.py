"""Label selectors as text, such as `team=vision,stage!=test` (k8s.io/apimachinery, pkg/labels)."""

import re
from collections.abc import Collection, Mapping

Requirement = tuple[str, str, Collection[str]]
"""Key, operator of a LabelSelector (or `<`, `>`), values."""

_SET = re.compile(r"\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_EQUAL = re.compile(r"\s*([^=!\s]+)\s*(==|!=|=)\s*([-A-Za-z0-9_.]*)\s*")
_ORDER = re.compile(r"\s*([^=!<>\s]+)\s*([<>])\s*(-?[0-9]+)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?)\s*")


def split_terms(text: str) -> list[str]:
    """Return the terms between commas, without empty ones."""
    return [term for term in re.split(r",(?![^()]*\))", text) if term.strip()]


def parse_label_selector(text: str) -> list[Requirement]:
    """Return the requirements, all of which have to hold. Raises ValueError, as a server would."""
    if re.search(r",\s*(,|$)|^\s*,", text):
        raise ValueError("found ',', expected: identifier after ','")
    return [_requirement(term, text) for term in split_terms(text)]


def _requirement(term: str, text: str) -> Requirement:
    if found := _SET.fullmatch(term):
        values = [value.strip() for value in found[3].split(",")]
        return found[1], "In" if found[2] == "in" else "NotIn", values
    if found := _EQUAL.fullmatch(term):
        return found[1], "NotIn" if found[2] == "!=" else "In", (found[3],)
    if found := _ORDER.fullmatch(term):
        return found[1], found[2], (found[3],)
    if found := _EXISTS.fullmatch(term):
        return found[2], "DoesNotExist" if found[1] else "Exists", ()
    raise ValueError(f'unable to parse requirement: cannot read "{term}" of "{text}"')


def holds(labels: Mapping[str, str], key: str, operator: str, values: Collection[str]) -> bool:
    """Return whether labels meet a requirement."""
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
