"""A pod that answers in strange ways, a port each. Ends when the file `end` is there; every request
but to the last port is to come from a probe."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

IP = os.environ["POD_IP"]


class Busy(BaseHTTPRequestHandler):
    """503 until the file `ready` is there."""

    def do_GET(self) -> None:
        self.send_response(200 if Path("ready").exists() else 503)
        self.end_headers()


class LargeReviews(BaseHTTPRequestHandler):
    """Leads to another port, as it might to a cloud's metadata."""

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", f"http://{IP}:8406/latest/meta-data/")
        self.end_headers()


class Endless(BaseHTTPRequestHandler):
    """A head of 1 MiB."""

    def do_GET(self) -> None:
        self.send_response(200)
        for number in range(1024):
            self.send_header(f"X-{number}", "x" * 1024)
        self.end_headers()


class Mute(BaseRequestHandler):
    """Never answers."""

    def handle(self) -> None:
        while self.request.recv(4096):
            pass


class Slow(BaseRequestHandler):
    """An answer that is right, if anybody waits for it."""

    def handle(self) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n\r\n":
            self.request.sendall(bytes([byte]))
            time.sleep(0.2)


class Metadata(BaseHTTPRequestHandler):
    """Nobody may come here."""

    def do_GET(self) -> None:
        Path("followed").touch()
        self.send_response(200)
        self.end_headers()


class Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A probe has left: that is what a pod sees of it."""


for port, handler in enumerate((Busy, LargeReviews, Endless, Mute, Slow, Metadata), 8401):
    server = Server((IP, port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
while not Path("end").exists():
    time.sleep(0.02)
