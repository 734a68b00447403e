"""Names of vcjobs, and values of labels.

Admission refuses a flow whose planned names are too long, so only further attempts and label values
are shortened (annotations have the full text).
"""

import hashlib
import re

MAX_NAME = 63
"""Characters of a label value, and so of the names of vcjobs and pods: pods have the name of their
vcjob as a label, and a DNS label (RFC 1123) has the same limit."""

_RANDOM_SUFFIX = "x" * 5
"""Placeholder for the characters that an API server appends to `generateName`."""
_MAX_GENERATE_NAME = 58
"""Characters of `generateName` that an API server keeps (k8s.io/apiserver/pkg/storage/names)."""
_HASH = 8
_AGAIN = re.compile(r"-r([1-9][0-9]{0,8})$")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NOT_IN_A_LABEL = re.compile(r"[^-A-Za-z0-9_.]+")


def format_job_name(flow: str, step: str, *, index: int | None = None) -> str:
    """Return the name of the first vcjob of a step, `<flow>-<step>`, or of a run of it,
    `<flow>-<step>-<index>`. It is never shortened."""
    return f"{flow}-{step}" if index is None else f"{flow}-{step}-{index}"


def predict_generated_name(prefix: str) -> str:
    """Return a placeholder of the length of the name that an API server makes of `generateName`;
    "" if that is empty."""
    return prefix[:_MAX_GENERATE_NAME] + _RANDOM_SUFFIX if prefix else ""


def format_attempt_name(first: str, again: int, *, room: int = 0) -> str:
    """Return the name of a further vcjob after `first`: `<first>-r<again>`, or `first` for 0.

    If it has more than MAX_NAME - `room` characters, a prefix and a hash replace `first`. `room` is
    for the suffix of pod names (`pods/names.py`).
    """
    if again == 0:
        return first
    tail = f"-r{again}"
    if len(first) + len(tail) + room <= MAX_NAME:
        return first + tail
    return _shorten(first, max(MAX_NAME - room - len(tail), _HASH + 2)) + tail


def format_latest_name(first: str, attempts: int) -> str:
    """Return the name of the last of so many attempts, if no name was in use or too long."""
    return format_attempt_name(first, max(attempts - 1, 0))


def split_attempt_name(name: str) -> tuple[str, int]:
    """Return what `format_attempt_name` may have made this name of: the name of the first vcjob,
    or what replaces it, and the number of the repetition; 0 if the name has none."""
    found = _AGAIN.search(name)
    return (name, 0) if found is None else (name[: found.start()], int(found[1]))


def is_attempt_name(name: str, first: str) -> bool:
    """Whether `name` is the name of a further vcjob after `first`, or `first` itself."""
    if name == first:
        return True
    base, again = split_attempt_name(name)
    if not again or base == first:
        return again > 0
    prefix, _, digest = base.rpartition("-")
    return first.startswith(prefix) and digest == _digest(first)


def to_label_value(text: str) -> str:
    """Return `text` if it is a valid label value, else a valid one of its start and its hash."""
    if not text or (len(text) <= MAX_NAME and _LABEL_VALUE.fullmatch(text)):
        return text
    return _shorten(text, MAX_NAME)


def qualify_name(namespace: str, name: str) -> str:
    """Return `<namespace>.<name>`, which is how Volcano's labels name a flow or a template."""
    return f"{namespace}.{name}"


def _shorten(text: str, length: int) -> str:
    """Return a prefix, a dash and a hash of the text, at most `length` (10 or more) characters."""
    digest = _digest(text)
    prefix = _NOT_IN_A_LABEL.sub("-", text)[: length - _HASH - 1].strip("-_.")
    return f"{prefix}-{digest}" if prefix else digest


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
