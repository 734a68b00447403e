"""A corrected flow in Python takes the results of the one that failed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from jobflow.app.sandbox_world import SandboxOptions, sandbox_world
from jobflow.authoring import ClusterError, Flow, InvalidFlow
from jobflow.authoring.results import Result
from jobflow.sandbox.nodes.process_runner import ProcessRunner
from jobflow.sandbox.nodes.simulate import SimulateRunner

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


def two_steps(name: str = "f") -> Flow:
    flow = Flow(name)
    first = flow.step("a", image="busybox", command=["true"])
    first >> flow.step("b", image="busybox", command=["true"])
    return flow


async def test_named_steps_run_although_they_have_not_changed() -> None:
    async with sandbox_world(SandboxOptions(runner=SimulateRunner(20.0))) as world:
        target: dict[str, Any] = {"kubeconfig": str(world.kubeconfig)}

        def go_on() -> Result:
            first = two_steps().submit(**target)
            first.wait(60)
            with pytest.raises(InvalidFlow, match=r'exists.* in Python: submit\(reuse="f"\)'):
                two_steps().submit(**target)
            with pytest.raises(ValueError, match="^rerun c: the flow has no such step"):
                two_steps().submit(**target, reuse=first, rerun=["b", "c"])
            with pytest.raises(ValueError, match="rerun needs reuse"):
                two_steps().submit(**target, rerun="b")
            return two_steps().submit(**target, reuse=first, rerun="b").wait(60)

        again = await asyncio.to_thread(go_on)
    assert reasons(again) == {"a": "Reused", "b": ""}


async def test_a_flow_that_is_not_on_the_cluster_is_not_reused() -> None:
    """Its name would be that of the new flow, which cannot reuse itself."""
    async with sandbox_world(SandboxOptions(runner=SimulateRunner(20.0))) as world:
        target: dict[str, Any] = {"kubeconfig": str(world.kubeconfig)}

        def go_on() -> None:
            local = two_steps().run(speed=20, show=False)
            message = 'this flow f is not in namespace "default" of the cluster'
            with pytest.raises(ClusterError, match=rf"{message}: .* that of run\(\) on this"):
                two_steps().submit(**target, reuse=local)
            deleted = two_steps().submit(**target)
            deleted.delete(cancel=True)
            with pytest.raises(ClusterError, match=f"{message}: it was deleted"):
                two_steps().submit(**target, reuse=deleted)

        await asyncio.to_thread(go_on)
