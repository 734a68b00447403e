"""A copy that follows lists, watches and writes in any order and never goes back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.job import Job
from jobflow.api.meta import ObjectMeta
from jobflow.kube.cache import Cache


def job(name: str, version: int, uid: str = "") -> Job:
    meta = ObjectMeta(
        namespace="ns", name=name, uid=uid or f"uid-{name}", resource_version=str(version)
    )
    return Job(metadata=meta)


class Recording:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.cache = Cache[Job](self._tell)

    def _tell(self, old: Job | None, new: Job | None) -> None:
        obj = new or old
        assert obj is not None
        sign = "+" if old is None else "-" if new is None else "~"
        self.calls.append(f"{sign}{obj.metadata.name}@{obj.metadata.resource_version}")

    @property
    def held(self) -> dict[str, str]:
        return {obj.metadata.name: obj.metadata.resource_version for obj in self.cache}


def test_a_list_adds_changes_and_removes() -> None:
    seen = Recording()
    seen.cache.replace([job("a", 1), job("b", 2), job("c", 3)], "3")
    seen.cache.replace([job("a", 1), job("b", 5), job("d", 6)], "6")
    assert seen.calls == ["+a@1", "+b@2", "+c@3", "~b@5", "+d@6", "-c@3"]


def test_a_doubted_copy_is_replaced_once_by_the_same_version() -> None:
    seen = Recording()
    seen.cache.replace([job("a", 1), job("b", 2)], "3")
    seen.cache.doubt()
    again = job("a", 1)
    assert seen.cache.shared(again) is again
    seen.cache.changed(job("b", 4))
    for _ in range(2):
        seen.cache.replace([again, job("b", 4)], "5")
    assert seen.calls == ["+a@1", "+b@2", "~b@4", "~a@1"]
    assert seen.cache.get("ns", "a") is again
    assert seen.cache.shared(job("a", 1)) is again


def test_a_write_is_reported_once() -> None:
    seen = Recording()
    seen.cache.replace([], "5")
    assert seen.cache.learn(job("a", 6))
    seen.cache.changed(job("a", 6))
    assert seen.calls == ["+a@6"]


@pytest.mark.parametrize(
    ("calls", "held"),
    [
        ([("changed", "a", 1), ("learn", "a", 9), ("changed", "a", 7)], {"a": "9"}),
        ([("list", "", 5), ("learn", "a", 8), ("list", "", 7)], {"a": "8"}),
        ([("list", "", 5), ("learn", "a", 8), ("list", "", 9)], {}),
        ([("changed", "a", 1), ("deleted", "a", 4), ("learn", "a", 3)], {}),
        ([("list", "", 10), ("learn", "a", 8)], {}),
        ([("changed", "a", 5), ("deleted", "a", 6), ("changed", "a", 5)], {}),
        ([("changed", "a", 9, "second"), ("learn", "a", 5, "first")], {"a": "9"}),
    ],
    ids=[
        *("an event before a write", "a list before a create", "a list after a create"),
        *("an answer after a delete", "an answer after a list", "a repeated event"),
        "a read of an earlier object",
    ],
)
def test_a_late_call_does_not_set_the_copy_back(calls: list[Any], held: dict[str, str]) -> None:
    seen = Recording()
    for call, name, version, *uid in calls:
        if call == "list":
            seen.cache.replace([], str(version))
        else:
            getattr(seen.cache, call)(job(name, version, *uid))
    assert seen.held == held


def test_a_recreated_object_is_another() -> None:
    seen = Recording()
    seen.cache.changed(job("a", 5, "first"))
    seen.cache.changed(job("a", 9, "second"))
    assert seen.calls == ["+a@5", "-a@5", "+a@9"]
    seen.cache.deleted(job("a", 8, "first"))
    assert seen.held == {"a": "9"}


def test_a_deletion_tells_the_newest_that_was_known() -> None:
    seen = Recording()
    seen.cache.changed(job("a", 5))
    seen.cache.deleted(job("a", 7))
    seen.cache.changed(job("b", 8))
    seen.cache.learn(job("b", 12))
    seen.cache.deleted(job("b", 10))
    assert seen.calls[1:] == ["-a@7", "+b@8", "~b@12", "-b@12"]


def test_a_copy_stays_if_the_listed_object_is_unreadable() -> None:
    seen = Recording()
    seen.cache.replace([job("a", 1), job("b", 2)], "2")
    seen.cache.replace([], "9", unreadable={"uid-a"})
    assert seen.held == {"a": "1"}


def test_changes_of_synced_and_served_are_reported() -> None:
    seen = Recording()
    states: list[tuple[bool, bool | None]] = []
    seen.cache.on_state = lambda: states.append((seen.cache.synced, seen.cache.served))
    seen.cache.absent()
    seen.cache.replace([], "1")
    seen.cache.absent()
    assert states == [(False, False), (True, True), (True, False)]


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "delete"])), max_size=25
)


@given(STEPS, st.randoms(use_true_random=False))
def test_whatever_reaches_the_copy_in_whatever_order_it_ends_as_the_server_is(
    steps: list[tuple[str, str]], dice: object
) -> None:
    """The watch brings every event in order; between its events come, at random, late answers to
    writes, repeated old events and lists taken at any earlier moment that is not before the watch's
    own place."""
    seen, random = Recording(), dice
    server: dict[str, Job] = {}
    history: list[tuple[str, Job]] = []
    lists: list[tuple[int, list[Job]]] = [(0, [])]
    for version, (name, what) in enumerate(steps, start=1):
        if what == "write":
            uid = server[name].metadata.uid if name in server else f"{name}-{version}"
            server[name] = job(name, version, uid)
            history.append(("MODIFIED", server[name]))
        elif name in server:
            gone = server.pop(name)
            history.append(("DELETED", job(name, version, gone.metadata.uid)))
        lists.append((version, list(server.values())))
    for at, (type, obj) in enumerate(history):
        here = int(obj.metadata.resource_version)
        for _ in range(random.randrange(3)):  # type: ignore[attr-defined]
            kind, old = random.choice(history)  # type: ignore[attr-defined]
            if kind == "MODIFIED":
                seen.cache.learn(old)
            if int(old.metadata.resource_version) < here and at:
                past = history[random.randrange(at)]  # type: ignore[attr-defined]
                (seen.cache.deleted if past[0] == "DELETED" else seen.cache.changed)(past[1])
        if type == "DELETED":
            seen.cache.deleted(obj)
        else:
            seen.cache.changed(obj)
        if random.random() < 0.3:  # type: ignore[attr-defined]
            version, objects = random.choice([one for one in lists if one[0] >= here])  # type: ignore[attr-defined]
            seen.cache.replace(objects, str(version))
    assert seen.held == {name: obj.metadata.resource_version for name, obj in server.items()}


def test_only_wanted_objects_are_kept() -> None:
    wanted = {"a", "b"}
    seen = Recording()
    seen.cache = Cache[Job](seen._tell, wanted=lambda job: job.metadata.name in wanted)
    assert seen.cache.shared(job("x", 1)) is None
    seen.cache.replace([job("a", 1), job("x", 2)], "3")
    seen.cache.changed(job("b", 4))
    seen.cache.changed(job("y", 5))
    assert seen.cache.learn(job("z", 6))
    assert seen.held == {"a": "1", "b": "4"}
    wanted.clear()
    seen.cache.changed(job("a", 7))
    assert seen.calls == ["+a@1", "+b@4", "-a@1"]
    seen.cache.let_go(job("b", 4))
    assert seen.held == {}
    assert seen.calls == ["+a@1", "+b@4", "-a@1"]
