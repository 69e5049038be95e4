"""The promise of ``vibe.sdk``: its names and their parameters match a file, and each change of that is a decision.

Within a major version, lines may be added to ``signatures.txt``. A line that is removed, or changed so that an earlier
call does not work, is deprecated for a minor version first. ``python -m tests.unit.sdk.test_promise`` writes the file.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import vibe.sdk
from vibe.sdk import options

FILE = Path(__file__).with_name("signatures.txt")
OPTIONS = (options.SessionOptions, options.PromptOptions, options.PlanOptions, options.MakePlanOptions)


def signature(name: str, function: Any) -> str:
    """Return a function with its parameters, as one line."""
    given = inspect.signature(function)
    parameters = [one for one in given.parameters.values() if one.name != "self"]
    return f"{name}{given.replace(parameters=parameters)}".replace("'", "")


def members(name: str, kind: type[object]) -> Iterator[str]:
    """Yield a class of the library with its fields, methods and properties. Of other kinds, yield only the name."""
    yield name
    if not kind.__module__.startswith("vibe.sdk"):
        return
    if is_dataclass(kind):
        yield from (f"{name}.{field.name}: {field.type}" for field in fields(kind) if field.init)
    for member, value in vars(kind).items():
        if isinstance(value, property) and value.fget:
            yield signature(f"{name}.{member}", value.fget)
        elif inspect.isfunction(value) and not member.startswith("_"):
            yield signature(f"{name}.{member}", value)


def promised() -> Iterator[str]:
    """Yield every line of the file."""
    for name in vibe.sdk.__all__:
        value: Any = getattr(vibe.sdk, name)
        yield from members(name, value) if isinstance(value, type) else [signature(name, value)]
    for kind in OPTIONS:
        yield from (f"{kind.__name__}[{name}]: {value}" for name, value in written(kind).items())


def written(kind: Any) -> dict[str, str]:
    """Return the options of a kind with their annotations."""
    return {name: getattr(value, "__forward_arg__", str(value)) for name, value in kind.__annotations__.items()}


def test_names_and_parameters_are_those_promised() -> None:
    assert list(promised()) == FILE.read_text().splitlines()


if __name__ == "__main__":
    FILE.write_text("".join(f"{line}\n" for line in promised()))
