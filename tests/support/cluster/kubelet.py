"""A node for tests on a control plane without one: pods are processes on this machine.

It binds pods, runs each container's command line with its service account's token, probes it,
writes the pod's status and ends it when the pod is deleted. `port` acts as a Service: it forwards
to pods that are ready. The real controllers do everything else.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from support.cluster.control_plane import ControlPlane, free_port, kubeconfig_of, token

IMAGE_ENTRYPOINT = "jobflow"
"""The program of the Dockerfile; a container's args are its arguments."""
POLL_SECONDS = 0.1
IDLE_WITHIN_SECONDS = 60
NODE = "node-of-test"
NOW = "2026-01-01T00:00:00Z"


@dataclass
class Running:
    """A pod, its process, and the local ports of its container ports. Pods share an address here,
    so each gets free ports."""

    manifest: dict[str, Any]
    directory: Path
    process: asyncio.subprocess.Process
    ports: dict[str, int]
    ready: bool = False
    code: int | None = None
    command: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        return pod_path(self.manifest)

    @property
    def container(self) -> dict[str, Any]:
        found: dict[str, Any] = self.manifest["spec"]["containers"][0]
        return found

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text()


def pod_path(pod: dict[str, Any]) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


class Kubelet:
    """Looks after every pod of a namespace while `running`."""

    def __init__(self, plane: ControlPlane, namespace: str, directory: Path) -> None:
        self._plane = plane
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._directory = directory
        self.pods: dict[str, Running] = {}
        self.ended: list[Running] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Kubelet]:
        """End every process at the end, and raise errors from the meantime."""
        head = {"Authorization": f"Bearer {token('admin')}"}
        async with httpx.AsyncClient(
            base_url=self._plane.url, headers=head, verify=self._plane.trust(), trust_env=False
        ) as self._admin:
            task = asyncio.create_task(self._poll())
            try:
                yield self
            finally:
                task.cancel()
                await asyncio.wait([task])
                for pod in self.pods.values():
                    await _end(pod)
                for pod in (*self.ended, *self.pods.values()):  # for the output of a failed test
                    print(pod.manifest["metadata"]["name"], pod.code, pod.log, sep="\n")
            if not task.cancelled() and (error := task.exception()):
                raise error

    async def idle(self) -> None:
        """Return after all pods have ended."""
        async with asyncio.timeout(IDLE_WITHIN_SECONDS):
            while self.pods:  # noqa: ASYNC110 - another server ends them
                await asyncio.sleep(POLL_SECONDS)

    @asynccontextmanager
    async def port(self, name: str) -> AsyncIterator[int]:
        """A port of this machine that leads to this container port of a pod that is ready."""

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            ready = [pod.ports[name] for pod in self.pods.values() if pod.ready]
            with contextlib.suppress(OSError, IndexError):
                pod_reader, pod_writer = await asyncio.open_connection("127.0.0.1", ready[0])
                await asyncio.gather(_forward(reader, pod_writer), _forward(pod_reader, writer))
            writer.close()

        async with await asyncio.start_server(forward, "127.0.0.1", 0) as server:
            yield server.sockets[0].getsockname()[1]

    # ---------------------------------------------------------------------- pods

    async def _poll(self) -> None:
        while True:
            listed = (await self._admin.get(self._pods)).json()["items"]
            for pod in listed:
                await self._update(pod)
            uids = {pod["metadata"]["uid"] for pod in listed}
            for uid in [uid for uid in self.pods if uid not in uids]:  # deleted at once
                await _end(self.pods[uid])
                self.ended.append(self.pods.pop(uid))
            await asyncio.sleep(POLL_SECONDS)

    async def _update(self, manifest: dict[str, Any]) -> None:
        known = self.pods.get(manifest["metadata"]["uid"])
        if known is None and "deletionTimestamp" not in manifest["metadata"]:
            if manifest.get("status", {}).get("phase") == "Pending":
                await self._start(manifest)
        elif "deletionTimestamp" in manifest["metadata"]:
            await self._finish(manifest, known)
        elif known is not None and known.code is None:
            await self._probe(known)

    async def _start(self, manifest: dict[str, Any]) -> None:
        path, spec = pod_path(manifest), manifest["spec"]
        if "nodeName" not in spec:
            target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
            body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": ""}}
            body["metadata"] = {"name": manifest["metadata"]["name"]}
            await self._ask("POST", f"{path}/binding", {**body, "target": target})
        directory = self._directory / manifest["metadata"]["name"]
        (directory / "tmp").mkdir(parents=True)
        container = spec["containers"][0]
        ports = {port["name"]: free_port() for port in container.get("ports", ())}
        command = await self._command(manifest, directory, ports)
        environment = await self._environment(manifest, directory)
        with (directory / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *command, env=environment, cwd=directory, stdout=log, stderr=log
            )
        pod = Running(manifest, directory, process, ports, command=command)
        self.pods[manifest["metadata"]["uid"]] = pod
        await self._report(pod)

    async def _command(
        self, manifest: dict[str, Any], directory: Path, ports: dict[str, int]
    ) -> list[str]:
        """Return the command line of the container with local ports and paths."""
        container = manifest["spec"]["containers"][0]
        paths = await self._volumes(manifest, directory)
        local_ports = {
            port["containerPort"]: ports[port["name"]] for port in container.get("ports", ())
        }
        line = []
        for argument in container.get("args", ()):
            flag, equals, value = argument.partition("=")
            if value.isdigit() and int(value) in local_ports:
                value = str(local_ports[int(value)])
            for path, local in paths.items():
                if value == path or value.startswith(f"{path}/"):
                    value = f"{local}{value.removeprefix(path)}"
            line.append(f"{flag}{equals}{value}")
        entry = container.get("command", [IMAGE_ENTRYPOINT])
        return [str(Path(sys.executable).with_name(entry[0])), *entry[1:], *line]

    async def _volumes(self, manifest: dict[str, Any], directory: Path) -> dict[str, Path]:
        """Return folders with the content of the volumes, by mount path."""
        spec, paths = manifest["spec"], {}
        volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
        for mount in spec["containers"][0].get("volumeMounts", ()):
            folder = paths[mount["mountPath"]] = directory / "volumes" / mount["name"]
            folder.mkdir(parents=True)
            if secret := volumes[mount["name"]].get("secret"):
                home = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/secrets"
                found = await self._ask("GET", f"{home}/{secret['secretName']}")
                for name, content in found["data"].items():
                    (folder / name).write_bytes(base64.b64decode(content))
        return paths

    async def _environment(self, manifest: dict[str, Any], directory: Path) -> dict[str, str]:
        meta, spec = manifest["metadata"], manifest["spec"]
        fields = {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "spec.nodeName": NODE,
            "status.podIP": "127.0.0.1",
        }
        variables = {
            variable["name"]: variable["value"]
            if "value" in variable
            else fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
            for variable in spec["containers"][0].get("env", ())
        }
        kubeconfig = await self._kubeconfig(
            meta["namespace"], spec["serviceAccountName"], directory
        )
        return {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(kubeconfig),
            "HOSTNAME": meta["name"],
            "TMPDIR": str(directory / "tmp"),
            **variables,
        }

    async def _kubeconfig(self, namespace: str, account: str, directory: Path) -> Path:
        """Return the service account's files in a pod: token, CA, namespace."""
        home = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        granted = await self._ask("POST", f"{home}/token", request)
        (directory / "token").write_text(granted["status"]["token"])
        cluster = {"server": self._plane.url, "certificate-authority": str(self._plane.ca)}
        path = directory / "kubeconfig"
        tokens = str(directory / "token")
        path.write_text(kubeconfig_of("pod", cluster, namespace=namespace, tokenFile=tokens))
        return path

    async def _probe(self, pod: Running) -> None:
        code, ready = pod.process.returncode, pod.ready
        if code is None and (probe := pod.container.get("readinessProbe")):
            url = f"http://127.0.0.1:{pod.ports[probe['httpGet']['port']]}"
            ready = False
            with contextlib.suppress(httpx.HTTPError):
                async with httpx.AsyncClient(trust_env=False) as client:
                    answer = await client.get(url + probe["httpGet"]["path"], timeout=3)
                    ready = answer.status_code < 400
        if (code, ready) != (pod.code, pod.ready):
            pod.code, pod.ready = code, ready and code is None
            await self._report(pod)

    async def _finish(self, manifest: dict[str, Any], known: Running | None) -> None:
        """Delete the pod: SIGTERM, the grace period, SIGKILL, then the object."""
        if known is not None:
            known.ready = False
            await _end(known, manifest["metadata"].get("deletionGracePeriodSeconds", 30))
            self.ended.append(self.pods.pop(manifest["metadata"]["uid"]))
        await self._ask("DELETE", pod_path(manifest), {"gracePeriodSeconds": 0}, missing=True)

    async def _report(self, pod: Running) -> None:
        """Write the pod's status."""
        phase = "Running" if pod.code is None else "Succeeded" if pod.code == 0 else "Failed"
        ready = str(pod.ready)
        conditions = {"Initialized": "True", "ContainersReady": ready, "Ready": ready}
        state: dict[str, Any] = {"running": {"startedAt": NOW}}
        if pod.code is not None:
            state = {"terminated": {"exitCode": pod.code, "startedAt": NOW, "finishedAt": NOW}}
        status = {
            "phase": phase,
            "podIP": "127.0.0.1",
            "startTime": NOW,
            "conditions": [
                {"type": kind, "status": value, "lastTransitionTime": NOW}
                for kind, value in conditions.items()
            ],
            "containerStatuses": [
                {
                    "name": pod.container["name"],
                    "image": pod.container["image"],
                    "imageID": "",
                    "ready": pod.ready,
                    "restartCount": 0,
                    "state": state,
                }
            ],
        }
        await self._ask("PATCH", f"{pod.path}/status", {"status": status}, missing=True)

    async def _ask(self, method: str, path: str, body: Any = None, *, missing: bool = False) -> Any:
        patch = {"Content-Type": "application/strategic-merge-patch+json"}
        plain = {"Content-Type": "application/json"}
        content = None if body is None else json.dumps(body)
        head = patch if method == "PATCH" else plain
        answer = await self._admin.request(method, path, content=content, headers=head)
        assert answer.is_success or (missing and answer.status_code == 404), answer.text
        return answer.json()


async def _end(pod: Running, grace: float = 30) -> None:
    """End a process as a node does."""
    if pod.process.returncode is None:
        pod.process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(pod.process.wait(), grace)
        except TimeoutError:
            pod.process.kill()
            await pod.process.wait()
    pod.code = pod.process.returncode


async def _forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(65536):
            sink.write(piece)
            await sink.drain()
    sink.close()
