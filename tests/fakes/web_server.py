"""A small web server on this machine that serves the pages of a test."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Page:
    """An answer of the server. With ``endless`` the body is sent again and again until nobody listens."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict[str, str])
    endless: bool = False
    wait: threading.Event | None = None


class WebServer:
    """Serves pages by path. ``hosts`` lists the Host headers of the requests."""

    def __init__(self, pages: dict[str, Page], tls: ssl.SSLContext | None = None) -> None:
        self.pages = pages
        self.hosts: list[str] = []
        self.sent = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]

    @contextmanager
    def running(self) -> Generator[WebServer]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _handler_of(server: WebServer) -> Callable[..., BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.hosts.append(self.headers["Host"])
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            page = server.pages.get(self.path, Page(b"nothing here", 404, {"Content-Type": "text/plain"}))
            if page.wait is not None:
                page.wait.wait(20)
            self.send_response(page.status)
            length = {} if page.endless else {"Content-Length": str(len(page.body))}
            for name, value in (page.headers | length).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(page.body)
                    server.sent += len(page.body)
                    if not page.endless:
                        break
            except OSError:
                self.close_connection = True

        def do_POST(self) -> None:
            self.do_GET()

        def do_HEAD(self) -> None:
            page = server.pages.get(self.path)
            self.send_response(404 if page is None else page.status)
            self.send_header("Content-Length", str(0 if page is None else len(page.body)))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's name
            """Print nothing."""

    return Handler
