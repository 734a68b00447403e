"""The table of the kinds of work without vcjobs: the rules of each, and how it is answered."""

from collections.abc import Callable
from typing import Any, NamedTuple

from jobflow.api.flow.traits import WorkKind
from model.acting import Script
from model.work.approvals import Approvals
from model.work.at_once import Gates, Values
from model.work.own_work import OwnWork


class Kind(NamedTuple):
    """A kind of work without vcjobs."""

    rules: type[OwnWork]
    answer: Callable[[Script], Any] | None = None
    """Makes the answer to the want of an attempt that ends so; None: users answer, or it
    needs none."""


KINDS: dict[WorkKind, Kind] = {
    WorkKind.APPROVAL: Kind(Approvals),
    WorkKind.COMPUTE: Kind(Values),
    WorkKind.FAIL: Kind(Gates),
}
