"""Settings of the screen, read before its first frame: the user's ``[ui]`` table alone, without the models' checks."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from vibe.core.config.paths import CONFIG_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class UiSettings:
    """See ``vibe.core.config.models.UiConfig``; ``problem`` says what of it was not understood, blank: nothing."""

    theme: str = "textual-dark"
    mouse: bool = True
    notify: str = "bell"
    notify_after_seconds: float = 20.0
    status_line: str = ""
    problem: str = ""


def read_settings(home: Path) -> UiSettings:
    """The settings in the user's vibe folder; what can't be used is as usual, and the problem says so."""
    try:
        text = (home / CONFIG_FILE).read_text(encoding="utf-8")
        table = tomllib.loads(text).get("ui", {})
    except FileNotFoundError:
        return UiSettings()
    except (OSError, ValueError) as error:
        return UiSettings(problem=f"{CONFIG_FILE} can't be read ({error}): using the defaults")
    given = cast("dict[str, Any]", table) if isinstance(table, dict) else {}
    usual = UiSettings()
    known = {one.name for one in fields(UiSettings)} - {"problem"}
    good = {name: value for name, value in given.items() if name in known and _fits(value, getattr(usual, name))}
    bad = [name for name in given if name in known and name not in good]
    return UiSettings(**good, problem=f"[ui] {bad[0]}: invalid value, using the default" if bad else "")


def _fits(value: object, usual: object) -> bool:
    """Return whether a value is of the usual one's kind; every number is one."""
    if isinstance(usual, float):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is type(usual)
