"""A copy that follows lists, watches and writes in any order and never returns an older object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobflow.api.resources import ObjectMeta
from jobflow.api.volcano.job import Job
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
    def objects(self) -> dict[str, str]:
        return {obj.metadata.name: obj.metadata.resource_version for obj in self.cache}


def test_a_list_adds_changes_and_removes_objects() -> None:
    log = Recording()
    log.cache.replace([job("a", 1), job("b", 2), job("c", 3)], "3")
    log.cache.replace([job("a", 1), job("b", 5), job("d", 6)], "6")
    assert log.calls == ["+a@1", "+b@2", "+c@3", "~b@5", "+d@6", "-c@3"]


def test_a_doubtful_copy_is_replaced_once_by_the_same_version() -> None:
    log = Recording()
    log.cache.replace([job("a", 1), job("b", 2)], "3")
    log.cache.doubt()
    again = job("a", 1)
    assert log.cache.shared(again) is again
    log.cache.changed(job("b", 4))
    for _ in range(2):
        log.cache.replace([again, job("b", 4)], "5")
    assert log.calls == ["+a@1", "+b@2", "~b@4", "~a@1"]
    assert log.cache.get("ns", "a") is again
    assert log.cache.shared(job("a", 1)) is again


def test_a_write_is_reported_once() -> None:
    log = Recording()
    log.cache.replace([], "5")
    assert log.cache.learn(job("a", 6))
    log.cache.changed(job("a", 6))
    assert log.calls == ["+a@6"]


@pytest.mark.parametrize(
    ("calls", "objects"),
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
def test_a_late_call_restores_no_older_version(calls: list[Any], objects: dict[str, str]) -> None:
    log = Recording()
    for call, name, version, *uid in calls:
        if call == "list":
            log.cache.replace([], str(version))
        else:
            getattr(log.cache, call)(job(name, version, *uid))
    assert log.objects == objects


def test_a_recreated_object_is_a_new_object() -> None:
    log = Recording()
    log.cache.changed(job("a", 5, "first"))
    log.cache.changed(job("a", 9, "second"))
    assert log.calls == ["+a@5", "-a@5", "+a@9"]
    log.cache.deleted(job("a", 8, "first"))
    assert log.objects == {"a": "9"}


def test_a_server_that_went_back_is_recognized() -> None:
    log = Recording()
    log.cache.replace([job("a", 4)], "5")
    log.cache.learn(job("a", 8))
    known = log.cache.newest
    assert log.cache.precedes("7", known)
    assert not log.cache.precedes("8", known)
    assert log.cache.includes_older(job("a", 7).metadata, "9")
    assert not log.cache.includes_older(job("a", 8).metadata, "9")
    log.cache.learn(job("a", 12))
    assert not log.cache.precedes("9", known)
    assert not log.cache.includes_older(job("a", 8).metadata, "9")


def test_a_copy_that_starts_over_forgets_all_versions() -> None:
    log = Recording()
    log.cache.replace([job("a", 4), job("b", 5), job("c", 2)], "9")
    known = log.cache.newest
    log.cache.doubt()
    log.cache.start_over([job("a", 3), job("c", 2, "another")], "6")
    assert log.calls[3:] == ["~a@3", "-c@2", "+c@2", "-b@5"]
    assert not log.cache.precedes("6", known)
    assert log.cache.learn(job("d", 7))
    log.cache.replace([job("a", 3), job("c", 2, "another")], "6")
    assert log.objects == {"a": "3", "c": "2", "d": "7"}


def test_a_deletion_reports_the_newest_known_version() -> None:
    log = Recording()
    log.cache.changed(job("a", 5))
    log.cache.deleted(job("a", 7))
    log.cache.changed(job("b", 8))
    log.cache.learn(job("b", 12))
    log.cache.deleted(job("b", 10))
    assert log.calls[1:] == ["-a@7", "+b@8", "~b@12", "-b@12"]


def test_a_copy_stays_if_the_listed_object_is_unreadable() -> None:
    log = Recording()
    log.cache.replace([job("a", 1), job("b", 2)], "2")
    log.cache.replace([], "9", unreadable={"uid-a"})
    assert log.objects == {"a": "1"}


def test_changes_of_synced_and_served_are_reported() -> None:
    log = Recording()
    states: list[tuple[bool, bool | None]] = []
    log.cache.on_state = lambda: states.append((log.cache.synced, log.cache.served))
    log.cache.absent()
    log.cache.replace([], "1")
    log.cache.absent()
    assert states == [(False, False), (True, True), (True, False)]


STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["write", "delete"])), max_size=25
)


@given(STEPS, st.randoms(use_true_random=False))
def test_the_copy_ends_like_the_server_in_any_order_of_calls(
    steps: list[tuple[str, str]], dice: object
) -> None:
    """The watch sends every event in order. Between its events arrive, at random, late answers to
    writes, repeated old events, and lists that are at least as new as the last event."""
    log, random = Recording(), dice
    server: dict[str, Job] = {}
    history: list[tuple[str, Job]] = []
    lists: list[tuple[int, list[Job]]] = [(0, [])]
    for version, (name, what) in enumerate(steps, start=1):
        if what == "write":
            uid = server[name].metadata.uid if name in server else f"{name}-{version}"
            server[name] = job(name, version, uid)
            history.append(("MODIFIED", server[name]))
        elif name in server:
            deleted = server.pop(name)
            history.append(("DELETED", job(name, version, deleted.metadata.uid)))
        lists.append((version, list(server.values())))
    for at, (type, obj) in enumerate(history):
        place = int(obj.metadata.resource_version)
        for _ in range(random.randrange(3)):  # type: ignore[attr-defined]
            kind, old = random.choice(history)  # type: ignore[attr-defined]
            if kind == "MODIFIED":
                log.cache.learn(old)
            if int(old.metadata.resource_version) < place and at:
                past = history[random.randrange(at)]  # type: ignore[attr-defined]
                (log.cache.deleted if past[0] == "DELETED" else log.cache.changed)(past[1])
        if type == "DELETED":
            log.cache.deleted(obj)
        else:
            log.cache.changed(obj)
        if random.random() < 0.3:  # type: ignore[attr-defined]
            version, objects = random.choice([one for one in lists if one[0] >= place])  # type: ignore[attr-defined]
            log.cache.replace(objects, str(version))
    assert log.objects == {name: obj.metadata.resource_version for name, obj in server.items()}


def test_only_wanted_objects_are_kept() -> None:
    wanted = {"a", "b"}
    log = Recording()
    log.cache = Cache[Job](log._tell, wanted=lambda job: job.metadata.name in wanted)
    assert log.cache.shared(job("x", 1)) is None
    log.cache.replace([job("a", 1), job("x", 2)], "3")
    log.cache.changed(job("b", 4))
    log.cache.changed(job("y", 5))
    assert log.cache.learn(job("z", 6))
    assert log.objects == {"a": "1", "b": "4"}
    wanted.clear()
    log.cache.changed(job("a", 7))
    assert log.calls == ["+a@1", "+b@4", "-a@1"]
    log.cache.let_go(job("b", 4))
    assert log.objects == {}
    assert log.calls == ["+a@1", "+b@4", "-a@1"]
