"""Formats of what commands print: the values of their `-o`, and JSON."""

from enum import StrEnum


class Output(StrEnum):
    """Text, or JSON for programs."""

    TEXT = "text"
    JSON = "json"


class ObjectOutput(StrEnum):
    """Objects that a command sent or made."""

    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class GetOutput(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    TREE = "tree"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class GraphOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"


class DrawingOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    SVG = "svg"


class PlanOutput(StrEnum):
    TABLE = "table"
    GANTT = "gantt"
    JSON = "json"
    SVG = "svg"


class RunOutput(StrEnum):
    TREE = "tree"
    JSON = "json"


class ConvertOutput(StrEnum):
    YAML = "yaml"
    PYTHON = "python"


def print_json(value: object) -> None:
    """Print a value as JSON for programs and people."""
    import json  # help prints none

    print(json.dumps(value, indent=2, ensure_ascii=False))
