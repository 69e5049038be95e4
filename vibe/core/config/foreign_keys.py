"""Lists the settings of Mistral Vibe that have no effect here, or another name.

Knowing them keeps the ``config.toml`` of Mistral Vibe from causing a warning for each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

FOREIGN_KEYS: Mapping[str, frozenset[str]] = MappingProxyType({
    "": frozenset({
        "active_transcribe_model", "active_tts_model", "api_retry_max_elapsed_time", "applied_migrations",
        "ask_confirmation_on_exit", "autocopy_to_clipboard", "bypass_tool_permissions", "compaction_model",
        "compaction_prompt_id", "connectors", "console_base_url", "cost_currency", "disable_welcome_banner_animation",
        "displayed_workdir", "enable_auto_update", "enable_config_orchestrator", "enable_connectors", "enable_otel",
        "enable_system_trust_store", "enable_telemetry", "experiment_overrides", "experimental_enable_registry_skills",
        "experiments", "file_watcher_for_autocomplete", "installed_agents", "narrator_enabled", "nuage_api_key_env_var",
        "nuage_base_url", "nuage_enabled", "nuage_project_name", "nuage_task_queue", "nuage_workflow_id",
        "otel_endpoint", "raise_on_compaction_failure", "textual_theme", "transcribe_models", "transcribe_providers",
        "tts_models", "tts_providers", "vibe_base_url", "vibe_code_api_key_env_var", "vibe_code_base_url",
        "vibe_code_enabled", "vibe_code_project_name", "vibe_code_sessions_base_url", "vibe_code_task_queue",
        "vibe_code_workflow_id", "vim_keybindings", "voice_mode_enabled", "workdir",
    }),
    "providers": frozenset({
        "browser_auth_allow_origin_rewrite", "browser_auth_api_base_url", "browser_auth_base_url",
        "emits_finish_reason", "project_id", "region",
    }),
    "models": frozenset({"display_name"}),
    "mcp_servers": frozenset({"cwd", "sampling_enabled"}),
    "session_logging": frozenset({"generate_titles", "save_dir", "session_prefix"}),
    "tools": frozenset({"enter_plan_mode", "exit_plan_mode", "websearch"}),
    "tools.bash": frozenset({"workdir"}),
    "tools.read_file": frozenset({"max_state_history", "sensitive_patterns"}),
    "tools.write_file": frozenset({"sensitive_patterns"}),
})  # fmt: skip
"""By table: the keys that Mistral Vibe 2.0 to 2.18 writes or reads (in its ``vibe/core/config``) and that have no
effect here."""

OUR_NAMES: Mapping[tuple[str, str], str] = MappingProxyType({
    ("models", "supports_images"): "sees_images",
    ("providers", "api_timeout"): "timeout_seconds",
})
"""Our names for settings with the same meaning, by their table and name in Mistral Vibe."""

MOVED: Mapping[str, tuple[tuple[str, str], Mapping[object, object]]] = MappingProxyType({
    "enable_notifications": (("ui", "notify"), {True: "bell", False: "off"}),
    "enable_update_checks": (("updates", "check"), {}),
    "theme": (("ui", "theme"), {}),
})
"""Our key, and our names for the values, of top-level settings of Mistral Vibe."""


def moved(name: str, value: Any) -> Any:
    """Return our value for the value of a setting in ``MOVED``."""
    return MOVED[name][1].get(value, value) if isinstance(value, str | bool) else value


REMEDIES: Mapping[str, str] = MappingProxyType({
    "api_retry_max_elapsed_time": "set retry_max_seconds of the provider instead",
    "bypass_tool_permissions": "set auto_approve instead",
    "compaction_prompt_id": "a compact.md among your prompts replaces the built-in one",
    "enable_telemetry": "nothing is ever sent",
    "session_logging.save_dir": "sessions are kept below VIBE_HOME, in logs/session",
    "tools.read_file.sensitive_patterns": "names of secrets are known; refuse more with denylist",
    "workdir": "give --workdir instead",
})
"""Advice on settings whose effect the user may want."""


def is_foreign(table: str, name: str) -> bool:
    """Return whether ``name`` in ``table`` (empty for the top level) is a setting of Mistral Vibe only."""
    return name in FOREIGN_KEYS.get(table, ())


def foreign_note(where: str, key: str) -> str:
    """Return the sentence about one such setting; ``key`` is spelled as in the file."""
    remedy = REMEDIES.get(key)
    return f"{where}: {key} is a setting of Mistral Vibe without effect here" + (f": {remedy}" if remedy else "")


def foreign_summary(notes: int) -> str:
    """Return the one line in which a run mentions all such settings."""
    if notes == 1:
        return "1 setting of Mistral Vibe has no effect here: `vibe doctor` names it, `vibe migrate` removes it"
    return (
        f"{notes} settings of Mistral Vibe have no effect here: `vibe doctor` lists them, `vibe migrate` removes them"
    )
