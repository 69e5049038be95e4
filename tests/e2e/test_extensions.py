"""A package installed beside vibe adds a backend, an executor and a listener.

Covers ``vibe.core.tools``, ``subagents``, ``vibe.app.engine``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.e2e.conftest import VibeCommand
from tests.e2e.test_installs import uv

EXECUTES = True  # packages are found when a process starts
MODULE = """
from contextlib import asynccontextmanager
from pathlib import Path

from subagents.executor import StepResult
from vibe.core.llm.port import Completion, Delta, FinishReason
from vibe.core.messages import AssistantMessage, Usage, UserMessage
from vibe.core.messages import Outcome


class Parrot:
    def __init__(self, provider, key):
        self._word, self._key = provider.name, key

    async def complete(self, request, observer):
        said = [message.content for message in request.messages if isinstance(message, UserMessage)]
        text = f"{self._word} ({self._key}): {said[-1]}"
        observer.delta(Delta(text=text))
        return Completion(message=AssistantMessage(content=text), finish_reason=FinishReason.STOP, usage=Usage(3, 2, 0, 1))

    async def aclose(self):
        pass


class Elsewhere:
    def __init__(self, local):
        self._local = local

    async def run(self, task, stop):
        if task.step.command is not None:
            return await self._local.run(task, stop)
        return StepResult(outcome=Outcome.COMPLETED, summary=f"{task.step_id} was done elsewhere")


@asynccontextmanager
async def elsewhere(steps, local):
    yield Elsewhere(local)


class Tally:
    def __init__(self, environ):
        self._file = Path(environ["TALLY"])
        self._types = []

    def publish(self, event):
        self._types.append(event.__struct_config__.tag)

    def close(self):
        self._file.write_text("\\n".join(self._types))


class Sick(Tally):
    def __init__(self, environ):
        self._file = environ["SICK"]


class Torn(Tally):
    def publish(self, event):
        raise ValueError("torn")
"""
ENTRIES = """\
[vibe.backends]
parrot = parrot:Parrot
[vibe.executors]
elsewhere = parrot:elsewhere
[vibe.listeners]
tally = parrot:Tally
torn = parrot:Torn
gone = parrot:Gone
sick = parrot:Sick
"""
PROVIDER = """\
active_model = "bird"
[[providers]]
name = "polly"
backend = "{}"
api_key_env_var = "POLLY_KEY"
[[models]]
name = "bird"
provider = "polly"
[ipc]
listeners = [{}]
"""
STEPS = [
    {"id": "think", "title": "Think", "mode": "research"},
    {"id": "do", "title": "Do", "mode": "run", "command": "echo done > log", "depends_on": ["think"]},
]


@pytest.fixture
def vibe(vibe: VibeCommand, tmp_path: Path) -> VibeCommand:
    wheel = tmp_path / "parrot-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("parrot.py", MODULE)
        packed.writestr("parrot-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
        packed.writestr("parrot-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr("parrot-1.0.dist-info/entry_points.txt", ENTRIES)
        packed.writestr("parrot-1.0.dist-info/RECORD", "")
    installed = tmp_path / "installed"
    argv = [str(uv()), "pip", "install", "--quiet", "--offline", "--no-deps", "--target", str(installed), str(wheel)]
    subprocess.run(argv, check=True)
    vibe.environ |= {"PYTHONPATH": str(installed), "POLLY_KEY": "k1", "TALLY": str(tmp_path / "tally")}
    return vibe


def test_a_backend_answers_and_listeners_hear(vibe: VibeCommand, tmp_path: Path) -> None:
    vibe.configure(PROVIDER.format("parrot", '"torn", "tally"'))

    ended = vibe.process("-p", "say it", "--output", "json")

    record = json.loads(ended.out)
    assert (ended.code, record["outcome"]) == (0, "completed")
    assert record["result"].startswith("polly (k1): ")
    assert record["usage"]["completion_tokens"] == 2
    assert "the listener 'torn' failed and has heard no more: torn" in record["warnings"]
    heard = (tmp_path / "tally").read_text().splitlines()
    assert heard.index("prompt.started") < heard.index("assistant.message") < heard.index("prompt.ended")


def test_an_executor_does_the_steps_it_wants_and_hands_on_the_others(vibe: VibeCommand) -> None:
    vibe.configure(PROVIDER.format("parrot", ""))
    (vibe.workdir / "p.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": STEPS}))

    ended = vibe.process("plan", "run", "p.json", "--executor", "elsewhere", "--auto-approve", "--output", "json")

    steps = json.loads(ended.out)["steps"]
    assert (ended.code, [step["status"] for step in steps]) == (0, ["completed", "completed"])
    assert steps[0]["summary"] == "think was done elsewhere"
    assert (vibe.workdir / "log").read_text() == "done\n"


BESIDE = """
from vibe.sdk import run_plan

ended = run_plan("p.json", executor="elsewhere", functions={"here": lambda task: task.inputs[0].summary}).wait()
print(ended.steps["here"].summary)
"""


def test_a_program_names_an_executor_of_a_package_and_does_steps_beside_it(vibe: VibeCommand) -> None:
    vibe.configure(PROVIDER.format("parrot", ""))
    here = {"id": "here", "title": "Here", "mode": "code", "depends_on": ["think"]}
    (vibe.workdir / "p.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": [*STEPS, here]}))
    (vibe.workdir / "beside.py").write_text(BESIDE)

    ended = vibe.run([sys.executable, str(vibe.workdir / "beside.py")])

    assert (ended.code, ended.out, ended.err) == (0, "think was done elsewhere\n", "")


@pytest.mark.parametrize(
    ("backend", "listeners", "words", "code", "says"),
    [
        ("parot", "", ("-p", "x"), 2, "'scripted', 'local' or 'parrot', not \"parot\""),
        ("parrot", '"taly"', ("-p", "x"), 2, "no installed package has 'taly' among its vibe.listeners: did you mean 'tally'?"),
        ("parrot", '"gone"', ("-p", "x"), 3, "'gone' of vibe.listeners can't be made by parrot:Gone (AttributeError:"),
        ("parrot", '"tally", "sick"', ("-p", "x"), 3, "'sick' of vibe.listeners can't be made by parrot:Sick (KeyError: 'SICK'): mend"),
        ("parrot", "", ("plan", "run", "p.json", "--executor", "x"), 2, "choose from local, process, dask, elsewhere"),
    ],
)  # fmt: skip
def test_what_no_package_has_is_said(
    backend: str, listeners: str, words: tuple[str, ...], code: int, says: str, vibe: VibeCommand
) -> None:
    vibe.configure(PROVIDER.format(backend, listeners))
    (vibe.workdir / "p.json").write_text(json.dumps({"version": 1, "goal": "g", "steps": STEPS}))

    ended = vibe.process(*words)

    assert (ended.code, "Traceback" in ended.err) == (code, False)
    assert says in ended.err
