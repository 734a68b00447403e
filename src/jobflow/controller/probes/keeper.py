"""What a controller keeps up for flows, such as probes, until their plans want it no more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from jobflow.core.planning.actions import Want, WantKey
from jobflow.kube.cache import Key

W = TypeVar("W", bound=Want)


@dataclass(slots=True, eq=False)
class Kept(Generic[W]):
    """A want that is kept up."""

    flow: Key
    want: W
    answer: Any = None
    """None: not known yet."""
    task: asyncio.Task[None] | None = None


KeptT = TypeVar("KeptT", bound=Kept[Any])


class Keeper(Generic[W, KeptT]):
    """Keeps up the wants of one type while `run` runs, also those from before."""

    def __init__(self, changed: Callable[[Key], object]) -> None:
        """`changed` is called with a flow if one of its answers has changed."""
        self._changed = changed
        self._uids: dict[Key, str] = {}
        self._wants: dict[str, Sequence[W]] = {}
        """By the UID of the flow, as is `_kept`."""
        self._kept: dict[str, dict[Hashable, KeptT]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def want(self, flow: Key, flow_uid: str, wants: Sequence[W]) -> None:
        """Keep up these wants of the flow, and no others."""
        if not wants or self._uids.get(flow) != flow_uid:
            self.forget(flow)
        if not wants:
            return
        self._uids[flow], self._wants[flow_uid] = flow_uid, wants
        known = self._kept.setdefault(flow_uid, {})
        wanted = {self._subject(want): want for want in wants}
        for subject in known.keys() - wanted.keys():
            self._stop(known.pop(subject))
        for subject, want in wanted.items():
            if subject not in known:
                known[subject] = self._begin(flow, want)
                self._start(known[subject])

    def results(self, flow_uid: str) -> Mapping[WantKey, Any]:
        """Return the answers so far for the flow."""
        known = self._kept.get(flow_uid, {})
        wants = self._wants.get(flow_uid, ())
        answers = {want.key: known[self._subject(want)].answer for want in wants}
        return {key: answer for key, answer in answers.items() if answer is not None}

    def forget(self, flow: Key) -> None:
        """Keep up nothing more for the flow."""
        uid = self._uids.pop(flow, "")
        self._wants.pop(uid, None)
        for kept in self._kept.pop(uid, {}).values():
            self._stop(kept)

    async def run(self) -> None:
        """Keep up what is wanted until cancelled. No task and no connection remains."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                for known in self._kept.values():
                    for kept in known.values():
                        self._start(kept)
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None

    def _subject(self, want: W) -> Hashable:
        """Return what is kept up for a want; wants of a flow with the same subject share it."""
        return want.key

    def _begin(self, flow: Key, want: W) -> KeptT:
        raise NotImplementedError

    async def _repeat(self, kept: KeptT) -> None:
        raise NotImplementedError

    def _start(self, kept: KeptT) -> None:
        if self._tasks is not None:
            kept.task = self._tasks.create_task(self._repeat(kept))

    def _stop(self, kept: KeptT) -> None:
        if kept.task is not None:
            kept.task.cancel()
