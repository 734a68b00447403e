"""The names JobFlow gives: vcjobs and label values. It never parses one; labels say what is what.

Admission refuses flows whose planned names do not fit, so shortening is only for what nobody could
plan: unforeseen attempts, and label values, which Kubernetes caps and annotations hold in full.
"""

from __future__ import annotations

import hashlib
import re

MAX_NAME = 63
"""Longest name of a vcjob or a pod, and longest label value: a vcjob's name is a label value on
its pods, and a DNS label (RFC 1123) has at most this many characters."""

_HASH = 8
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
_NOT_IN_A_LABEL = re.compile(r"[^-A-Za-z0-9_.]+")


def format_job_name(flow: str, step: str, *, index: int | None = None) -> str:
    """The first vcjob of a step, `<flow>-<step>`, or of one of its runs, `<flow>-<step>-<index>`.

    It is never shortened, whatever its length.
    """
    return f"{flow}-{step}" if index is None else f"{flow}-{step}-{index}"


def format_attempt_name(first: str, again: int, *, room: int = 0) -> str:
    """A later vcjob in the place of the one named `first`: `<first>-r<again>`; 0 is `first` itself.

    One that would be longer than MAX_NAME less `room` becomes a prefix, `-`, 8 hex digits of the
    whole first name, `-r<again>`. `room` keeps characters free for what Volcano appends in pod
    names (`core.pod_names`).
    """
    if again == 0:
        return first
    tail = f"-r{again}"
    if len(first) + len(tail) + room <= MAX_NAME:
        return first + tail
    return _shortened(first, max(MAX_NAME - room - len(tail), _HASH + 2)) + tail


def format_latest_name(first: str, attempts: int) -> str:
    """The vcjob of the latest of so many attempts, where no name was taken and none too long."""
    return format_attempt_name(first, max(attempts - 1, 0))


def to_label_value(text: str) -> str:
    """`text` where it is a label value, else a value made of its start and a hash of the whole.

    The same text always gives the same value, and two texts the same value only if their hashes
    collide. What a label value may not hold is replaced by `-`.
    """
    if not text or (len(text) <= MAX_NAME and _LABEL_VALUE.fullmatch(text)):
        return text
    return _shortened(text, MAX_NAME)


def qualify_name(namespace: str, name: str) -> str:
    """`<namespace>.<name>`, as Volcano refers to a flow or a template in labels."""
    return f"{namespace}.{name}"


def _shortened(text: str, length: int) -> str:
    """At most `length` characters (10 or more): a prefix, a dash and a hash of the whole text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    prefix = _NOT_IN_A_LABEL.sub("-", text)[: length - _HASH - 1].strip("-_.")
    return f"{prefix}-{digest}" if prefix else digest
