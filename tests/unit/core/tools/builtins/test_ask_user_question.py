from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.events import AnswerEvent, QuestionEvent, RequestWithdrawnEvent
from ipc.sink import MemorySink
from tests.fakes.engine import BUILTIN_TOOLS
from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.messages import ToolCall
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.builtins.ask_user_question import AskUserQuestion
from vibe.core.tools.errors import ToolArgumentsError, ToolError
from vibe.core.tools.executor import ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.questions import Question, QuestionAnswer, announcing
from vibe.core.tools.workspace import Workspace


def question(**more: Any) -> dict[str, Any]:
    options = [{"label": "JWT", "description": "stateless"}, {"label": "Cookies"}]
    return {"question": "Which one?", "header": "Auth", "options": options, **more}


class Person:
    def __init__(self, answers: Sequence[QuestionAnswer] | None) -> None:
        self.answers = answers
        self.open = 0
        self.most = 0

    async def __call__(self, questions: Sequence[Question], request_id: str = "") -> Sequence[QuestionAnswer] | None:  # noqa: ARG002
        self.open += 1
        self.most = max(self.most, self.open)
        await anyio.lowlevel.checkpoint()
        self.open -= 1
        return self.answers and [QuestionAnswer(question=one.question, answer="JWT") for one in questions]


async def ask(root: Path, person: Person, *calls: dict[str, Any]) -> tuple[list[str], MemorySink]:
    sink = MemorySink()
    executor = ToolExecutor(
        tools=BUILTIN_TOOLS.filtered(None),
        context=InvokeContext(workspace=Workspace(root=root), user_input_callback=person),
        approvals=Approvals(),
        sink=sink,
    )
    wanted = [ToolCall(f"c{i}", "ask_user_question", json.dumps({"questions": [one]})) for i, one in enumerate(calls)]
    batch = await executor.run_all(wanted, lambda _: None)
    return [message.content for message in batch.messages], sink


async def test_the_answers_reach_the_model_and_both_are_announced(tmp_path: Path) -> None:
    person = Person([QuestionAnswer(question="", answer="")])

    contents, sink = await ask(tmp_path, person, question(), question(question="And now?"))

    assert contents == ["Which one?\n→ JWT", "And now?\n→ JWT"]
    assert person.most == 1
    asked = [event for event in sink.events if isinstance(event, QuestionEvent | AnswerEvent)]
    assert [type(event) for event in asked] == [QuestionEvent, AnswerEvent] * 2
    assert isinstance(asked[0], QuestionEvent)
    assert isinstance(asked[1], AnswerEvent)
    assert [event.tool_call_id for event in asked if isinstance(event, QuestionEvent)] == ["c0", "c1"]
    assert asked[1].by == "user"
    assert asked[0].questions[0]["options"][0]["label"] == "JWT"
    assert isinstance(asked[1], AnswerEvent)
    assert (asked[1].request_id, asked[1].by) == (asked[0].request_id, "user")


async def test_a_person_who_would_rather_not_is_no_error(tmp_path: Path) -> None:
    contents, sink = await ask(tmp_path, Person(None), question())

    assert contents[0].startswith("The user did not answer")
    answered = next(event for event in sink.events if isinstance(event, AnswerEvent))
    assert answered.cancelled


async def test_a_question_is_withdrawn_when_its_agent_is_stopped() -> None:
    sink = MemorySink()

    async def ask_on(questions: Sequence[Question], request_id: str = "") -> None:  # noqa: ARG001  the port's signature
        scope.cancel()
        await anyio.sleep_forever()

    asking = announcing(ask_on, sink)
    with anyio.CancelScope() as scope:
        await asking([Question.model_validate(question())])

    asked, withdrawn = sink.events
    assert isinstance(asked, QuestionEvent)
    assert isinstance(withdrawn, RequestWithdrawnEvent)
    assert (withdrawn.request_id, withdrawn.kind) == (asked.request_id, "question")


async def test_where_nobody_is_there_it_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no one can answer questions in this run: decide yourself"):
        await Caller(root=tmp_path).call(make(AskUserQuestion), questions=[question()])


@pytest.mark.parametrize(
    "questions",
    [
        [],
        [question()] * 5,
        [question(header="thirteen char")],
        [question(options=[{"label": "only one"}])],
        [question(options=[{"label": str(number)} for number in range(5)])],
        [question(question="")],
    ],
)
async def test_questions_keep_to_their_limits(tmp_path: Path, questions: list[dict[str, Any]]) -> None:
    with pytest.raises(ToolArgumentsError, match=r"arguments\.questions"):
        await Caller(root=tmp_path).call(make(AskUserQuestion), questions=questions)
