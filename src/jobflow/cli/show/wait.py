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


async def wait_for_flows(
    names: Sequence[str],
    connection: Connection,
    selection: Selection,
    limit: str | None,
    output: ObjectOutput | None = None,
) -> int:
    """Print a line when each flow has finished, or with `output` all flows at the end. `limit` is a
    duration such as 1h30m, or a number of seconds."""
    seconds, errors = _seconds(limit), Errors()
    async with await connect(connection) as client:
        flows = await find_each(client, names, selection, errors)
        if errors.code:  # a name is wrong: nobody wants to learn that after an hour
            return errors.code
        waiting: dict[Key, JobFlow] = {key_of(flow): flow for flow in flows}
        ended: dict[Key, JobFlow] = {}
        line = WaitLine(waiting, make_console(stderr=True))

        def see(flow: JobFlow) -> None:
            key = key_of(flow)
            if key not in waiting:  # a retry of a flow that has ended does not count
                return
            if not flow.final:
                waiting[key] = flow
                return
            del waiting[key]
            ended[key] = flow
            if output is None:
                line.print(f"JobFlow {flow.metadata.name}: {state_of(flow)}")
            if flow.status.state.phase == FlowPhase.FAILED:
                errors.add_code(FAILED)

        def note_deletion(flow: JobFlow) -> None:
            if waiting.pop(key_of(flow), None) is not None:
                deleted = f"JobFlow {flow.metadata.name} was deleted before it had finished"
                errors.add(CommandError(FAILED, deleted))

        async def until_all() -> None:
            async with following(client, flows, see, note_deletion) as follower:
                await follower.until(lambda _: not waiting)

        try:
            with interruption() as stop, line:
                async with asyncio.timeout(seconds) as deadline:
                    if not await run_unless(stop, until_all()):
                        return INTERRUPTED
        except TimeoutError:
            if not deadline.expired():  # of a request
                raise
            if waiting:  # with --timeout 0 even a finished flow is over the time
                listed = join_names([name for _, name in waiting])
                verb = "has" if len(waiting) == 1 else "have"
                why = format_command("jobflow why", next(iter(waiting.values())).metadata)
                over = f"{listed} {verb} not finished within --timeout; {why} explains it"
                raise CommandError(max(TIMED_OUT, errors.code), over) from None
    if output is not None:
        # in the order in which they were named
        found = [ended[key] for key in map(key_of, flows) if key in ended]
        print_flow_objects(found, output, single=len(names) == 1)
    return errors.code


def _seconds(limit: str | None) -> float | None:
    if limit is None:
        return None
    # `sleep` and `timeout` of a shell count in seconds too
    text = f"{limit}s" if limit.replace(".", "", 1).isdigit() else limit
    try:
        return parse_duration(text)
    except ValueError:
        sentence = f'--timeout "{limit}" is not a duration: write it like 90s, 10m or 1h30m'
        raise CommandError(UNUSABLE, sentence) from None


class WaitLine:
    """One line on a terminal that says what is waited for; nothing in a pipe."""

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
        # above this one, if stdout is the same terminal
        self.__exit__()
        print(printable(line), flush=True)
        self.__enter__()

    def __rich__(self) -> Text:
        return self.text(datetime.now(UTC))

    def text(self, now: datetime) -> Text:
        """Return the line; a narrow terminal shows its beginning."""
        flows = [*self._flows.values()]  # a copy, because another thread draws it
        if not flows:
            return Text()
        flow, passed = flows[0], format_elapsed(self._since, now)
        which = f" for {len(flows)} of {self._total} flows" if self._total > 1 else ""
        line = f"waiting {passed}{which}: {flow.metadata.name} is {state_of(flow)}"
        return Text(printable(line), style="dim", no_wrap=True, overflow="ellipsis")
