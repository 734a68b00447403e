"""Wants of plans: what the controller keeps up for a flow until its next plan, such as probes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from jobflow.api.volcano.pod import Pod
from jobflow.controller.hooks import Hooks
from jobflow.controller.probes.keeper import Keeper
from jobflow.controller.probes.pod_check import check_phase, check_pod
from jobflow.controller.probes.pod_warnings import PodWarnings
from jobflow.controller.probes.prober import CheckPod, Prober
from jobflow.core.planning.actions import JobProbe, PodWarning, Want, WantKey
from jobflow.kube.cache import Key
from jobflow.kube.client import Client


class Outside(NamedTuple):
    """How keepers ask others than the API server. Nothing has a default, so that each place where
    flows run says whether it really asks."""

    check_pod: CheckPod


CLUSTER = Outside(check_pod)
PROCESSES = Outside(partial(check_pod, loopback=True))
"""For pods that are processes of this machine."""
SIMULATED = Outside(check_phase)
"""For pods that do nothing: nobody is asked."""


def make_keepers(
    client: Client,
    outside: Outside,
    pods_of: Callable[[str], Mapping[str, Pod]],
    changed: Callable[[Key], object],
    hooks: Hooks | None = None,
) -> Mapping[type[Want], Keeper[Any, Any]]:
    """Return the keeper of each type of wants. `pods_of`: the pods of the job with this UID.
    `changed` is called with a flow of which an answer has changed."""
    prober = Prober(pods_of, changed, hooks, check=outside.check_pod)
    return {JobProbe: prober, PodWarning: PodWarnings(client, changed)}


class Wants:
    """The wants of all flows, by the keeper of their type."""

    def __init__(self, keepers: Mapping[type[Want], Keeper[Any, Any]]) -> None:
        self._keepers = keepers

    def want(self, flow: Key, flow_uid: str, wants: Sequence[Want]) -> None:
        for kind, keeper in self._keepers.items():
            # also an empty list: what was wanted before ends
            keeper.want(flow, flow_uid, [each for each in wants if type(each) is kind])

    def answers(self, flow_uid: str) -> Mapping[WantKey, Any]:
        found: dict[WantKey, Any] = {}
        for keeper in self._keepers.values():
            found |= keeper.results(flow_uid)
        return found

    def forget(self, flow: Key) -> None:
        for keeper in self._keepers.values():
            keeper.forget(flow)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for keeper in self._keepers.values():
                group.create_task(keeper.run())
