"""Formats of objects and plans that commands print."""

from __future__ import annotations

from enum import StrEnum


class ObjectOutput(StrEnum):
    """Format in which a command prints objects that it sent or made."""

    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class PlanOutput(StrEnum):
    """Format of the output of `jobflow plan`."""

    TABLE = "table"
    GANTT = "gantt"
    JSON = "json"
    SVG = "svg"
