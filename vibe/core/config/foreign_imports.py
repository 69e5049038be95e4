"""Maps names that Python code for Mistral Vibe imports to where they are here, or to what to use instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType


def _by_name(rows: Mapping[str, str]) -> Mapping[str, str]:
    """Map each name in the space-separated keys to the row's value."""
    return MappingProxyType({name: row for names, row in rows.items() for name in names.split()})


HERE = _by_name({
    "AgentManager": "vibe.core.agents.manager",
    "AgentProfile AgentSafety AgentType": "vibe.core.agents.models",
    "ModelConfig ProviderConfig SessionLoggingConfig VibeConfig": "vibe.core.config.models",
    "ExecutionMode MODE_CATALOG ModeGuidance": "vibe.core.modes",
    "SkillManager": "vibe.core.skills.manager",
    "BaseTool BaseToolConfig BaseToolState": "vibe.core.tools.base",
    "InvokeContext ToolError ToolPermission ToolStreamEvent": "vibe.core.tools.base",
    "NoSuchToolError": "vibe.core.tools.errors",
    "ToolManager": "vibe.core.tools.manager",
    "ToolCallDisplay ToolCallEvent ToolResultDisplay ToolResultEvent ToolUIData": "vibe.core.tools.ui",
})
"""Names with the same meaning here, and the module that defines them."""
RUN = "start an agent with `vibe -p PROMPT --output json`"
ASKED = "a tool is asked about before it runs, by its permission, its lists and what its `assess` says"
ASSESS = "`resolve_permission` may return a ToolPermission; `assess` returns an Assessment of vibe.core.tools.base"
EVENTS = "what a run announces is in ipc.events, and `vibe events` prints it"
MODELS = "ModelCatalog of vibe.core.llm.factory makes them"
PLANS = "`vibe plan new` makes a plan, planner.plan.model describes one"
STEPS = "a step of a plan is done by a subagent, as the tool `task` starts them"
INSTEAD = _by_name({
    "Agent AgentLoop run_programmatic": RUN,
    "ApprovalCallback ApprovalResponse": ASKED,
    "AssistantEvent BaseEvent CompactEndEvent CompactStartEvent UserMessageEvent": EVENTS,
    "BACKEND_FACTORY Backend BackendLike GenericBackend LLMBackend MistralBackend create_backend": MODELS,
    "LLMMessage Role": "vibe.core.messages has a class for each kind of message",
    "PlanState PlanStep PlannerAgent": PLANS,
    "SubAgent SubAgentConfig": STEPS,
    "PermissionContext PermissionScope RequiredPermission": ASSESS,
    "APIToolFormatHandler": "ToolManager.schemas of vibe.core.tools.manager has what a model is offered",
    "ToolUIDataAdapter": "call_summary and result_display of vibe.core.tools.ui word calls and results",
    "UserInputCallback": "ctx.user_input_callback is a UserInput of vibe.core.tools.questions",
    "get_universal_system_prompt": "Guidance.system_prompt of vibe.core.guidance makes it",
})
"""Names that don't exist here, and what to use instead."""
MODULES: Mapping[str, str] = MappingProxyType({
    "vibe.core.agent": RUN,
    "vibe.core.llm.backend.base": MODELS,
    "vibe.core.llm.backend.factory": MODELS,
    "vibe.core.llm.types": "vibe.core.llm.port has what a model takes and gives",
    "vibe.core.planner": PLANS,
    "vibe.core.programmatic": RUN,
    "vibe.core.tools.models": ASSESS,
    "vibe.core.subagent": STEPS,
})
"""Modules that don't exist here, and what to use instead."""

_MISSING_NAME = re.compile(r"cannot import name '(\w+)' from '(vibe\b[\w.]*)'")


def advice_on(error: BaseException) -> str:
    """Return what to use instead of a name or module of Mistral Vibe that could not be imported.

    Return an empty string if the error is about anything else.
    """
    if isinstance(error, ModuleNotFoundError) and error.name is not None and error.name.split(".")[0] == "vibe":
        return MODULES.get(
            error.name, "that is a module of Mistral Vibe; vibe.core.types has the names that are here, too"
        )
    missing = _MISSING_NAME.search(str(error)) if isinstance(error, ImportError) else None
    if missing is None:
        return ""
    name, module = missing.groups()
    return f"import it from {HERE[name]}" if HERE.get(name, module) != module else INSTEAD.get(name, "")
