"""Flows in Python: steps from functions and containers, ordered by `>>`, checked with the line that
made them, written as YAML, run on this machine and submitted to a cluster."""

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
    "RunError",
    "Step",
    "Steps",
    "TaskFunction",
    "Template",
    "attempt",
    "cel",
    "choose",
    "failure",
    "index",
    "item",
    "last",
    "lint",
    "outputs",
    "phase",
    "reason",
    "retries",
    "to_yaml",
    "var",
]
