"""A real control plane for tests: etcd, kube-apiserver and kube-controller-manager as processes.

Nothing schedules or runs pods. Only the garbage collector and the namespace controller run. Each
process can be stopped, killed and started again.
"""

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

READY_WITHIN_SECONDS = 60
STOPPED_WITHIN_SECONDS = 20

ETCD, API_SERVER, CONTROLLERS = "etcd", "kube-apiserver", "kube-controller-manager"
USERS = {
    "admin": "system:masters",
    "system:kube-controller-manager": "system:masters",
    "jobflow": "",
    "jobflow-2": "",
    "volcano": "",
    "alice": "",
}
"""Users and their groups. tests/cluster/roles.yaml has the rights of all but the first two."""

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def token(user: str) -> str:
    """Credentials of a user."""
    return f"test-{user}"


def kubeconfig_of(
    user: str, cluster: dict[str, str], *, namespace: str = "default", **credentials: str
) -> str:
    """Return a kubeconfig of one user and one cluster."""
    context = {"cluster": "test", "user": user, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": context}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
    }
    return json.dumps(config)


def end_process(process: subprocess.Popen[bytes], *, hard: bool = False) -> int:
    """End a process by SIGTERM or SIGKILL, and return its exit code."""
    process.kill() if hard else process.terminate()
    try:
        return process.wait(STOPPED_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@dataclass
class ControlPlane:
    """Addresses and files of a control plane, and its processes by name."""

    assets: Path
    directory: Path
    port: int = field(default_factory=free_port)
    etcd_port: int = field(default_factory=free_port)
    etcd_peer_port: int = field(default_factory=free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    controllers: tuple[str, ...] = ("garbage-collector-controller", "namespace-controller")
    admission_plugins: tuple[str, ...] = ()
    """Admission plugins in addition to the default ones."""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.etcd_port}"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    @property
    def ca(self) -> Path:
        """The API server's own certificate, which it signs itself."""
        return self.directory / "certs" / "apiserver.crt"

    def trust(self) -> ssl.SSLContext:
        """A context that trusts this API server."""
        return ssl.create_default_context(cafile=self.ca)

    # ---------------------------------------------------------------------- processes

    def start(self) -> None:
        """Start all processes; returns when the API server is ready."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._write_files()
        self.start_etcd()
        self.start_api_server()
        self.start_controllers()

    @property
    def _data(self) -> Path:
        return self.directory / "etcd"

    @property
    def _etcd_peer(self) -> str:
        return f"http://127.0.0.1:{self.etcd_peer_port}"

    def start_etcd(self) -> None:
        self._start(
            ETCD,
            f"--data-dir={self._data}",
            f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}",
            f"--listen-peer-urls={self._etcd_peer}",
            f"--initial-advertise-peer-urls={self._etcd_peer}",
            f"--initial-cluster=default={self._etcd_peer}",
            "--unsafe-no-fsync=true",
            "--log-level=error",
        )

    def start_api_server(self) -> None:
        """Start the API server, always on the same port; returns when it is ready."""
        self._start(
            API_SERVER,
            f"--etcd-servers={self.etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--cert-dir={self.directory / 'certs'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={self.directory / 'sa.key'}",
            f"--service-account-key-file={self.directory / 'sa.pub'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--disable-admission-plugins=ServiceAccount",
            f"--enable-admission-plugins={','.join(self.admission_plugins)}",
            f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-mode=blocking",
            "--v=1",
        )
        self._await_ready()

    def start_controllers(self) -> None:
        self._start(
            CONTROLLERS,
            f"--kubeconfig={self.kubeconfig('system:kube-controller-manager')}",
            f"--controllers={','.join(self.controllers)}",
            "--use-service-account-credentials=false",
            "--leader-elect=false",
            "--secure-port=0",
            f"--service-account-private-key-file={self.directory / 'sa.key'}",
        )

    def stop(self) -> None:
        """Stop everything in an order that lets no process wait for another."""
        for name in reversed(list(self.processes)):
            self.end(name)

    def end(self, name: str, *, hard: bool = False) -> None:
        """End a process by SIGTERM or SIGKILL; returns after its end."""
        end_process(self.processes.pop(name), hard=hard)

    def log(self, name: str) -> str:
        """Return the end of a process's output."""
        return (self.directory / f"{name}.log").read_text()[-2000:]

    # ---------------------------------------------------------------------- clients

    def connect(self, user: str = "admin") -> httpx.Client:
        """A client with the token of this user."""
        head = {"Authorization": f"Bearer {token(user)}"}
        return httpx.Client(
            base_url=self.url, headers=head, verify=self.trust(), trust_env=False, timeout=30
        )

    def kubeconfig(self, user: str, *, through: str = "") -> Path:
        """A kubeconfig of this user; `through`: the URL of a proxy, "" for none."""
        place = f"-through-{through.rpartition(':')[2]}" if through else ""
        path = self.directory / f"{user.rpartition(':')[2]}{place}.kubeconfig"
        cluster = {"server": through or self.url, "certificate-authority": str(self.ca)}
        path.write_text(kubeconfig_of(user, cluster, token=token(user)))
        return path

    def compact(self) -> None:
        """Let etcd drop every version except the newest, as it does every five minutes."""
        revision = self._etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})

    def snapshot(self) -> Path:
        """Return a file with everything that etcd holds now."""
        path = self.directory / "snapshot.db"
        url = f"{self.etcd_url}/v3/maintenance/snapshot"
        with path.open("wb") as file, httpx.stream("POST", url, json={}, trust_env=False) as answer:
            for line in answer.iter_lines():
                file.write(b64decode(json.loads(line)["result"].get("blob", "")))
        return path

    def restore(self, snapshot: Path, *options: str) -> None:
        """Restore etcd from a snapshot as an administrator does: everything is stopped, and started
        on the restored data. `options` are those of `etcdutl snapshot restore`."""
        for name in (CONTROLLERS, API_SERVER, ETCD):
            self.end(name)
        shutil.rmtree(self._data)
        subprocess.run(
            [
                str(self.assets / "etcdutl"),
                *("snapshot", "restore", str(snapshot), f"--data-dir={self._data}"),
                f"--initial-cluster=default={self._etcd_peer}",
                f"--initial-advertise-peer-urls={self._etcd_peer}",
                *options,
            ],
            check=True,
            capture_output=True,
        )
        self.start_etcd()
        self.start_api_server()
        self.start_controllers()

    def _etcd(self, path: str, body: dict[str, Any]) -> Any:
        with httpx.Client(base_url=self.etcd_url, trust_env=False) as client:
            return client.post(path, json=body).raise_for_status().json()

    # ---------------------------------------------------------------------- details

    def _start(self, name: str, *arguments: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(self.assets / name), *arguments], stdout=log, stderr=log
            )

    def _write_files(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.directory / "sa.key").write_bytes(private)
        (self.directory / "sa.pub").write_bytes(public)
        lines = [f'{token(user)},{user},{user},"{groups}"' for user, groups in USERS.items()]
        (self.directory / "tokens.csv").write_text("\n".join(lines) + "\n")
        (self.directory / "audit-policy.yaml").write_text(json.dumps(AUDIT_POLICY))

    def _await_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_SECONDS
        while not self._ready():
            dead = self.processes[API_SERVER].poll() is not None
            if dead or time.monotonic() > deadline:
                raise RuntimeError(f"kube-apiserver is not ready: {self.log(API_SERVER)}")
            time.sleep(0.1)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, httpx.TransportError), self.connect() as client:
            return client.get("/readyz", timeout=5).is_success
        return False


@contextlib.contextmanager
def control_plane(assets: Path, directory: Path, **options: Any) -> Iterator[ControlPlane]:
    """Run a control plane while the body runs; options as of ControlPlane."""
    plane = ControlPlane(assets, directory, **options)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
