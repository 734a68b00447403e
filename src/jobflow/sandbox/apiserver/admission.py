"""Asks the registered admission webhooks about writes. Stores nothing."""

from __future__ import annotations

from jobflow.sandbox.apiserver.kinds import Object
from jobflow.sandbox.apiserver.operations import Operation


class Admission:
    """Everyone who is asked before a write."""

    async def mutate(self, operation: Operation) -> Object | None:
        """The object as the mutating webhooks want it."""
        return operation.obj

    async def validate(self, operation: Operation) -> None:
        """Raises Failure where a validating webhook refuses."""
