"""Objects as YAML that kubectl reads as the same values."""

import io
import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

import yaml

from jobflow.client.manifests.yaml_scalars import NotJSONError, plain_value

_COMPACT = 80
"""Most characters of a list on one line."""
JSONObject = Mapping[str, Any]


def write_yaml(documents: Iterable[JSONObject], stream: TextIO, *, compact: bool = False) -> None:
    """Write documents that kubectl reads as these values; `compact`: short lists on one line."""
    yaml.dump_all(
        documents,
        stream,
        Dumper=_CompactDumper if compact else _Dumper,
        sort_keys=False,
        allow_unicode=True,
        explicit_start=False,
        width=sys.maxsize,
    )


def yaml_text(*documents: JSONObject, compact: bool = False) -> str:
    text = io.StringIO()
    write_yaml(documents, text, compact=compact)
    return text.getvalue()


class _Dumper(yaml.SafeDumper):
    """Quotes each text that kubectl would read as another value, writes texts of several lines as
    blocks, and repeats values instead of writing aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list below their key."""
        super().increase_indent(flow, False)


class _CompactDumper(_Dumper):
    """Writes a short list of texts of one line, numbers and booleans in brackets."""

    def represent_list(self, data: Any) -> yaml.SequenceNode:
        is_short = (
            not any(
                isinstance(each, dict | list) or (isinstance(each, str) and "\n" in each)
                for each in data
            )
            and sum(len(str(each)) + 2 for each in data) <= _COMPACT
        )
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=is_short)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    try:
        # as kubectl reads it, not as PyYAML does: `012` and `on` differ
        style = None if isinstance(plain_value(text), str) else "'"
    except NotJSONError:
        style = "'"
    if "\n" in text:
        style = "|"  # a block shows scripts as they are
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_CompactDumper.add_representer(list, _CompactDumper.represent_list)
_Dumper.add_representer(str, _text)
_CompactDumper.add_representer(str, _text)
