"""Flows and schedules, and what can be done with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jobflow.authoring.objects.faults import Fault, ends_at_caller
from jobflow.authoring.objects.flows import NamedCron, NamedFlow
from jobflow.authoring.objects.steps import Manifest

if TYPE_CHECKING:  # they take long, and a flow that only prints itself needs less
    from jobflow.authoring.handle import Run
    from jobflow.authoring.manifests import ObjectData
    from jobflow.authoring.results import Result
    from jobflow.client.options import Connection


class _Runnable(Manifest):
    @ends_at_caller
    def yaml(self, *, check: bool = True, lenient: bool = False) -> str:
        """Return the templates and the object as YAML. Raises InvalidFlow, unless `check` is
        false."""
        return to_yaml(self, check=check, lenient=lenient)

    @ends_at_caller
    def lint(self, *, lenient: bool = False) -> list[Fault]:
        """Check it as `jobflow lint` does, and return the warnings. Raises InvalidFlow with
        all faults. `lenient` makes warnings of those that admission only warns about."""
        return lint(self, lenient=lenient)

    def _repr_html_(self) -> str:
        from jobflow.authoring.manifests import graph_html

        return graph_html(self)

    @ends_at_caller
    def run(
        self,
        *,
        runner: str | None = None,
        speed: float | None = None,
        max_restarts: int | None = None,
        params: Mapping[str, Any] | None = None,
        secrets: ObjectData | None = None,
        config_maps: ObjectData | None = None,
        lenient: bool = False,
        show: bool = True,
    ) -> Result:
        """Run the flow, or one flow of a schedule, on this machine, as `jobflow run` does, and
        return how it ended.

        `runner="process"` runs the commands of containers as processes, "simulate" runs nothing.
        The default is "process" for a flow with functions, because later steps need what they
        return; "simulate" for other flows, and if `speed` is given, which makes its jobs faster.
        `params` replaces values. `secrets` and `config_maps` are those that containers read, such
        as `{"login": {"token": "x"}}`: text or bytes by key, by name. `show` prints the progress.
        Raises InvalidFlow, and RunError if the flow cannot end here."""
        from jobflow.authoring.sandbox import run

        return run(
            self,
            runner=runner,
            speed=speed,
            max_restarts=max_restarts,
            params=params or {},
            secrets=secrets or {},
            config_maps=config_maps or {},
            lenient=lenient,
            show=show,
        )


class Flow(_Runnable, NamedFlow):
    """A JobFlow. Its fields are those of `spec`, in snake_case; `params` is a map of names and
    values."""

    _submitted: Run | None = None

    @ends_at_caller
    def submit(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | None = None,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        reuse: Run | Result | str | None = None,
        rerun: str | Iterable[str] | None = None,
        lenient: bool = False,
    ) -> Run:
        """Apply the templates and create the flow on the cluster of the kubeconfig, with another
        `name` if one is given. Raises InvalidFlow if the flow has faults or the cluster refuses
        it, and ClusterError.

        With `reuse`, a flow that has ended or its name, only steps that have changed since then
        run, and those that depend on them; the results of the others are taken from it. `rerun`
        names steps that run nevertheless. If its own name is taken, the flow gets that name and a
        random suffix."""
        from jobflow.authoring.cluster import submit
        from jobflow.client.options import Connection

        target = Connection(namespace, kubeconfig, context)
        self._submitted = submit(
            self, target, params or {}, name=name, reuse=reuse, rerun=rerun, lenient=lenient
        )
        return self._submitted

    def wait(self, timeout: float | None = None) -> Result:
        """Wait until the flow that was submitted last has ended. Raises TimeoutError after
        `timeout` seconds, and ClusterError."""
        if self._submitted is None:
            raise ValueError(f"flow {self.name} was not submitted: call submit() first")
        return self._submitted.wait(timeout)


class CronFlow(_Runnable, NamedCron):
    """A CronJobFlow: creates a flow at each time of a schedule such as `30 2 * * *`. The name and
    the namespace of `flow` are not used."""

    _target: Connection | None = None
    """Where it was submitted last."""

    @ends_at_caller
    def submit(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | None = None,
        lenient: bool = False,
    ) -> None:
        """Apply the templates and the schedule on the cluster of the kubeconfig: create it, or
        change the one of this name. Raises InvalidFlow and ClusterError."""
        from jobflow.authoring.cluster import schedule
        from jobflow.client.options import Connection

        self._target = schedule(self, Connection(namespace, kubeconfig, context), lenient=lenient)

    def trigger(
        self,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> Run:
        """Create a flow now of the schedule with this name on the cluster, by default where it was
        submitted last. Raises ClusterError."""
        from jobflow.authoring.cluster import trigger
        from jobflow.client.options import Connection

        given = Connection(namespace, kubeconfig, context)
        target = given if given != Connection() else self._target or given
        return trigger(self.name, target, params or {})


@ends_at_caller
def to_yaml(*objects: Manifest, check: bool = True, lenient: bool = False) -> str:
    """Return flows, schedules and templates as YAML, templates first, each once. Raises
    InvalidFlow, unless `check` is false."""
    from jobflow.authoring.manifests import to_yaml as write

    return write(*objects, check=check, lenient=lenient)


@ends_at_caller
def lint(*objects: Manifest, lenient: bool = False) -> list[Fault]:
    """Check flows, schedules and templates together, and return the warnings. Raises
    InvalidFlow."""
    from jobflow.authoring.manifests import lint as check

    return check(*objects, lenient=lenient)
