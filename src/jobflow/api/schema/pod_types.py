"""The fields of a pod template and of a volume claim, by type, as Kubernetes has them.

tools/pod_types.py (`make manifests`) writes `pod_types.txt`, which has a paragraph for each type.
A field is a name and a type: `[T]` for a list, `{T}` for a map of T, or the words that it takes.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path


@cache
def pod_types() -> Mapping[str, Mapping[str, str]]:
    """Return the types of the fields by type and name."""
    text = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    types = {}
    for paragraph in text.replace("\n  ", " ").splitlines():
        name, _, fields = paragraph.partition(": ")
        types[name] = dict(field.split(" ", 1) for field in fields.split(", "))
    return types
