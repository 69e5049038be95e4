"""Every failure of a model server, injected by servers written by others, against the installed command.

Covers ``vibe.core.llm``, ``vibe.app.plan``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.fault_matrix import ANSWER, FAULTS, KEY_VARIABLE, ONCE, PROVIDER, SERVER, Fault, Instruction
from tests.fakes.model_mocks import aimock, call, llmock
from tests.fakes.npm_peers import install_peers
from tests.fakes.ports import free_port

BACKENDS = ("generic", "mistral", "anthropic")
LLMOCK_PATHS = {"generic": "/v1", "mistral": "/mistral/v1", "anthropic": "/anthropic/v1"}
KEY = "sk-fault-matrix"


def prompt(fault: Fault, backend: str) -> str:
    """Return the prompt by which aimock recognises a case."""
    return f"Case {fault.name} of {backend}."


def fixtures() -> list[Instruction]:
    """Return all fixtures for aimock, which counts the requests of each case separately."""
    found: list[Instruction] = []
    for fault, backend in ((fault, backend) for fault in FAULTS for backend in BACKENDS):
        if not fault.aimock:
            continue
        *firsts, last = fault.aimock
        match = {"userMessage": prompt(fault, backend)}
        found += [{"match": {**match, "sequenceIndex": number}, **first} for number, first in enumerate(firsts)]
        found.append({"match": match, **last})
    return found


@pytest.fixture(scope="module")
def llmock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llmock(tmp_path_factory.mktemp("llmock")) as url:
        yield url


@pytest.fixture(scope="module")
def aimock_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    install_peers()
    with aimock(tmp_path_factory.mktemp("aimock"), fixtures()) as url:
        yield url


def configure(vibe: VibeCommand, fault: Fault, backend: str, api_base: str) -> None:
    vibe.environ[KEY_VARIABLE] = KEY
    vibe.configure(
        'active_model = "m"\n'
        f'[[providers]]\nname = "{PROVIDER}"\nbackend = "{backend}"\napi_base = "{api_base}"\n'
        f'api_key_env_var = "{KEY_VARIABLE}"\nretry_max_seconds = {fault.retry_max_seconds}\n'
        f"timeout_seconds = {fault.timeout_seconds}\n"
        f'[[models]]\nname = "m"\nprovider = "{PROVIDER}"\n'
    )


def check(vibe: VibeCommand, fault: Fault, backend: str) -> None:
    """Run the prompt, and compare the result with the row."""
    if fault.retries < 2:
        vibe.retries = ONCE
    ended = vibe("--output", "json", "-p", prompt(fault, backend))

    said = re.sub(r"http://127\.0\.0\.1:\d+", SERVER, ended.err)
    record = json.loads(re.sub(r"http://127\.0\.0\.1:\d+", SERVER, ended.out))
    assert (record["outcome"], ended.code, record["reason"]) == (fault.outcome, fault.exit_code, fault.reason), said
    assert record["result"] == ("" if fault.exit_code else ANSWER)
    told = re.compile(r"warning: model (?:not reachable|call failed) · try \d+ in [\d.]+ s · (.*)")
    reasons = [found[1] for line in said.splitlines() if (found := told.fullmatch(line))]
    assert len(reasons) == fault.retries, said
    assert all(fault.pattern.fullmatch(reason) for reason in reasons), reasons
    if fault.exit_code:
        assert re.fullmatch(fault.pattern.pattern + (r" \(tried 2 times\)" if fault.retries else ""), record["detail"])
    assert "Traceback" not in said
    assert KEY not in said + ended.out
    saved = (vibe.home / "logs" / "session" / record["session_id"] / "messages.jsonl").read_text()
    assert saved.count(ANSWER) == (0 if fault.exit_code else 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.llmock], ids=lambda fault: fault.name)
def test_a_fault_of_llmock(vibe: VibeCommand, llmock_url: str, fault: Fault, backend: str) -> None:
    fine = {"type": "reply", "text": ANSWER, "times": 9}
    call(f"{llmock_url}/_llmock/reset", "")
    call(f"{llmock_url}/_llmock/scenario", {"behaviors": [*(fault.llmock or ()), fine]})
    configure(vibe, fault, backend, llmock_url + LLMOCK_PATHS[backend])

    check(vibe, fault, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.aimock], ids=lambda fault: fault.name)
def test_a_fault_of_aimock(vibe: VibeCommand, aimock_url: str, fault: Fault, backend: str) -> None:
    configure(vibe, fault, backend, aimock_url if backend == "mistral" else f"{aimock_url}/v1")

    check(vibe, fault, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_server_that_is_not_there(vibe: VibeCommand, backend: str) -> None:
    fault = next(fault for fault in FAULTS if fault.llmock is None and fault.aimock is None)
    configure(vibe, fault, backend, f"http://127.0.0.1:{free_port()}/v1")

    check(vibe, fault, backend)
