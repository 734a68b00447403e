"""Syntax of Kubernetes object names, labels and annotations, and the faults of other texts.

Source: k8s.io/apimachinery/pkg/util/validation (IsDNS1123Subdomain, IsQualifiedName,
IsValidLabelValue) and pkg/api/validation (ValidateAnnotations).
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping

from jobflow.api.resources import ObjectMeta
from jobflow.core.names import MAX_NAME
from jobflow.core.suggest import list_supported
from jobflow.core.text import join_names
from jobflow.core.violations import Reason, Violation, join_path

MAX_OBJECT_NAME = 253
"""Characters of a name, a DNS-1123 subdomain."""
MAX_ANNOTATIONS = 256 * 1024
"""Bytes of the annotations of an object, keys included."""
DNS_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
"""Name of a task or container (DNS-1123 label)."""
_SUBDOMAIN = r"[a-z0-9]++(?:-++[a-z0-9]++|\.[a-z0-9]++)*+"
_NAME = re.compile(_SUBDOMAIN)
_LINES = re.compile(rf"(?:{_SUBDOMAIN}\n)*+")
_LABEL = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")
"""A value of a label, or the part of a key after the slash."""
_NOT_ALLOWED = re.compile(r"[^-.a-z0-9]")
_TO_DASHES = re.compile(r"[^a-z0-9.]+")


def all_names(texts: Collection[str]) -> bool:
    if not texts:
        return True
    # one match over all names is much faster than one for each
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
    if _NAME.fullmatch(text):
        return
    detail = 'a Kubernetes name begins and ends with a letter or digit, also around each "."'
    if invalid := list(dict.fromkeys(_NOT_ALLOWED.findall(text))):
        listed = join_names([_character(one) for one in invalid], shown=4)
        detail = (
            f'a Kubernetes name cannot hold {listed}: use lower-case letters, digits, "-" and "."'
        )
    # a reference or a template of Helm was not meant as a name
    if "$(" not in text and "{{" not in text and (guess := to_valid_name(text)):
        detail += f'; "{guess}" would do'
    yield Violation(path, Reason.INVALID, text, detail)


def object_name_violations(metadata: ObjectMeta) -> Iterator[Violation]:
    """Yield the faults of the name. An API server checks it before it calls a webhook."""
    if metadata.name:
        yield from name_violations("metadata.name", metadata.name)
    elif not metadata.generate_name:
        yield Violation("metadata.name", Reason.REQUIRED, "", "name or generateName is required")


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


def word_violations(path: str, word: str | None, words: Iterable[str]) -> Iterator[Violation]:
    """Yield the fault of a word that is set but is not one of these."""
    if word is not None and word not in [*words]:
        yield Violation(path, Reason.NOT_SUPPORTED, word, list_supported(word, words))


def metadata_violations(
    path: str, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None, owner: str
) -> Iterator[Violation]:
    """Yield the faults of labels and annotations. `owner`: the object that gets them."""
    for key, value in (labels or {}).items():
        at = join_path(f"{path}.labels", key)
        yield from _key_violations(at, key)
        if len(value) > MAX_NAME:
            detail = f"{len(value)} characters, but a label has at most {MAX_NAME}"
            yield Violation(at, Reason.TOO_LONG, value, detail)
        elif value and not _LABEL.fullmatch(value):
            detail = (
                'a label holds letters, digits, "-", "_" and ".", and begins and ends with a '
                "letter or digit; use an annotation for other text"
            )
            yield Violation(at, Reason.INVALID, value, detail)
    path, size = f"{path}.annotations", 0
    for key, value in (annotations or {}).items():
        yield from _key_violations(join_path(path, key), key)
        size += len(key.encode(errors="replace")) + len(value.encode(errors="replace"))
    if size > MAX_ANNOTATIONS:
        detail = f"{size} bytes, but the annotations of {owner} have at most {MAX_ANNOTATIONS}"
        yield Violation(path, Reason.TOO_LONG, None, detail)


def _key_violations(path: str, key: str) -> Iterator[Violation]:
    prefix, slash, name = key.rpartition("/")
    if not _LABEL.fullmatch(name) or len(name) > MAX_NAME:
        detail = (
            f'a key is "name" or "domain/name": the name has at most {MAX_NAME} letters, digits, '
            '"-", "_" and ".", and begins and ends with a letter or digit'
        )
        yield Violation(path, Reason.INVALID, key, detail)
    elif slash and not all_names([prefix]):
        detail = (
            "the part before the slash of a key is a domain such as example.org, of at most "
            f"{MAX_OBJECT_NAME} characters"
        )
        yield Violation(path, Reason.INVALID, key, detail)
