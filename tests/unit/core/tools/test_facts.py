from __future__ import annotations

from pathlib import Path

from vibe.core.tools.builtins.write_file import WriteFile, WriteFileArgs, WriteFileConfig
from vibe.core.tools.gate import subject_of
from vibe.core.tools.workspace import Workspace


def keys(workspace: Workspace, path: str) -> tuple[str, ...]:
    """Return what a lasting approval of writing a file covers."""
    tool = WriteFile.from_config(WriteFileConfig())
    return subject_of(tool, WriteFileArgs(path=path, content="x"), workspace).keys


def test_a_lasting_yes_in_a_copy_of_the_project_is_about_the_project(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "plans" / "p" / "worktrees" / "s"
    project.mkdir()
    copy.mkdir(parents=True)
    own = Workspace(root=project)
    copied = Workspace(root=copy, stands_for=project)

    assert keys(copied, "src/a.py") == keys(own, "src/a.py") == (f"write_file: write {project / 'src' / 'a.py'}",)
    assert keys(copied, str(tmp_path / "b.py")) == keys(own, str(tmp_path / "b.py"))
