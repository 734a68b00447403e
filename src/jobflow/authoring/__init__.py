"""Flows in Python: steps from functions and containers, ordered by `>>`, checked with the line that
made them, written as YAML, run on this machine and submitted to a cluster."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jobflow.authoring.flow import CronFlow, Flow, lint, to_yaml
from jobflow.authoring.objects import fields
from jobflow.authoring.objects.expressions import (
    Expr,
    attempt,
    cel,
    choose,
    failure,
    index,
    item,
    items,
    last,
    outputs,
    phase,
    reason,
    retries,
    var,
)
from jobflow.authoring.objects.faults import ClusterError, Fault, FlowWarning, InvalidFlow, RunError
from jobflow.authoring.objects.fields import *  # noqa: F403 (`make manifests` writes its list)
from jobflow.authoring.objects.flows import ChildFlow
from jobflow.authoring.objects.functions import TaskFunction
from jobflow.authoring.objects.steps import Step, Steps, Template

if TYPE_CHECKING:  # they take long, and a flow that only prints itself needs none of them
    from jobflow.authoring.handle import Run, flows, get
    from jobflow.authoring.results import ItemResult, Result, StepResult

__all__ = [
    *fields.__all__,
    "ChildFlow",
    "ClusterError",
    "CronFlow",
    "Expr",
    "Fault",
    "Flow",
    "FlowWarning",
    "InvalidFlow",
    "ItemResult",
    "Result",
    "Run",
    "RunError",
    "Step",
    "StepResult",
    "Steps",
    "TaskFunction",
    "Template",
    "attempt",
    "cel",
    "choose",
    "failure",
    "flows",
    "get",
    "index",
    "item",
    "items",
    "last",
    "lint",
    "outputs",
    "phase",
    "reason",
    "retries",
    "to_yaml",
    "var",
]

if not TYPE_CHECKING:  # or a type checker accepts any name
    _LATER = {
        **dict.fromkeys(("Run", "flows", "get"), "handle"),
        **dict.fromkeys(("ItemResult", "Result", "StepResult"), "results"),
    }

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
