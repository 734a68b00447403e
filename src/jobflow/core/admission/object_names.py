"""Syntax of Kubernetes object names, and the faults of other texts."""

import re
import unicodedata
from collections.abc import Collection, Iterator

from jobflow.api.meta import ObjectMeta
from jobflow.core.text import join_names
from jobflow.core.violations import Reason, Violation

MAX_OBJECT_NAME = 253
"""Characters of a name, a DNS-1123 subdomain (k8s.io/apimachinery validation)."""

DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""Name of a task or container (DNS-1123 label)."""
_SUBDOMAIN = r"[a-z0-9]++(?:-++[a-z0-9]++|\.[a-z0-9]++)*+"
_NAME = re.compile(_SUBDOMAIN)
_LINES = re.compile(rf"(?:{_SUBDOMAIN}\n)*+")
_NOT_ALLOWED = re.compile(r"[^-.a-z0-9]")
_TO_DASHES = re.compile(r"[^a-z0-9.]+")


def all_names(texts: Collection[str]) -> bool:
    """Whether each text is a valid object name."""
    if not texts:
        return True
    lines = "\n".join(texts) + "\n"
    return (
        lines.count("\n") == len(texts)
        and _LINES.fullmatch(lines) is not None
        and max(map(len, texts)) <= MAX_OBJECT_NAME
    )


def name_violations(path: str, text: str) -> Iterator[Violation]:
    """Yield the faults of `text`, which is not empty, as an object name."""
    if len(text) > MAX_OBJECT_NAME:
        detail = f"{len(text)} characters, but a name has at most {MAX_OBJECT_NAME}; shorten it"
        yield Violation(path, Reason.TOO_LONG, text, detail)
    if not _NAME.fullmatch(text):
        yield Violation(path, Reason.INVALID, text, _fault(text))


def object_name_violations(metadata: ObjectMeta) -> Iterator[Violation]:
    """Yield the faults of the name. An API server checks it before it calls a webhook."""
    if metadata.name:
        if not all_names([metadata.name]):
            yield from name_violations("metadata.name", metadata.name)
    elif not metadata.generate_name:
        yield Violation("metadata.name", Reason.REQUIRED, "", "name or generateName is required")


def _fault(text: str) -> str:
    if invalid := list(dict.fromkeys(_NOT_ALLOWED.findall(text))):
        listed = join_names([_character(one) for one in invalid], shown=4)
        detail = (
            f'a Kubernetes name cannot hold {listed}: use lower-case letters, digits, "-" and "."'
        )
    else:
        detail = 'a Kubernetes name begins and ends with a letter or digit, also around each "."'
    guess = "" if "$(" in text or "{{" in text else to_valid_name(text)
    return f'{detail}; "{guess}" would do' if guess else detail


def _character(one: str) -> str:
    if one.isascii():
        return f'"{one}"' if one.isprintable() else f"U+{ord(one):04X}"
    name = unicodedata.name(one, "")
    shown = f'"{one}" ' if one.isprintable() else ""
    return f"{shown}(U+{ord(one):04X}{' ' + name if name else ''})"


def to_valid_name(text: str) -> str:
    """Return the object name that is most like `text`, or "" if none is."""
    ascii_form = unicodedata.normalize("NFKD", text.casefold()).encode("ascii", "ignore").decode()
    parts = (_TO_DASHES.sub("-", part).strip("-") for part in ascii_form.split("."))
    return ".".join(part for part in parts if part)[:MAX_OBJECT_NAME].strip("-.")
