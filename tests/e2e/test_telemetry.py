"""Traces and metrics of a run arrive at an OpenTelemetry receiver.

Covers ``vibe.app``, ``vibe.app.engine``.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ipc.events import PlanStartedEvent
from tests.e2e.conftest import VibeCommand
from tests.e2e.test_prompt import turns
from tests.fakes.otlp_receiver import Received, attributes, otlp_receiver
from vibe.app import telemetry
from vibe.system.errors import EnvironmentFailure

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TOKENS = "gen_ai.client.inference.usage.{}_tokens"


@pytest.fixture
def received() -> Iterator[Received]:
    with otlp_receiver() as receiver:
        yield receiver


def _configure(vibe: VibeCommand, endpoint: str, more: str = "") -> None:
    vibe.home.mkdir(parents=True, exist_ok=True)
    (vibe.home / "config.toml").write_text(f'[telemetry]\notlp_endpoint = "{endpoint}"\n{more}')


def _demo(vibe: VibeCommand) -> dict[str, Any]:
    ended = vibe.process("plan", "run", "--demo", "--output", "json")
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    return document


def test_a_run_is_one_tree_and_its_journal_is_the_same_one_without_texts(vibe: VibeCommand, received: Received) -> None:
    _configure(vibe, received.address, 'content = true\nheaders = {authorization = "Bearer a,b=c"}\n')
    vibe.environ["TRACEPARENT"] = f"00-{TRACE}-{PARENT}-01"
    record = _demo(vibe)
    _is_whole_tree(received, record["plan_id"])
    _lies_within_each_other(received)
    _has_counted(received, record)
    _has_texts(received)
    [root] = received.named("invoke_workflow ")
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
    assert {header["authorization"] for header in received.headers} == {"Bearer a,b=c"}
    assert received.paths.count("/v1/metrics") == 1

    [journal] = vibe.home.glob("run/*/journal.jsonl")
    with otlp_receiver() as later:
        assert vibe("events", "export", str(journal), "--otlp", later.address).code == 0
    _is_whole_tree(later, record["plan_id"])
    _lies_within_each_other(later)
    assert {span.span_id for span in later.spans} == {span.span_id for span in received.spans}
    texts = ("messages", "arguments", "result")
    assert not any(name.endswith(texts) for span in later.spans for name in attributes(span))
    assert not later.metrics

    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:100]))
    with otlp_receiver() as cut:
        ended = vibe("events", "export", str(journal), "--otlp", cut.address)
    assert (ended.code, f"events 101 to {len(lines)} are lost" in ended.err) == (3, True)
    assert len(cut.named("invoke_workflow ")) == 1
    last = json.loads(lines[99])["ts"]
    assert all(span.end_time_unix_nano <= last * 1e9 + 1000 for span in cut.spans)


def _is_whole_tree(received: Received, plan_id: str) -> None:
    [root] = received.named("invoke_workflow ")
    assert root.name == "invoke_workflow Give textkit a slugify() and a shorten() function, each test"
    told = attributes(root)
    assert told["vibe.plan.id"] == plan_id
    assert (told["vibe.plan.steps"], told["vibe.plan.outcome"]) == (6, "completed")
    assert {span.trace_id for span in received.spans} == {root.trace_id}
    assert len({span.span_id for span in received.spans}) == len(received.spans)
    for span in received.spans:
        above = received.above(span)
        assert span is root or above is not None, span.name
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert above is None or above.start_time_unix_nano <= span.start_time_unix_nano
        assert above is None or span.end_time_unix_nano <= above.end_time_unix_nano, (span.name, above.name)
    assert received.schemas == {"https://opentelemetry.io/schemas/gen-ai/0.1.0"}


def _lies_within_each_other(received: Received) -> None:
    steps = {span.name: span for span in received.named("step ")}
    assert set(steps) == {f"step {each}" for each in ("survey", "design", "slugify", "shorten", "test", "docs")}
    links = {link.span_id for link in steps["step test"].links}
    assert links == {steps["step slugify"].span_id, steps["step shorten"].span_id}
    assert {received.name_above(span) for span in received.named("invoke_agent ")} <= set(steps)
    [chat, *_] = received.named("chat ")
    assert chat.name == "chat replay"
    assert received.name_above(chat).startswith("invoke_agent ")
    told = {name: value for name, value in attributes(chat).items() if not name.endswith("messages")}
    assert told.pop("gen_ai.response.time_to_first_chunk") >= 0
    assert told.pop("gen_ai.usage.input_tokens") > 0
    assert told.pop("gen_ai.usage.output_tokens") > 0
    assert told == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "replay",
        "gen_ai.request.model": "replay",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["tool_calls"],
        "gen_ai.usage.cache_read.input_tokens": 0,
    }
    tools = [(span, attributes(span)) for span in received.named("execute_tool ")]
    checks = [(received.name_above(span), told["process.exit.code"]) for span, told in tools if told.get("vibe.check")]
    assert sorted(code for name, code in checks if name == "step shorten") == [0, 1]


def _has_counted(received: Received, record: dict[str, Any]) -> None:
    sums = [received.metrics[TOKENS.format(kind)].sum.data_points for kind in ("input", "output")]
    counted = [sum(point.as_int for point in points) for points in sums]
    assert counted == [record["usage"]["prompt_tokens"], record["usage"]["completion_tokens"]]
    assert sum(point.count for point in received.metrics["vibe.step.duration"].histogram.data_points) == 6
    assert {"gen_ai.execute_tool.duration", "gen_ai.invoke_agent.duration"} <= set(received.metrics)


def _has_texts(received: Received) -> None:
    told = [attributes(span) for span in received.spans]
    arguments = [each["gen_ai.tool.call.arguments"] for each in told if "gen_ai.tool.call.arguments" in each]
    assert any("textkit/words.py" in each for each in arguments)
    asked = next(each for each in told if "gen_ai.input.messages" in each)
    assert json.loads(asked["gen_ai.input.messages"])[0]["role"] == "user"
    assert json.loads(asked["gen_ai.output.messages"])[0]["role"] == "assistant"
    assert all(len(str(value).encode()) <= 8192 for each in told for value in each.values())


def test_a_receiver_that_is_gone_costs_one_warning(vibe: VibeCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    _configure(vibe, f"http://127.0.0.1:{port}")
    record = _demo(vibe)
    assert record["outcome"] == "completed"
    [warning] = record["warnings"]
    assert f":{port} takes no spans (no answer: check the address)" in warning
    log = (vibe.home / "logs" / "vibe.log").read_text()
    assert (log.count("takes no spans"), "Traceback" in log) == (1, False)


def test_a_receiver_that_is_gone_is_told_in_a_prompts_text_once(vibe: VibeCommand) -> None:
    vibe.replay(turns({"text": "fine"}))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        given = f"telemetry.otlp_endpoint=http://127.0.0.1:{taken.getsockname()[1]}"
    ended = vibe("-p", "go", "--set", given, "--disabled-tools", "nosuch")
    assert (ended.code, ended.out) == (0, "fine\n")
    assert (ended.err.count("warning: "), ended.err.count("takes no spans"), ended.err.count("'nosuch'")) == (2, 1, 1)


def test_a_receiver_that_takes_spans_but_no_metrics_costs_one_warning(vibe: VibeCommand, received: Received) -> None:
    received.metrics_status = 404
    _configure(vibe, received.address)
    [warning] = _demo(vibe)["warnings"]
    assert warning.endswith(f"{received.address} takes spans, but no metrics")
    assert received.paths.count("/v1/metrics") == 1
    assert received.named("invoke_workflow")


def test_export_says_where_nothing_listens(vibe: VibeCommand, tmp_path: Path) -> None:
    event = PlanStartedEvent(goal="g", steps=(), plan_id="p", source="s", seq=1, ts=1.0, event_id="e")
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(msgspec.json.encode(event) + b"\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ended = vibe("events", "export", str(journal), "--otlp", f"http://127.0.0.1:{port}")
    assert ended.code == 3
    assert ended.err.startswith(f"vibe: http://127.0.0.1:{port} takes no spans (no answer: check the address); ")


def test_a_receiver_that_is_elsewhere_now_has_taken_nothing(vibe: VibeCommand, tmp_path: Path) -> None:
    event = PlanStartedEvent(goal="g", steps=(), plan_id="p", source="s", seq=1, ts=1.0, event_id="e")
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(msgspec.json.encode(event) + b"\n")
    with otlp_receiver() as received:
        received.status = 308
        ended = vibe("events", "export", str(journal), "--otlp", received.address)
    assert (ended.code, f"{received.address} takes no spans (it answers HTTP 308)" in ended.err) == (3, True)


def test_what_a_busy_receiver_answers_is_told(vibe: VibeCommand, received: Received) -> None:
    _configure(vibe, received.address)
    received.status = 503
    [warning] = _demo(vibe)["warnings"]
    assert f"{received.address} takes no spans (it answers HTTP 503); `vibe events export" in warning


def test_a_receiver_that_is_too_slow_is_told_as_that(received: Received, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "SEND_SECONDS", 0.2)
    received.answers.clear()
    event = PlanStartedEvent(goal="g", steps=(), plan_id="p", source="s", seq=1, ts=1.0, event_id="e")
    listener = telemetry.Telemetry(received.address, {})
    listener.publish(event)
    with pytest.raises(EnvironmentFailure, match=r"takes no spans \(too slow\)"):
        listener.close()
    received.answers.set()


def test_a_receiver_on_this_machine_is_asked_without_a_proxy_and_a_dead_proxy_is_named(
    received: Received, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{taken.getsockname()[1]}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    event = PlanStartedEvent(goal="g", steps=(), plan_id="p", source="s", seq=1, ts=1.0, event_id="e")
    for address in (received.address, received.address.replace("127.0.0.1", "localhost")):
        listener = telemetry.Telemetry(address, {})
        listener.publish(event)
        listener.close()
    assert received.paths.count("/v1/traces") == 2
    elsewhere = telemetry.Telemetry("http://receiver.test:4318", {})
    elsewhere.publish(event)
    with pytest.raises(EnvironmentFailure, match=r"takes no spans \(no answer: .*, and your HTTP\(S\)_PROXY\)"):
        elsewhere.close()


def test_what_is_no_address_is_told(vibe: VibeCommand) -> None:
    ended = vibe("events", "export", "whatever", "--otlp", "localhost:4318")
    assert ended.code == 2
    assert "'localhost:4318' is not the address of a receiver: give one such as http://localhost:4318" in ended.err


def test_a_missing_extra_is_told_before_anything_runs(vibe: VibeCommand, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "opentelemetry" / "sdk"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text('raise ImportError("no module", name="opentelemetry.sdk")\n')
    vibe.environ["PYTHONPATH"] = str(tmp_path / "hidden")
    _configure(vibe, "http://127.0.0.1:9")
    ended = vibe.process("plan", "run", "--demo")
    assert (ended.code, ended.out) == (3, "")
    assert ended.err == (
        "vibe: OpenTelemetry is not installed (opentelemetry.sdk): `pip install 'vibe-orchestrator[telemetry]'`, "
        "or leave [telemetry] out\n"
    )
    assert vibe.plan_ids() == []
