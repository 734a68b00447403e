"""The lines of a pane of logs: those that exist, then those that are written, as JSON messages. The
page sets them as texts, not as HTML."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from itertools import islice
from typing import Any

import msgspec

from jobflow.api.flow.status import ENDED_STEP_PHASES, StepPhase
from jobflow.api.labels import INDEX
from jobflow.api.volcano.pod import Pod, PodPhase
from jobflow.client.conditions import condition_of
from jobflow.client.logs import selection as selecting
from jobflow.client.logs.selection import LogSelection, LogTarget
from jobflow.client.logs.stream import ContainerFollower, LogSink, clean, split_stamp
from jobflow.core.names import format_job_name
from jobflow.core.text import format_count, to_sentence
from jobflow.kube.client import ApiError, Client
from jobflow.page.watches.readings import rank_of
from jobflow.page.watches.step import LivePage, StepChoice
from jobflow.page.web.stream import QUIET_SECONDS, Closing

MAX_SOURCES = 20
"""Containers whose logs are followed at once."""
MAX_LINES = 5000
"""Lines that a pane shows."""
TAIL = 500
"""Lines of each container with which a pane begins, unless it asks for more."""
MIN_TAIL = 50
MAX_CHOICES = 500
"""Names of a list to choose from."""
LONGEST_TEXT = 8192
"""Characters of a line that are shown; the file to download has all."""
BATCH = 500
"""Lines of a message."""
MAX_WAITING = 2 * BATCH
"""Lines that wait to be sent; then the logs are not read on."""
MAX_NOTES = 5
_LATER = "the logs of those that start appear here"
_STAMP = re.compile(rb"(.{19})(?:\.(\d+))?Z")
_ORDER: tuple[str, ...] = (PodPhase.FAILED, PodPhase.RUNNING, PodPhase.PENDING)
"""The phases of the pods whose logs tell most."""


def read_selection(params: Mapping[str, str], choice: StepChoice | None) -> LogSelection:
    tail = params.get("tail", "")
    # nine digits are beyond the maximum; Python refuses to read thousands
    lines = int(tail[:9]) if tail.isascii() and tail.isdigit() else TAIL
    return LogSelection(
        step=choice.step if choice is not None else None,
        index=choice.index if choice is not None else None,
        # the browser keeps no more
        tail=min(lines, MAX_LINES),
        task=params.get("task") or None,
        pod=params.get("pod") or None,
        container=params.get("container") or None,
        attempt=params.get("attempt") or None,
    )


def list_choices(pods: Sequence[Pod]) -> dict[str, list[str]]:
    """Return the names of tasks, pods, containers and attempts from which a user can choose."""
    # as numbers: `10` after `9`
    attempts = sorted(map(selecting.attempt_of, pods), key=lambda each: (len(each), each))
    names = {
        "task": [pod.task for pod in pods],
        "pod": sorted(pod.metadata.name for pod in pods),
        "container": [name for pod in pods for name in selecting.containers_of(pod)],
        "attempt": attempts,
    }
    unique = {kind: filter(None, dict.fromkeys(each)) for kind, each in names.items()}
    return {kind: [*islice(each, MAX_CHOICES)] for kind, each in unique.items()}


class LogFeed(LogSink):
    """The logs of the selected containers. Takes the lines of the followers of logs."""

    def __init__(self, page: LivePage, selection: LogSelection) -> None:
        self._page = page
        self._selection = selection
        self._lines: deque[tuple[int, str, str]] = deque()
        self._sources: dict[str, int] = {}
        """Numbers of the containers whose lines are sent, by name."""
        self._known: dict[str, dict[str, Any]] = {}
        """Facts about each container, by name, that the browser gets: the number of lines at the
        start, and the attempt if the page shows only one run of the step."""
        self._new_sources: list[dict[str, Any]] = []
        self._followers: dict[tuple[str, str], ContainerFollower] = {}
        """By UID of the pod and container."""
        self._running: set[asyncio.Task[None]] = set()
        self._refused: dict[str, str] = {}
        """Sentences about logs that cannot be read, by container."""
        self._old: set[tuple[str, str]] = set()
        """Containers that were left out at the beginning. They stay so, or else the logs of all
        items of a step would follow each other."""
        self._left_out = 0
        """Containers whose logs are not followed, because there are too many."""
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_begun = False

    def print(self, step: str, name: str, lines: Iterable[bytes]) -> None:
        number = self._sources.get(name)
        if number is None:
            number = self._sources[name] = len(self._sources)
            self._new_sources.append({"id": number, **self._known[name]})
        for line in lines:
            stamp, rest = split_stamp(line)
            time, text = stamp.decode(), clean(rest)
            # with nine digits of a second, so that times compare as texts
            if (found := _STAMP.fullmatch(stamp)) is not None:
                time = f"{found[1].decode()}.{(found[2] or b'').decode().ljust(9, '0')}Z"
            if (more := len(text) - LONGEST_TEXT) > 0:
                text = f"{text[:LONGEST_TEXT]}… ({more:,} more characters are in the download)"
            self._lines.append((number, time, text))
        self._changed.set()

    async def drain(self) -> None:
        while len(self._lines) > MAX_WAITING:
            self._has_room.clear()
            await self._has_room.wait()

    async def messages(self, client: Client, closing: Closing) -> AsyncGenerator[bytes, None]:
        """Yield messages, a line each, until no more lines can come or the server ends."""
        async with AsyncExitStack() as stack:
            # logs that are followed would take all connections of the page
            streams = await stack.enter_async_context(client.sibling())
            stack.push_async_callback(self._stop)
            for signal in (self._page.changed, closing):
                signal.watch(self._changed)
                stack.callback(signal.unwatch, self._changed)
            shown: dict[str, Any] = {}
            while not closing.is_set:
                # before looking, so that a change while the message is made is not lost
                self._changed.clear()
                self._follow(streams)
                state = self._state()
                changes = {name: each for name, each in state.items() if shown.get(name) != each}
                shown = state
                if count := min(len(self._lines), BATCH):
                    changes["lines"] = [self._lines.popleft() for _ in range(count)]
                if self._new_sources:
                    changes["sources"], self._new_sources = self._new_sources, []
                self._has_room.set()
                yield msgspec.json.encode(changes) + b"\n"
                # only a browser that was told the end does not connect again
                if self._is_over and not self._lines:
                    yield b'{"end":true}\n'
                    return
                if not self._lines:
                    with suppress(TimeoutError):  # then a message shows that the server lives
                        await asyncio.wait_for(self._changed.wait(), QUIET_SECONDS)

    async def _stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _follow(self, streams: Client) -> None:
        targets = self._targets()
        by_key = {(each.pod.metadata.uid, each.container): each for each in targets}
        for key, follower in self._followers.items():
            # a pod that is gone ends its follower
            follower.update(by_key[key].pod if key in by_key else None)
        new = [key for key in by_key if key not in self._followers and key not in self._old]
        # each is an open connection to the API server
        room = max(MAX_SOURCES - len(self._running), 0)
        # among pods of one phase, those that started last
        newest = (by_key[key] for key in reversed(new))
        chosen = sorted(newest, key=lambda target: rank_of(target.pod, _ORDER))[:room]
        self._left_out = len(new) - len(chosen) + len(self._old)
        # so that the first lines of all fit into the pane
        share = min(self._selection.tail or 0, MAX_LINES // max(len(chosen), 1))
        options = replace(self._selection, timestamps=True)
        for target in chosen:
            # all of a log that starts while somebody looks is new
            is_later = self._has_begun or bool(selecting.why_waiting(target.pod, target.container))
            tail = self._selection.tail if is_later else max(share, MIN_TAIL)
            self._start(streams, target, replace(options, tail=tail))
        if chosen and not self._has_begun:
            self._has_begun = True
            self._old.update(key for key in new if key not in self._followers)

    def _targets(self) -> list[LogTarget]:
        flow, step = self._page.flow.flow, self._page.step
        if flow is None or step is None:
            return []
        return selecting.find_targets(step.family(flow), step.all_pods, self._selection)

    def _start(self, streams: Client, target: LogTarget, options: LogSelection) -> None:
        name, step, meta = target.name, self._selection.step or "", target.pod.metadata
        is_one_run = self._selection.index is not None or INDEX not in (meta.labels or {})
        attempt = selecting.attempt_of(target.pod) if is_one_run and target.step == step else ""
        # all pods of a step begin with its name and that of its job
        pod = name.removeprefix(f"{step}/")
        label = pod.removeprefix(f"{format_job_name(self._page.flow.name, step)}-") or pod
        about = {"name": label, "title": name, "tail": options.tail, "attempt": attempt}
        self._known[name] = about
        follower = ContainerFollower(streams, target, options, self, asyncio.Semaphore(1))
        self._followers[meta.uid, target.container] = follower
        task = asyncio.create_task(self._run(follower))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: self._changed.set())

    async def _run(self, follower: ContainerFollower) -> None:
        name = follower.target.name
        try:
            await follower.run()
        except ApiError as error:
            self._refused[name] = f"{name}: the log is incomplete: {error.message}"
            if error.code == 403:
                place = f'in namespace "{follower.target.pod.metadata.namespace}"'
                self._refused[name] = f"You may not get pods/log {place}: {error.message}"

    def _state(self) -> dict[str, Any]:
        flow, step = self._page.flow.flow, self._page.step
        if flow is None or step is None:
            return {"empty": "The flow has no such step."}
        pods, targets, empty = step.pods(flow), self._targets(), step.refusal
        if not empty and not targets:
            family, selection = step.family(flow), self._selection
            empty = to_sentence(selecting.why_none(family, pods, selection, later=_LATER))
        return {
            "empty": empty or ("" if self._sources else self._why_silent(targets)),
            "notes": self._notes(targets) if self._sources else self._unread(),
            "choices": list_choices(pods),
        }

    def _why_silent(self, targets: list[LogTarget]) -> str:
        if not self._running and self._refused:
            return "No log can be read."
        waits = [selecting.why_waiting(each.pod, each.container) for each in targets]
        names = [f"{each.name}: {why}." for each, why in zip(targets, waits, strict=True) if why]
        if len(names) < len(targets):
            ended = all(each.pod.ended for each in targets) and not self._running
            return "The containers wrote nothing." if ended else "No line has been written yet."
        more = len(names) - MAX_NOTES
        others = [f"{format_count(more, 'more container')} wait."] if more > 0 else []
        return "\n".join(["No log yet.", *names[:MAX_NOTES], *others])

    def _notes(self, targets: list[LogTarget]) -> list[str]:
        notes = self._unread()
        attempts = [self._known[name]["attempt"] for name in self._sources]
        shown = max((int(each) for each in attempts if each), default=None)
        flow, step = self._page.flow.flow, self._selection.step or ""
        if flow is not None and shown is not None:
            condition = condition_of(flow, step)
            run = condition.run_at(self._selection.index) or condition
            present = run.attempts + (run.phase == StepPhase.WAITING)
            if run.phase not in ENDED_STEP_PHASES and shown < present:
                lines = f"these are the lines of attempt {shown}"
                notes.append(f"{lines}; attempt {present} has none yet")
        notes += [
            f"{each.name}: no log yet: {why}"
            for each in targets
            if not each.pod.ended and (why := selecting.why_waiting(each.pod, each.container))
        ]
        more = len(notes) - MAX_NOTES
        return notes[:MAX_NOTES] + ([f"{format_count(more, 'more note')}"] if more > 0 else [])

    def _unread(self) -> list[str]:
        notes = list(dict.fromkeys(self._refused.values()))
        if self._left_out:
            others = format_count(self._left_out, "more container")
            notes.insert(0, f"{others} not shown: choose a pod, or an item of the step")
        return notes

    @property
    def _is_over(self) -> bool:
        flow, step = self._page.flow.flow, self._page.step
        if flow is None or step is None:
            return True
        if self._running or self._new_sources:
            return False
        has_ended = self._page.flow.is_deleted or selecting.is_over(flow, self._selection)
        return has_ended and all(each.pod.ended for each in self._targets())
