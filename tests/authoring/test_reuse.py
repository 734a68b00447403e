"""A corrected flow in Python takes the results of the one that failed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jobflow.app.sandbox_world import SandboxOptions, sandbox_world
from jobflow.authoring import ClusterError, Flow
from jobflow.authoring.results import Result
from jobflow.sandbox.nodes.process_runner import ProcessRunner

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # TLS connections that close slowly
]


def bugfix(wrong: int) -> Flow:
    """Return a flow of five steps, of which the third divides by n - `wrong`."""
    flow = Flow("bugfix")

    @flow.task()
    def load() -> int:
        return 6

    @flow.task()
    def prepare(n: int) -> int:
        return n + 1

    if wrong == 7:

        @flow.task()
        def evaluate(n: int) -> float:
            return 1 / (n - 7)
    else:

        @flow.task()
        def evaluate(n: int) -> float:
            return 1 / (n - 6)

    @flow.task()
    def report(score: float) -> str:
        return f"score {score}"

    @flow.task()
    def publish(text: str) -> str:
        return text

    publish(report(evaluate(prepare(load().result).result).result).result)
    return flow


def reasons(result: Result) -> dict[str, str]:
    return {name: step.reason for name, step in result.steps.items()}


@pytest.mark.long
async def test_only_what_was_mended_runs_and_what_depends_on_it(tmp_path: Path) -> None:
    with ProcessRunner(tmp_path) as runner:
        async with sandbox_world(SandboxOptions(runner=runner)) as world:
            target: dict[str, Any] = {"kubeconfig": str(world.kubeconfig)}

            def go_on() -> list[Result]:
                failed = bugfix(7).submit(**target).wait(60)
                assert failed["evaluate"].failure is not None
                mended = bugfix(6).submit(**target, reuse=failed)
                assert mended.name.startswith("bugfix-")
                again = bugfix(6).submit(**target, reuse=mended.wait(60).name)
                again.wait(60)
                last = bugfix(6).submit(**target, reuse=again).wait(60)
                return [failed, mended.status(), again.status(), last]

            failed, mended, again, last = await asyncio.to_thread(go_on)
            with pytest.raises(ClusterError, match='JobFlow "bugfxi" does not exist'):
                await asyncio.to_thread(lambda: bugfix(6).submit(**target, reuse="bugfxi"))
    assert failed.phase == "Failed"
    assert (mended.phase, mended["publish"].result) == ("Succeed", "score 1.0")
    reused = [name for name, reason in reasons(mended).items() if reason == "Reused"]
    assert reused == ["load", "prepare"]
    assert mended["load"].job == "bugfix-load"
    for each in (again, last):
        assert set(reasons(each).values()) == {"Reused"}
        assert each["publish"].result == "score 1.0"
