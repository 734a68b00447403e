"""docker-compose.yml without containers: the command lines of its services as local processes.

Paths of mounts become folders of one directory, ports become free ones, and service names become
127.0.0.1. Volcano and KWOK are omitted.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, BinaryIO

import yaml

from support.cluster.control_plane import end_process, free_port
from support.cluster.control_plane_binaries import MODULE

COMPLETED = "service_completed_successfully"
WITHIN_SECONDS = 60
RETRY_SECONDS = 0.2
ETCD, ETCD_PEERS, API_SERVER, HTTP, WEBHOOK = "2379", "2380", "6443", "8080", "8443"
OMITTED = {"volcano-controllers", "volcano-scheduler", "volcano-admission", "kwok"}
ENTRYPOINTS = {"jobflow": ["jobflow"], "kubectl": ["kubectl"]}
"""Entry points of the images that have one."""


class Composition:
    """The services, with their addresses."""

    def __init__(self, assets: Path, home: Path) -> None:
        self._file: dict[str, Any] = yaml.safe_load(
            (MODULE.parent.parent / "docker-compose.yml").read_text()
        )
        self.services: dict[str, Any] = self._file["services"]
        self.home = home
        self._ports = {
            port: str(free_port()) for port in (ETCD, ETCD_PEERS, API_SERVER, HTTP, WEBHOOK)
        }
        self._assets = assets
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def files(self, folder: str) -> Path:
        """Return the folder that containers mount as /<folder>."""
        return self.home / folder

    # ---------------------------------------------------------------------- lifecycle

    @contextmanager
    def running(self) -> Iterator[None]:
        """Like `docker compose up --wait`; all processes have ended afterwards."""
        self.mount()
        try:
            for name in self._ordered():
                if name in self._awaited():
                    self.complete(name)
                else:
                    self._start(name)
            for name, service in self.services.items():
                if "healthcheck" in service:
                    self._await_healthy(name)
            yield
        finally:
            for name in reversed(list(self._processes)):
                self.stop(name)

    def complete(self, name: str) -> None:
        """Run a service to its end, and repeat it after a failure if it restarts on failure."""
        deadline = time.monotonic() + WITHIN_SECONDS
        while self._run(name) != 0:
            assert self.services[name].get("restart") == "on-failure", self.output(name)
            assert time.monotonic() < deadline, self.output(name)
            time.sleep(RETRY_SECONDS)

    def stop(self, name: str) -> int:
        """Send SIGTERM to a service and return its exit code."""
        return end_process(self._processes.pop(name))

    def output(self, name: str) -> str:
        """Return the end of a service's output."""
        return (self.home / f"{name}.log").read_text()[-4000:]

    # ---------------------------------------------------------------------- command lines

    def localize(self, text: str) -> str:
        """Return docker-compose.yml with `$$` replaced by `$`, as containers see it."""
        text = text.replace("$$", "$")
        text = re.sub(rf"\b({'|'.join(self._ports)})\b", lambda m: self._ports[m[0]], text)
        text = re.sub(rf"(//|host[ =])({'|'.join(self.services)})\b", r"\g<1>127.0.0.1", text)
        mounts = "|".join(re.escape(mount) for mount in self._mounts())
        return re.sub(rf"(?<!\w)({mounts})\b", lambda m: f"{self.home}{m[0]}", text)

    def command_line(self, name: str) -> list[str]:
        """A service's program and its arguments."""
        service = self.services[name]
        image = service["image"].rpartition(":")[0].rpartition("/")[2]
        words = [*service.get("entrypoint", ENTRYPOINTS.get(image, [])), *service["command"]]
        if name == "volcano-definitions":
            words = [word for word in words if not word.startswith("--filename=https://")]
            words.append(f"--filename={MODULE / 'crds'}")
        return [self.localize(word) for word in words]

    @property
    def _environment(self) -> dict[str, str]:
        """The environment, with the ports that no command line names."""
        peers = f"http://localhost:{self._ports[ETCD_PEERS]}"
        return os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{self._assets}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NO_PROXY": "*",
            "no_proxy": "*",
            "ETCD_LISTEN_PEER_URLS": peers,
            "ETCD_INITIAL_ADVERTISE_PEER_URLS": peers,
            "ETCD_INITIAL_CLUSTER": f"default={peers}",
            "JOBFLOW_HTTP_PORT": self._ports[HTTP],
            "JOBFLOW_WEBHOOK_PORT": self._ports[WEBHOOK],
        }

    # ---------------------------------------------------------------------- details

    def _mounts(self) -> set[str]:
        volumes = {
            volume.split(":")[1]
            for service in self.services.values()
            for volume in service.get("volumes", ())
        }
        return volumes | {config["target"] for config in self._configs()}

    def _configs(self) -> list[dict[str, str]]:
        return [one for service in self.services.values() for one in service.get("configs", ())]

    def mount(self) -> None:
        """Create the folders that containers mount."""
        for mount in self._mounts():
            Path(f"{self.home}{mount}").mkdir(parents=True)
        for config in self._configs():
            path = Path(f"{self.home}{config['target']}")
            path.rmdir()
            path.write_text(self.localize(self._file["configs"][config["source"]]["content"]))

    def _ordered(self) -> list[str]:
        needs = {name: service.get("depends_on", {}) for name, service in self.services.items()}
        return [name for name in TopologicalSorter(needs).static_order() if name not in OMITTED]

    def _awaited(self) -> set[str]:
        """The services that another waits for to complete."""
        return {
            needed
            for service in self.services.values()
            for needed, dependency in service.get("depends_on", {}).items()
            if dependency["condition"] == COMPLETED
        }

    def _start(self, name: str) -> None:
        with self._log(name) as log:
            self._processes[name] = subprocess.Popen(
                self.command_line(name), env=self._environment, stdout=log, stderr=log
            )

    def _run(self, name: str) -> int:
        with self._log(name) as log:
            return subprocess.run(
                self.command_line(name),
                env=self._environment,
                stdout=log,
                stderr=log,
                timeout=WITHIN_SECONDS,
            ).returncode

    def _log(self, name: str) -> BinaryIO:
        return (self.home / f"{name}.log").open("ab")

    def _await_healthy(self, name: str) -> None:
        form, *words = self.services[name]["healthcheck"]["test"]
        assert form == "CMD"
        check = [self.localize(word) for word in words]
        deadline = time.monotonic() + WITHIN_SECONDS
        while subprocess.run(check, env=self._environment, capture_output=True).returncode:
            assert self._processes[name].poll() is None, self.output(name)
            assert time.monotonic() < deadline, self.output(name)
            time.sleep(RETRY_SECONDS)
