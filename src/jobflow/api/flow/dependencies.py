"""`dependsOn`: the steps that a step waits for."""

from enum import StrEnum
from typing import Annotated

from jobflow.api.flow.probe import Probe
from jobflow.api.flow.traits import Plain
from jobflow.api.meta import Doc, Struct


class Strategy(StrEnum):
    """Number of targets that must reach the condition."""

    ALL = "all"
    ANY = "any"


class Condition(StrEnum):
    """The state that a target must reach."""

    COMPLETED = "Completed"
    FAILED = "Failed"
    FINISHED = "Finished"
    RUNNING = "Running"


class ItemDependency(StrEnum):
    """How the items of a step depend on the items of its targets."""

    MATCHING = "Matching"


class DependsOn(Struct, frozen=True, kw_only=True):
    """Steps that a step waits for, and when it starts."""

    targets: Annotated[list[str] | None, Doc("Names of the steps to wait for."), Plain()] = None
    strategy: Annotated[
        str | None,
        Doc(
            "all (default): start when every target has reached the condition. any: start when "
            "the first one has."
        ),
    ] = None
    condition: Annotated[
        str | None,
        Doc(
            "State that a target must reach: Completed (default), Failed (the step runs only if "
            "the target fails), Finished (either of them) or Running (the target has started)."
        ),
    ] = None
    conditions: Annotated[
        dict[str, str] | None,
        Doc(
            "Conditions of single targets, by the name of the step, where they differ from "
            "condition."
        ),
    ] = None
    probe: Annotated[
        Probe | None,
        Doc(
            "Checks of the tasks and pods of the targets' jobs, which decide instead of condition "
            "whether a target is met."
        ),
    ] = None

    items: Annotated[
        str | None,
        Doc(
            "Matching: item i of the step's forEach waits only for item i of each target with "
            "forEach. Without forEach, the step has the items of its targets. Default: the step "
            "waits for all items of its targets."
        ),
    ] = None

    @property
    def all_conditions(self) -> list[str | None]:
        """The condition of the step, then those of single targets."""
        return [self.condition, *(self.conditions or {}).values()]
