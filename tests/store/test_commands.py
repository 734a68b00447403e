"""Commands in the store: lookup by flow, and reports to listeners."""

from typing import Any

import msgspec
import pytest

from jobflow.api.volcano.command import Command
from jobflow.store import Listener, Store

FLOW = "flow.volcano.sh/v1alpha1"


class Recorder(Listener):
    """Records the names of Commands."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def command_changed(self, command: Command) -> None:
        assert command.target is not None
        self.calls.append(f"{command.metadata.name} on {command.target.name}")


def command(name: str, target: dict[str, Any] | None, *, version: int = 1) -> Command:
    meta = {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta, "action": "TerminateJob", "target": target}, Command)


def target_of(name: str, *, kind: str = "JobFlow", api_version: str = FLOW) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": "u"}


def names(store: Store, flow: str) -> list[str] | None:
    found = store.commands_of("ns", flow)
    return None if found is None else sorted(found)


async def test_commands_are_unknown_until_they_are_listed() -> None:
    store = Store()
    assert names(store, "f") is None
    store.commands.absent()
    assert names(store, "f") is None
    store.commands.replace([], "1")
    assert names(store, "f") == []


async def test_commands_are_found_by_their_flow() -> None:
    store = Store()
    store.commands.replace([command("a", target_of("f")), command("b", target_of("g"))], "1")
    assert (names(store, "f"), names(store, "g")) == (["a"], ["b"])
    assert store.commands_of("other", "f") == {}
    store.commands.changed(command("a", target_of("g"), version=2))
    assert (names(store, "f"), names(store, "g")) == ([], ["a", "b"])
    store.commands.deleted(command("a", target_of("g"), version=3))
    assert names(store, "g") == ["b"]


@pytest.mark.parametrize(
    "target",
    [
        None,
        target_of("f", kind="Job"),
        target_of("f", kind="JobTemplate"),
        target_of("f", api_version="batch.volcano.sh/v1alpha1"),
        target_of("f", api_version=""),
    ],
)
async def test_commands_on_other_objects_are_ignored(target: dict[str, Any] | None) -> None:
    store, listener = Store(), Recorder()
    store.listeners.append(listener)
    store.commands.replace([command("a", target)], "1")
    assert names(store, "f") == []
    store.commands.deleted(command("a", target, version=2))
    assert listener.calls == []


async def test_listeners_are_called_for_added_changed_and_deleted_commands() -> None:
    store, listener = Store(), Recorder()
    store.listeners.append(listener)
    store.commands.replace([command("a", target_of("f"))], "1")
    store.commands.changed(command("a", target_of("g"), version=2))
    store.commands.deleted(command("a", target_of("g"), version=3))
    assert listener.calls == ["a on f", "a on f", "a on g", "a on g"]
