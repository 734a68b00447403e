"""Formats of what commands print: the values of their `-o`, in lower case, and JSON."""

from enum import StrEnum

Output = StrEnum("Output", ["TEXT", "JSON"])
ObjectOutput = StrEnum("ObjectOutput", ["NAME", "JSON", "YAML"])
"""Objects that a command sent or made."""
GetOutput = StrEnum("GetOutput", ["TABLE", "WIDE", "TREE", "JSON", "YAML", "NAME"])
GraphOutput = StrEnum("GraphOutput", ["TEXT", "JSON", "MERMAID", "DOT", "SVG"])
DataOutput = StrEnum("DataOutput", ["TABLE", "JSON", "YAML"])
TimelineOutput = StrEnum("TimelineOutput", ["TEXT", "JSON", "SVG"])
PlanOutput = StrEnum("PlanOutput", ["TABLE", "GANTT", "JSON", "SVG"])
RunOutput = StrEnum("RunOutput", ["TREE", "JSON"])
ConvertOutput = StrEnum("ConvertOutput", ["YAML", "PYTHON"])


def print_json(value: object) -> None:
    import json  # help prints none

    print(json.dumps(value, indent=2, ensure_ascii=False))
