"""Asks a model a first question: whether it answers and calls a tool, and if not, a sentence on what is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum

import anyio
from msgspec import Struct

from vibe.core.config.models import ModelConfig, VibeConfig
from vibe.core.llm.errors import ModelAccessError, ModelError, ModelRequestError, ModelTransportError
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.port import Delta, ModelRequest, Notice, ToolSchema
from vibe.core.messages import UserMessage
from vibe.system.errors import VibeError

TRIAL_SECONDS = 60.0
"""The longest wait for the answer. A server at home may have to load the model first."""
QUESTION = "Call the tool `ready` once. If you have no tools, reply with the one word: ready"
TOOL = ToolSchema(
    name="ready",
    description="Tells that you are ready.",
    parameters={"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]},
)
_KEY_STATUSES = frozenset({401, 403})


class TrialFault(StrEnum):
    """Kinds of failures, by what has to be corrected."""

    KEY = "key"
    ADDRESS = "address"
    MODEL = "model"
    OTHER = "other"


class Trial(Struct, frozen=True, kw_only=True):
    """The result of a first question, described by ``sentence``. ``fault`` is None if the model answered.

    ``calls_tools`` says that it called the tool it was asked to call. A model that does not can do no work here.
    """

    fault: TrialFault | None
    sentence: str
    calls_tools: bool = False


class _IgnoredCall:
    """Watches a call of which only the result matters."""

    def delta(self, delta: Delta, /) -> None:
        """Ignore it."""

    def notice(self, notice: Notice, /) -> None:
        """Ignore it."""


async def ask_once(config: VibeConfig, environ: Mapping[str, str], model: ModelConfig, shown_key: str) -> Trial:
    """Ask the model one short question, once. Sentences show the key as ``shown_key``."""
    started = time.monotonic()
    impatient = tuple(provider.model_copy(update={"retry_max_seconds": 0.0}) for provider in config.providers)
    catalog = ModelCatalog(config.model_copy(update={"providers": impatient}), environ)
    request = ModelRequest(model=model, messages=[UserMessage(QUESTION)], tools=[TOOL])
    try:
        with anyio.fail_after(TRIAL_SECONDS):
            answered = await catalog.backend(model).complete(request, _IgnoredCall())
    except TimeoutError:
        problem = f"{model.provider!r} did not answer within {TRIAL_SECONDS:g} s: check the network, or try again"
        return Trial(fault=TrialFault.ADDRESS, sentence=problem)
    except ModelError as error:
        return _trial_of_error(error, catalog, model, shown_key)
    except VibeError as error:
        return Trial(fault=TrialFault.OTHER, sentence=str(error))
    finally:
        with anyio.CancelScope(shield=True):
            await catalog.aclose()
    calls_tools = any(call.name == TOOL.name for call in answered.message.tool_calls)
    words = "" if calls_tools else ", but as text: it calls no tools, so it can't change anything here"
    sentence = f"{model.name} answered after {time.monotonic() - started:.1f} s{words}"
    return Trial(fault=None, sentence=sentence, calls_tools=calls_tools)


def _trial_of_error(error: ModelError, catalog: ModelCatalog, model: ModelConfig, shown_key: str) -> Trial:
    status = f" (HTTP {error.status})" if error.status is not None else ""
    who = f"{model.provider!r}"
    if isinstance(error, ModelAccessError) and error.status in _KEY_STATUSES:
        problem = (
            f"{who} refused the key{f' {shown_key}' if shown_key else ''}{status}: check that all of it was copied"
        )
        return Trial(fault=TrialFault.KEY, sentence=f"{problem} and that it is still valid")
    if isinstance(error, ModelTransportError) and error.unreachable:
        address = catalog.provider(model).api_base
        problem = f"{who} can't be reached at {address}: check the address and the network, or start the server there"
        return Trial(fault=TrialFault.ADDRESS, sentence=problem)
    if isinstance(error, ModelRequestError) and error.is_about_model:
        problem = f"{who} does not serve the model {model.name!r}{status}: choose another"
        return Trial(fault=TrialFault.MODEL, sentence=problem)
    return Trial(fault=TrialFault.OTHER, sentence=str(error))
