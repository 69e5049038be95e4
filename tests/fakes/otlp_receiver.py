"""An OpenTelemetry receiver that takes OTLP over HTTP and decodes it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received:
    """The telemetry received: spans, metrics by name, the paths and headers of the requests, and schema URLs.

    Requests are answered while ``answers`` is set.
    """

    def __init__(self) -> None:
        self.address = ""
        self.status = self.metrics_status = 200
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.schemas: set[str] = set()
        self.answers = Event()
        self.answers.set()

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in resource.scope_spans:
                    self.schemas.add(scope.schema_url)
                    self.spans += scope.spans
        else:
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {each.name: each for scope in resource.scope_metrics for each in scope.metrics}

    def named(self, beginning: str) -> list[Any]:
        return [span for span in self.spans if span.name.startswith(beginning)]

    def above(self, span: Any) -> Any | None:
        return next((each for each in self.spans if each.span_id == span.parent_span_id), None)

    def name_above(self, span: Any) -> str:
        above = self.above(span)
        return "" if above is None else above.name


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in span.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    given = getattr(value, kind)
    return [_value(each) for each in given.values] if kind == "array_value" else given


@contextmanager
def otlp_receiver() -> Generator[Received]:
    """Serve on a free port of this machine."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.headers.append({name.lower(): value for name, value in self.headers.items()})
            received.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            received.answers.wait()
            self.send_response(received.metrics_status if self.path == "/v1/metrics" else received.status)
            self.send_header("Location", "http://127.0.0.1:9")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  as the base says it
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # closing it waits for them
    received.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
