"""ask_user_question: puts one to four questions to the user."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, Field

from vibe.core.tools.base import BaseTool, BaseToolState, InvokeContext, ToolArgs, ToolError, UnaskedConfig
from vibe.core.tools.questions import Question, QuestionAnswer


class AskUserQuestionArgs(ToolArgs):
    """The questions to ask."""

    questions: Annotated[list[Question], Field(min_length=1, max_length=4)]


class AskUserQuestionResult(BaseModel):
    """An answer to each question, or none if the person declines."""

    answers: list[QuestionAnswer]
    cancelled: bool = False


class AskUserQuestion(BaseTool[AskUserQuestionArgs, AskUserQuestionResult, UnaskedConfig, BaseToolState]):
    """Puts questions to the user."""

    description: ClassVar[str] = "Ask the user up to four questions, each with two to four answers to pick."
    read_only: ClassVar[bool] = True
    interactive: ClassVar[bool] = True

    async def run(self, args: AskUserQuestionArgs, ctx: InvokeContext) -> AskUserQuestionResult:
        """Ask the user and wait for the answers.

        Raises:
            ToolError: no user is there.
        """
        if ctx.user_input_callback is None:
            raise ToolError(
                "no one can answer questions in this run: decide yourself, and say in your answer what you assumed"
            )
        answers = await ctx.user_input_callback(args.questions)
        return AskUserQuestionResult(answers=list(answers or ()), cancelled=answers is None)

    def summarize(self, args: AskUserQuestionArgs) -> str:
        """Return the first question, and the number of others."""
        more = f" (and {len(args.questions) - 1} more)" if len(args.questions) > 1 else ""
        return f"ask_user_question {' '.join(args.questions[0].question.split())[:160]}{more}"

    def format_result(self, result: AskUserQuestionResult) -> str:
        """Return each question and its answer, a line each."""
        if result.cancelled:
            return "The user did not answer: go on without, or end and say what you need to know."
        return "\n".join(
            f"{answer.question}\n→ {answer.answer}{' (own words)' if answer.is_other else ''}"
            for answer in result.answers
        )
