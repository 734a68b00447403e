"""What Commands on single steps leave in `status` of a JobFlow."""

from datetime import datetime
from typing import Annotated, Any

from jobflow.api.resources import Struct
from jobflow.api.volcano.job import Int32, Opaque


class ByHand(Struct):
    """What a user has done to a step or an item by hand."""

    step: str = ""
    """The step, or step/index of an item; empty for the flow itself."""
    action: str = ""
    """Action of the Command, such as CancelStep."""
    parallelism: Int32 | None = None
    """With ScaleFlow: the most jobs of the flow, or items of the step, at once."""
    by: str = ""
    """User who sent it. Empty if no webhook vouches for the name."""
    time: datetime | None = None
    """When it took effect."""
    comment: str = ""
    """Comment of the user."""
    outputs: Annotated[dict[str, Any] | None, Opaque] = None
    """With SkipStep: the outputs that the step gets, until it has ended."""
    ending: bool = False
    """With RetrySteps: whether jobs of the step are still being ended, before it runs again."""


class HandedDown(Struct):
    """A Command on steps of a child flow, which the child flow has not taken over yet."""

    number: Int32 = 0
    """Number of the entry, from 1."""
    flow: str = ""
    """Name of the child flow."""
    action: str = ""
    """Action of the Command."""
    message: str = ""
    """Paths of the steps from the child flow, a space, and the comment."""
    by: str = ""
    """User who sent the Command."""
    outputs: Annotated[dict[str, Any] | None, Opaque] = None
    """With SkipStep: the outputs that the step gets."""
