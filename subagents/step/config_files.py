"""Config files of a step's checks, which decide what the checks do although no check names them.

``CONFIG_FILES`` is the table. The whole workspace is searched for such files, except the folders that searches leave
out (dependencies, build output). A step may add, change or remove one only if its ``writes`` names it by the file's own
name (``pyproject.toml``, ``**/conftest.py``). A wildcard in the last part of a path names no config file.

New modules that hide those of Python or of a test tool (``json.py``) count, too, in the places where ``python`` looks
first: in the folder a check works in, the folder of a script it runs, its ``PYTHONPATH``, and beside tests.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import translate
from pathlib import Path
from typing import Literal

from msgspec import Struct

from vibe.system.files import entries_of
from vibe.system.globs import expand_braces, matches_any
from vibe.system.ignore import DEFAULT_IGNORES

CONFIG_FILES: Mapping[str, tuple[str, ...]] = {
    "Python": (
        "conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "pyproject.toml", "setup.cfg",
        "setup.py", "tox.ini", "tox.toml", "noxfile.py", ".coveragerc", "sitecustomize.py", "usercustomize.py",
        "mypy.ini", ".mypy.ini", "ruff.toml", ".ruff.toml", ".flake8", "pylintrc", ".pylintrc", "pyrightconfig.json",
        "unittest.cfg", "nose2.cfg", "uv.toml", "hatch.toml",
    ),
    "JavaScript": (
        "package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml", "bunfig.toml",
        "deno.json", "deno.jsonc", "jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.setup.*",
        "vitest.workspace.*", "vite.config.*", ".mocharc*", "karma.conf.*", "playwright.config.*", "cypress.config.*",
        "ava.config.*", "babel.config.*", ".babelrc*", ".swcrc", "tsconfig*.json", ".nycrc*", ".c8rc*", ".eslintrc*",
        "eslint.config.*", ".eslintignore", "biome.json*",
    ),
    "Rust": (
        "Cargo.toml", "build.rs", ".cargo/config", ".cargo/config.toml", "rust-toolchain", "rust-toolchain.toml",
        ".config/nextest.toml", "clippy.toml", ".clippy.toml",
    ),
    "Go": ("go.mod", "go.work", ".golangci.*"),
    "C and C++": (
        "CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json", "CTestCustom.*", "meson.build", "meson.options",
        "meson_options.txt", "SConstruct", ".bazelrc", "MODULE.bazel",
    ),
    "Java and Kotlin": (
        "pom.xml", ".mvn/*", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts",
        "gradle.properties",
    ),
    ".NET": ("Directory.Build.props", "Directory.Build.targets", "nuget.config", "global.json", "*.runsettings"),
    "Ruby": ("Gemfile", "Rakefile", ".rspec", "spec_helper.rb", "rails_helper.rb", "test_helper.rb", ".rubocop.yml"),
    "PHP": ("composer.json", "phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml", "phpstan.neon*"),
    "Elixir": ("mix.exs", "test_helper.exs"),
    "any language": (
        "Makefile", "GNUmakefile", "justfile", ".justfile", "Taskfile.yml", "Taskfile.yaml", ".pre-commit-config.yaml",
        ".tool-versions", "mise.toml", ".mise.toml",
    ),
}  # fmt: skip
"""The files that configure checks, by language: names, patterns, or ends of paths, compared without regard to case."""

BUILT_FILES = frozenset({"makefile", "gnumakefile"})
"""Config files that build systems write. One that appears during a check is not the step's doing."""

HIDEABLE = (sys.stdlib_module_names | {
    "_pytest", "black", "coverage", "flake8", "hypothesis", "iniconfig", "mypy", "nose2", "nox", "packaging", "pluggy",
    "pylint", "pyright", "pytest", "pytest_cov", "ruff", "tox", "xdist",
}) - {"test", "this"}  # fmt: skip
"""Modules that a check may import and a file beside it can hide."""

MODULE_ENDINGS = frozenset({"py", "pyc", "pyd", "so"})
"""File name extensions of modules."""
SKIPPED_FOLDERS = (
    *DEFAULT_IGNORES, "site-packages", "vendor", "_build", "_deps", "cmake-build-*", "bower_components",
    "__pypackages__", "Pods", ".yarn", ".gradle", ".terraform", ".direnv", ".pixi",
)  # fmt: skip
"""Patterns of the folders that are skipped."""
MOST_ENTRIES = 200_000
"""Directory entries read in one workspace, from its root downwards. Files beyond these are not guarded."""

_PATTERNS = [
    re.escape(pattern.lower()).replace("\\*", "[^/]*") for patterns in CONFIG_FILES.values() for pattern in patterns
]
_CONFIG_FILE = re.compile(rf"(?:.*/)?(?:{'|'.join(_PATTERNS)})", re.DOTALL)
_SKIPPED = re.compile("|".join(map(translate, SKIPPED_FOLDERS)))


class ConfigChange(Struct, frozen=True):
    """A change of a config file; ``how`` is a verb phrase."""

    name: str
    how: Literal["was created", "changed", "was deleted"]


def is_config_file(name: str) -> bool:
    """Return whether a path, separated by ``/``, is that of a file in the table."""
    return bool(_CONFIG_FILE.fullmatch(name.lower()))


def is_searched(name: str) -> bool:
    """Return whether a path, separated by ``/``, is outside all folders that are left out."""
    return not any(_SKIPPED.fullmatch(folder) for folder in name.split("/")[:-1])


def names_file(name: str, writes: Sequence[str] | None) -> bool:
    """Return whether one of ``writes`` covers a path and ends with the file's own name."""
    globs = (one for glob in writes or () for one in expand_braces(glob))
    return any(_base_name(glob) == _base_name(name) and matches_any(name, [glob]) for glob in globs)


def config_files(root: Path, folders: Iterable[Path]) -> Iterator[str]:
    """Yield the config files below ``root``; ``folders`` are those where checks look for modules first. Blocks."""
    yield from _config_files_below(root)
    for folder in dict.fromkeys(folders):
        if folder.is_relative_to(root):
            yield from (path.relative_to(root).as_posix() for path in _hiding_modules(folder))


def hides_module(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a file hides a module of HIDEABLE from checks that look first in ``folders``."""
    stem, _, ending = path.name.partition(".")
    folder = path.parent
    if stem == "__init__":
        stem, folder = folder.name, folder.parent
    hides = stem in HIDEABLE and ending.rpartition(".")[2] in MODULE_ENDINGS
    return hides and any(folder == one for one in folders)


def differences(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[ConfigChange]:
    """Return the changes between two states, which map paths to digests.

    A module that hides another counts only if it is new.
    """
    new = [ConfigChange(name, "was created") for name in now if name not in before]
    gone = [ConfigChange(name, "was deleted") for name in before if name not in now and is_config_file(name)]
    both = (name for name in before if is_config_file(name) and name in now)
    changed = [ConfigChange(name, "changed") for name in both if now[name] != before[name]]
    return sorted([*new, *gone, *changed], key=lambda one: one.name)


def _config_files_below(root: Path) -> Iterator[str]:
    folders, left = deque([""]), MOST_ENTRIES
    while folders and left > 0:
        folder = folders.popleft()
        entries = _entries(root / folder)
        left -= len(entries)
        below = {f"{folder}{entry.name}": entry.is_dir(follow_symlinks=False) for entry in entries}
        yield from (name for name, is_folder in below.items() if not is_folder and is_config_file(name))
        folders += (
            f"{name}/" for name, is_folder in below.items() if is_folder and not _SKIPPED.fullmatch(_base_name(name))
        )


def _hiding_modules(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder, or in packages there, that hide modules."""
    for entry in _entries(folder):
        path = Path(entry.path)
        if entry.name in HIDEABLE and entry.is_dir():
            yield from (inner for inner in sorted(path.glob("__init__.*")) if hides_module(inner, [folder]))
        elif hides_module(path, [folder]):
            yield path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    return sorted(entries_of(folder), key=lambda entry: entry.name)


def _base_name(name: str) -> str:
    return name.rpartition("/")[2]
