"""`jobflow wait`: waits until flows have finished."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.live import Live
from rich.text import Text

from jobflow.api.duration import parse_duration
from jobflow.api.flow.jobflow import JobFlow
from jobflow.api.flow.status import FlowPhase
from jobflow.client.errors import FAILED, INTERRUPTED, TIMED_OUT, UNUSABLE, CommandError, Errors
from jobflow.client.flows.find_flow import connect, find_each, state_of
from jobflow.client.flows.follow import following
from jobflow.client.options import Connection, Selection
from jobflow.client.signals import interruption, run_unless
from jobflow.core.text import format_command, format_elapsed, join_names, printable
from jobflow.display.console import make_console
from jobflow.display.formats import ObjectOutput
from jobflow.display.objects import print_flow_objects
from jobflow.kube.cache import Key, key_of
from jobflow.kube.client import Client


async def wait_for_flows(
    names: Sequence[str],
    connection: Connection,
    selection: Selection,
    limit: str | None,
    output: ObjectOutput | None = None,
) -> int:
    """Print a line when each flow has finished, or with `output` all flows at the end. `limit` is a
    duration such as 1h30m."""
    try:
        seconds = None if limit is None else parse_duration(limit)
    except ValueError:
        sentence = f'--timeout "{limit}" is not a duration: write it like 90s, 10m or 1h30m'
        raise CommandError(UNUSABLE, sentence) from None
    errors = Errors()
    async with await connect(connection) as client:
        flows = await find_each(client, names, selection, errors)
        if errors.code:  # a name is wrong: nobody wants to learn that after an hour
            return errors.code
        ends = _Ends(flows, errors, quiet=output is not None)
        # flows that have ended before the wait are printed by it too
        with interruption() as stop, ends.line:
            if not await run_unless(stop, ends.until_all(client, seconds)):
                return INTERRUPTED
    if output is not None:
        print_flow_objects(ends.finished, output, single=len(names) == 1)
    return errors.code


class WaitLine:
    """One line on a terminal, on stderr, that says what is waited for; nothing in a pipe."""

    def __init__(self, flows: Mapping[Key, JobFlow], console: Console) -> None:
        self._flows = flows
        """Flows that have not finished yet."""
        self._total = len(flows)
        self._since = datetime.now(UTC)
        self._live: Live | None = None
        # a dumb terminal cannot erase the line
        if console.is_terminal and not console.is_dumb_terminal:
            self._live = Live(
                self,
                console=console,
                refresh_per_second=2,  # a second passes in it
                transient=True,
                redirect_stdout=False,  # it may go to a file
            )

    def __enter__(self) -> None:
        if self._live is not None and self._flows:
            self._live.start()

    def __exit__(self, *exc: object) -> None:
        if self._live is not None:
            self._live.stop()

    def print(self, line: str) -> None:
        """Print a line to stdout, above this one if stdout is the same terminal."""
        self.__exit__()
        print(printable(line), flush=True)
        self.__enter__()

    def __rich__(self) -> Text:
        return self.text(datetime.now(UTC))

    def text(self, now: datetime) -> Text:
        """Return the line; a terminal that is too narrow shows its beginning."""
        flows = [*self._flows.values()]  # a copy, because another thread draws it
        if not flows:
            return Text()
        flow, passed = flows[0], format_elapsed(self._since, now)
        which = f" for {len(flows)} of {self._total} flows" if self._total > 1 else ""
        line = f"waiting {passed}{which}: {flow.metadata.name} is {state_of(flow)}"
        return Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis")


class _Ends:
    """The flows that have not finished yet, and those that have."""

    def __init__(self, flows: Sequence[JobFlow], errors: Errors, *, quiet: bool) -> None:
        self._flows = flows
        self._open: dict[Key, JobFlow] = {key_of(flow): flow for flow in flows}
        self._ended: dict[Key, JobFlow] = {}
        self._errors = errors
        self._quiet = quiet
        self.line = WaitLine(self._open, make_console(stderr=True))

    @property
    def finished(self) -> list[JobFlow]:
        keys = (key_of(flow) for flow in self._flows)
        return [self._ended[key] for key in keys if key in self._ended]

    async def until_all(self, client: Client, seconds: float | None) -> None:
        """Return once all have finished. Raises CommandError if the time is over."""
        try:
            async with asyncio.timeout(seconds) as limit:
                async with following(client, self._flows, self._see, self._note_deletion) as all_:
                    await all_.until(lambda _: not self._open)
        except TimeoutError:
            if not limit.expired():  # of a request
                raise
            if not self._open:  # with --timeout 0 even a finished flow is over the time
                return
            names = join_names([name for _, name in self._open])
            verb = "has" if len(self._open) == 1 else "have"
            why = format_command("jobflow why", next(iter(self._open.values())).metadata)
            sentence = f"{names} {verb} not finished within --timeout; {why} explains it"
            raise CommandError(max(TIMED_OUT, self._errors.code), sentence) from None

    def _see(self, flow: JobFlow) -> None:
        key = key_of(flow)
        if key not in self._open:  # a retry of a flow that has ended does not count
            return
        if not flow.final:
            self._open[key] = flow
            return
        del self._open[key]
        self._ended[key] = flow
        if not self._quiet:
            self.line.print(f"JobFlow {flow.metadata.name}: {state_of(flow)}")
        if flow.status.state.phase == FlowPhase.FAILED:
            self._errors.add_code(FAILED)

    def _note_deletion(self, flow: JobFlow) -> None:
        if self._open.pop(key_of(flow), None) is not None:
            deleted = f"JobFlow {flow.metadata.name} was deleted before it had finished"
            self._errors.add(CommandError(FAILED, deleted))
