"""The permission hooks of tools written for Mistral Vibe 2.x, as far as they are heard here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from vibe.core.tools.permissions import Assessment, ToolPermission, listed
from vibe.core.tools.schema import keyword_values


class MistralHooks:
    """Hooks a tool may define. Each answers with a permission or with something that has one; None: no opinion."""

    def check_allowlist_denylist(self, args: Any) -> Any:
        """Compare the text arguments with the lists of the tool."""
        config = cast("Any", self).config
        texts = (value for value in keyword_values(args).values() if isinstance(value, str))
        return listed(texts, config.allowlist, config.denylist)

    def resolve_permission(self, args: Any) -> Any:  # noqa: ARG002  overridden by tools of Mistral Vibe
        """Return the permission of a call."""
        return None


def assess_by_hooks(tool: MistralHooks, args: Any) -> Assessment:
    """Return what the hooks make of a call: what a list denies is denied, else ``resolve_permission`` counts."""
    by_lists, by_rules = tool.check_allowlist_denylist(args), tool.resolve_permission(args)
    answer = by_lists if by_rules is None or _permission(by_lists) is ToolPermission.NEVER else by_rules
    return Assessment(listed=_permission(answer), reason=str(getattr(answer, "reason", None) or ""))


def narrowed(tool: MistralHooks, args: Any, own: Assessment) -> Assessment:
    """Return the tool's own assessment with what its hooks refuse or ask about; they allow nothing that it does not."""
    cls = type(tool)
    hooks = (cls.check_allowlist_denylist, cls.resolve_permission)
    if hooks == (MistralHooks.check_allowlist_denylist, MistralHooks.resolve_permission):
        return own
    heard = assess_by_hooks(tool, args)
    stricter = heard.listed in {ToolPermission.NEVER, ToolPermission.ASK} and own.listed is not ToolPermission.NEVER
    return replace(own, listed=heard.listed, reason=heard.reason or own.reason) if stricter else own


def _permission(answer: Any) -> ToolPermission | None:
    given = getattr(answer, "permission", answer)
    return None if given is None else ToolPermission(given)
