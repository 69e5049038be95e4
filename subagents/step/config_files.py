"""Steering: the files that can turn what a step's checks do without being named by them, and what became of them.

``STEERING_FILES`` is the table. Steering files are looked for anywhere in the workspace but in folders that searches
leave out, dependencies and what is built among them. A step may add, change or remove one only if its ``writes`` names
it by the file's own name (``pyproject.toml``, ``**/conftest.py``); a wildcard in the last part of a path names nothing.

Modules that hide those of Python or of a tool for tests (``json.py``) count where ``python`` looks first: in the folder
a check works in, where a script it runs stands, in its ``PYTHONPATH``, and beside tests. Only new ones do.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from typing import Literal

from vibe.system.globs import expand_braces, matches_any
from vibe.system.ignore import DEFAULT_IGNORES

STEERING_FILES: Mapping[str, tuple[str, ...]] = {
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
"""The files that configure checks, by language: names, patterns, or the end of a path; case makes no difference."""

BUILT_FILES = frozenset({"makefile", "gnumakefile"})
"""Steering files that build systems write: where a check itself makes one, it is not the step's doing."""

HIDEABLE = (sys.stdlib_module_names | {
    "_pytest", "black", "coverage", "flake8", "hypothesis", "iniconfig", "mypy", "nose2", "nox", "packaging", "pluggy",
    "pylint", "pyright", "pytest", "pytest_cov", "ruff", "tox", "xdist",
}) - {"test", "this"}  # fmt: skip
"""Modules a check may mean that a file beside it can stand in for."""

MODULE_ENDINGS = frozenset({"py", "pyc", "pyd", "so"})
LEFT_OUT = (
    *DEFAULT_IGNORES, "site-packages", "vendor", "_build", "_deps", "cmake-build-*", "bower_components",
    "__pypackages__", "Pods", ".yarn", ".gradle", ".terraform", ".direnv", ".pixi",
)  # fmt: skip
"""Folders that are not looked into."""
MOST_ENTRIES = 200_000
"""Of one workspace, the folders nearest to its root first; what is beyond is not looked after."""

_PATTERNS = [
    re.escape(pattern.lower()).replace("\\*", "[^/]*") for patterns in STEERING_FILES.values() for pattern in patterns
]
_STEERS = re.compile(rf"(?:.*/)?(?:{'|'.join(_PATTERNS)})", re.DOTALL)
_LEFT_OUT = re.compile("|".join(map(translate, LEFT_OUT)))


@dataclass(frozen=True, slots=True)
class Steered:
    """A configuration file of checks that is not as it was; ``how`` is what came of it, as a verb."""

    name: str
    how: Literal["was created", "changed", "was deleted"]

    @property
    def is_new(self) -> bool:
        """True if it was not there before."""
        return self.how == "was created"


def steers(name: str) -> bool:
    """Return whether a path with ``/`` is that of a file in the table."""
    return bool(_STEERS.fullmatch(name.lower()))


def is_looked_at(name: str) -> bool:
    """Return whether a path with ``/`` is in none of the folders that are left out."""
    return not any(_LEFT_OUT.fullmatch(folder) for folder in name.split("/")[:-1])


def names_file(name: str, writes: Sequence[str] | None) -> bool:
    """Return whether one of ``writes`` covers a path and ends with the file's own name."""
    globs = (one for glob in writes or () for one in expand_braces(glob))
    return any(_last(glob) == _last(name) and matches_any(name, [glob]) for glob in globs)


def steering_files(root: Path, folders: Iterable[Path]) -> Iterator[str]:
    """Yield all paths below ``root`` that may configure checks; they look for modules in ``folders`` first. Blocks."""
    yield from _listed(root)
    for folder in dict.fromkeys(folders):
        if folder.is_relative_to(root):
            yield from (path.relative_to(root).as_posix() for path in _hiding(folder))


def hides_module(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a file stands in for a module where checks in ``folders`` look first."""
    stem, _, ending = path.name.partition(".")
    folder = path.parent
    if stem == "__init__":
        stem, folder = folder.name, folder.parent
    hides = stem in HIDEABLE and ending.rpartition(".")[2] in MODULE_ENDINGS
    return hides and any(folder == one for one in folders)


def differences(before: Mapping[str, str | None], now: Mapping[str, str | None]) -> list[Steered]:
    """Return what became of the files; both map paths to digests.

    Of a module that hides another, only its coming counts.
    """
    new = [Steered(name, "was created") for name in now if name not in before]
    gone = [Steered(name, "was deleted") for name in before if name not in now and steers(name)]
    changed = [
        Steered(name, "changed") for name in before if steers(name) and name in now and now[name] != before[name]
    ]
    return sorted([*new, *gone, *changed], key=lambda one: one.name)


def _listed(root: Path) -> Iterator[str]:
    folders, left = deque([""]), MOST_ENTRIES
    while folders and left > 0:
        folder = folders.popleft()
        entries = _entries(root / folder)
        left -= len(entries)
        below = {f"{folder}{entry.name}": entry.is_dir(follow_symlinks=False) for entry in entries}
        yield from (name for name, is_folder in below.items() if not is_folder and steers(name))
        folders += (
            f"{name}/" for name, is_folder in below.items() if is_folder and not _LEFT_OUT.fullmatch(_last(name))
        )


def _hiding(folder: Path) -> Iterator[Path]:
    """Files in a folder, or in packages there, that stand in for modules."""
    for entry in _entries(folder):
        path = Path(entry.path)
        if entry.name in HIDEABLE and entry.is_dir():
            yield from (inner for inner in sorted(path.glob("__init__.*")) if hides_module(inner, [folder]))
        elif hides_module(path, [folder]):
            yield path


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _last(name: str) -> str:
    return name.rpartition("/")[2]
