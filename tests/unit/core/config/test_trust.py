"""Whose settings are loaded, and the messages about those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.core.config.surroundings import Surroundings
from vibe.core.config.paths import find_project_dir
from vibe.core.config.trust import TrustStore
from vibe.system.errors import ConfigError

LOCAL = 'active_model = "local"\n'


def _trust(surroundings: Surroundings, *folders: Path, untrusted: tuple[Path, ...] = ()) -> TrustStore:
    lists = {"trusted": folders, "untrusted": untrusted}
    text = "".join(f"{key} = {[str(folder) for folder in value]!r}\n" for key, value in lists.items())
    surroundings.user_file(text, "trusted_folders.toml")
    return TrustStore(surroundings.home, user_home=surroundings.user_home)


def test_an_untrusted_project_is_not_loaded_and_that_is_said(surroundings: Surroundings) -> None:
    surroundings.project_file("not even toml")
    loaded = surroundings.load(trust=False)
    assert loaded.project_dir is None
    assert loaded.config.active_model == "devstral-2"
    assert loaded.warnings == (
        (
            "~/code/project/.vibe (config.toml) was not loaded: ~/code/project is not a trusted folder; run with --trust to "
            "load it this time, or trust the folder with `vibe trust add`"
        ),
    )


def test_a_listed_project_is_loaded(surroundings: Surroundings) -> None:
    surroundings.project_file(LOCAL)
    _trust(surroundings, surroundings.project)
    loaded = surroundings.load(trust=False)
    assert loaded.project_dir == surroundings.project / ".vibe"
    assert loaded.config.active_model == "local"
    assert loaded.warnings == ()


def test_trust_for_this_run_writes_nothing(surroundings: Surroundings) -> None:
    surroundings.project_file(LOCAL)
    assert surroundings.load(trust=True).config.active_model == "local"
    assert not surroundings.home.exists()


def test_trust_goes_down_but_not_up(surroundings: Surroundings) -> None:
    store = _trust(surroundings, surroundings.project)
    assert store.is_trusted(surroundings.project / "a" / "b")
    assert not store.is_trusted(surroundings.project.parent)
    assert not store.is_trusted(surroundings.project.with_name("project2"))


def test_trusting_a_folder_inside_does_not_trust_the_project_around_it(surroundings: Surroundings) -> None:
    surroundings.project_file(LOCAL)
    inner = surroundings.project / "src"
    inner.mkdir()
    _trust(surroundings, inner)
    assert surroundings.load(trust=False, workdir=inner).project_dir is None


def test_the_nearest_entry_decides(surroundings: Surroundings) -> None:
    store = _trust(surroundings, surroundings.user_home, untrusted=(surroundings.project,))
    assert store.is_trusted(surroundings.project.parent)
    assert not store.is_trusted(surroundings.project / "src")


def test_a_link_is_trusted_for_what_it_leads_to(surroundings: Surroundings, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    link = surroundings.project / "link"
    link.symlink_to(outside)
    assert not _trust(surroundings, surroundings.project).is_trusted(link)


def test_a_tilde_is_the_users_home(surroundings: Surroundings) -> None:
    surroundings.user_file('trusted = ["~/code"]\n', "trusted_folders.toml")
    assert TrustStore(surroundings.home, user_home=surroundings.user_home).is_trusted(surroundings.project)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('\ntrusted = "/home"\n', "trusted_folders.toml:2: trusted: must be a list of folders"),
        ('trusted = [\n"/a",\n3]\n', "trusted_folders.toml:3: trusted[1]: must be an absolute path, not 3"),
        ('trusted = ["."]\n', "trusted_folders.toml:1: trusted[0]: must be an absolute path, not '.'"),
        ("trusted = [\n", "trusted_folders.toml:1: is not valid TOML"),
    ],
)
def test_a_list_that_makes_no_sense_trusts_nobody(surroundings: Surroundings, text: str, told: str) -> None:
    surroundings.user_file(text, "trusted_folders.toml")
    store = TrustStore(surroundings.home, user_home=surroundings.user_home)
    with pytest.raises(ConfigError) as caught:
        store.is_trusted(surroundings.project)
    assert str(caught.value).startswith(f"~/.vibe/{told}")


def test_the_nearest_project_up_to_the_repository_is_found(surroundings: Surroundings) -> None:
    surroundings.project_file(LOCAL)
    deep = surroundings.project / "a" / "b"
    deep.mkdir(parents=True)
    assert surroundings.load(workdir=deep).project_dir == surroundings.project / ".vibe"
    _used(deep.parent / ".vibe")
    assert surroundings.load(workdir=deep).project_dir == deep.parent / ".vibe"


def test_nothing_above_the_repository_is_found(surroundings: Surroundings) -> None:
    _used(surroundings.project.parent / ".vibe")
    assert surroundings.load().project_dir == surroundings.project.parent / ".vibe"
    (surroundings.project / ".git").write_text("gitdir: elsewhere\n")
    assert surroundings.load().project_dir is None


def test_the_users_own_folder_is_nobodys_project(surroundings: Surroundings) -> None:
    surroundings.user_file(LOCAL)
    assert surroundings.load(workdir=surroundings.user_home).project_dir is None
    assert surroundings.load(trust=False).warnings == ()


def test_a_vibe_folder_somewhere_else_is_nobodys_project_either(surroundings: Surroundings) -> None:
    chosen = surroundings.project / ".vibe"
    chosen.mkdir()
    assert find_project_dir(surroundings.project, home=chosen, user_home=surroundings.user_home) is None


def test_nothing_at_or_above_home_is_found(surroundings: Surroundings) -> None:
    surroundings.home.mkdir()
    _used(surroundings.root / ".vibe")
    elsewhere = surroundings.root / "elsewhere"
    for start in (surroundings.project, surroundings.user_home):
        assert find_project_dir(start, home=elsewhere, user_home=surroundings.user_home) is None


def test_outside_home_and_repositories_only_the_folder_itself_is_searched(
    surroundings: Surroundings, tmp_path: Path
) -> None:
    inner = tmp_path / "shared" / "inner"
    _used(inner.parent / ".vibe")
    inner.mkdir()
    assert surroundings.load(workdir=inner).project_dir is None
    assert surroundings.load(workdir=inner.parent).project_dir == inner.parent / ".vibe"


def test_everything_that_teaches_is_named_in_one_sentence(surroundings: Surroundings) -> None:
    surroundings.project_file("")
    inner = surroundings.project / "inner"
    inner.mkdir()
    for path in (surroundings.project / "AGENTS.md", inner / "AGENTS.md"):
        path.write_text("canary")
    _used(surroundings.project / ".agents")

    (warning,) = surroundings.load(trust=False, workdir=inner).warnings
    assert warning.startswith(
        "~/code/project/.vibe (config.toml), ~/code/project/inner/AGENTS.md, ~/code/project/AGENTS.md, "
        "~/code/project/.agents were not loaded: ~/code/project and ~/code/project/inner are not trusted folders; run with --trust"
    )
    assert surroundings.load(trust=True, workdir=inner).warnings == ()
    _trust(surroundings, surroundings.project)
    assert surroundings.load(trust=False, workdir=inner).warnings == ()


def test_a_trusted_folder_in_an_untrusted_project_leaves_out_what_is_above(surroundings: Surroundings) -> None:
    surroundings.project_file(LOCAL)
    inner = surroundings.project / "inner"
    inner.mkdir()
    (inner / "AGENTS.md").write_text("fine")
    store = _trust(surroundings, inner)
    reason = store.untrusted_reason(inner)
    assert reason is not None
    assert reason.startswith(
        "~/code/project/.vibe (config.toml) was not loaded: ~/code/project is not a trusted folder"
    )


def test_empty_folders_teach_nothing_and_hide_no_others(surroundings: Surroundings) -> None:
    inner = surroundings.project / "inner"
    for name in (".vibe", ".agents"):
        (inner / name).mkdir(parents=True)  # as they are while a command runs
    assert surroundings.load(trust=False, workdir=inner).warnings == ()
    surroundings.project_file("")
    assert surroundings.load(trust=True, workdir=inner).project_dir == surroundings.project / ".vibe"


def _used(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "config.toml").touch()


def test_a_folder_is_asked_about_until_somebody_decides(surroundings: Surroundings) -> None:
    (surroundings.project / "CLAUDE.md").parent.mkdir(parents=True, exist_ok=True)
    (surroundings.project / "CLAUDE.md").write_text("moo")
    store = _trust(surroundings)
    assert store.undecided(surroundings.project) == [surroundings.project / "CLAUDE.md"]
    for given in ({"untrusted": (surroundings.project,)}, {"untrusted": (surroundings.project.parent,)}):
        assert _trust(surroundings, **given).undecided(surroundings.project) == []
    assert _trust(surroundings, surroundings.project).undecided(surroundings.project) == []
