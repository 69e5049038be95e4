from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.lab import tried
from tests.integration.shell.sandbox.plain import run_plain
from vibe.shell.process.confined import shell_command
from vibe.shell.process.runner import CommandResult, child_environ, run_command
from vibe.shell.sandbox import secrets
from vibe.shell.sandbox.confinement import Confinement, Place
from vibe.shell.sandbox.port import ReadOnlyUnavailableError
from vibe.shell.sandbox.settings import Network, SandboxConfig, SandboxMode


def kept_by_the_system() -> list[Path]:
    return [path for path in Path("/etc").iterdir() if not path.is_symlink() and not path.stat().st_mode & 0o004]


async def look(cell: Cell, line: str, **place: object) -> CommandResult:
    where = Place(roots=(cell.folder or cell.root,), read_only=True, **place)  # type: ignore[arg-type]
    shell = await shell_command(line, child_environ(cell.environ), cell.confinement, where)
    return shell.annotated(
        await run_command(shell.command.argv, cwd=where.roots[0], environ=shell.command.environ, timeout=60)
    )


async def test_the_workspace_is_read_and_not_written(bubblewrap: Cell) -> None:
    (bubblewrap.root / "a").write_text("one\n")
    assert (await look(bubblewrap, "cat a | sort | head -1; wc -l < a")).stdout == "one\n1\n"
    for line in ("echo x > a", "touch b", "rm a", "mkdir c", "chmod 777 a", "echo x > /usr/x", "touch /x", "ln a d"):
        assert (await look(bubblewrap, line)).exit_code != 0, line
    assert sorted(path.name for path in bubblewrap.root.iterdir()) == ["a"]


async def test_temporary_files_are_its_own_and_few(bubblewrap: Cell) -> None:
    assert (await look(bubblewrap, "f=$(mktemp) && echo x > $f && cat $f && sort -T $TMPDIR $f")).stdout == "x\nx\n"
    assert not (await look(bubblewrap, "find /tmp /var/tmp /run /dev/shm $HOME -type f -o -type s")).stdout
    assert (await look(bubblewrap, "head -c 200M /dev/zero > /tmp/x")).exit_code != 0


async def test_there_is_no_home_and_no_secret(bubblewrap: Cell) -> None:
    (bubblewrap.base / "home" / "notes").write_text("NOTES")
    (bubblewrap.base / "elsewhere").write_text("ELSEWHERE")
    (bubblewrap.root / "open").write_text("OPEN")
    for name in (".env", "deploy.pem", "sub/.npmrc", "sub/.ssh/config"):
        (bubblewrap.root / name).parent.mkdir(exist_ok=True, parents=True)
        (bubblewrap.root / name).write_text("SECRET")
    (bubblewrap.root / "innocent").symlink_to(".env")
    (bubblewrap.root / "sub" / "token").symlink_to("../deploy.pem")
    home = bubblewrap.base / "home"
    ended = await look(
        bubblewrap,
        f"cat {home}/notes {home}/.npmrc {home}/.vibe/config.toml ../elsewhere; grep -r . .; cat innocent sub/token; env",
    )
    assert [word for word in ("OPEN", "NOTES", "SECRET", "ELSEWHERE") if word in ended.stdout] == ["OPEN"]
    assert "PATH=" in ended.stdout


async def test_what_the_system_keeps_to_itself_is_hidden(bubblewrap: Cell) -> None:
    for path in kept_by_the_system():
        assert (await look(bubblewrap, f"cat {path}; ls -A {path}/; echo looked")).stdout == "looked\n"


async def test_nobody_is_reached_whatever_the_settings_say(bubblewrap: Cell) -> None:
    bubblewrap.configure(SandboxConfig(network=Network.ON, writable=(str(bubblewrap.base / "home"),)))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        ended = await look(
            bubblewrap, f'python3 -I -c "{script}"; echo > /dev/tcp/127.0.0.1/{port}', network=Network.ON
        )
        assert ended.exit_code != 0
    assert (await look(bubblewrap, f"touch {bubblewrap.base}/home/x")).exit_code != 0


async def test_it_is_bounded(bubblewrap: Cell) -> None:
    limits = (await look(bubblewrap, "cat /proc/self/limits")).stdout
    found = {line[:25].strip(): line[26:].split()[0] for line in limits.splitlines()}
    assert found["Max processes"] == "256"
    assert found["Max data size"] == str(2_048 * 1024**2)
    assert found["Max file size"] == str(64 * 1024**2)
    assert found["Max cpu time"] == "60"


async def test_a_linked_worktree_is_looked_at_with_its_repository(bubblewrap: Cell) -> None:
    commit = "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    run_plain(f"git init -q . && {commit} && git worktree add -q ../linked", bubblewrap.root, bubblewrap.environ)
    bubblewrap.folder = bubblewrap.base / "linked"
    assert (await look(bubblewrap, "git log --format=%s && git status --short")).stdout == "one\n"


async def test_a_workspace_that_holds_the_home_can_not_be_looked_at_so(bubblewrap: Cell) -> None:
    bubblewrap.folder = bubblewrap.base
    with pytest.raises(ReadOnlyUnavailableError, match="holds"):
        await look(bubblewrap, "ls")


async def test_where_nothing_confines_nothing_runs_so(tmp_path: Path) -> None:
    place = Place(roots=(tmp_path,), read_only=True)
    for confinement in (None, Confinement(SandboxConfig(mode=SandboxMode.OFF), {}, tmp_path)):
        assert confinement is None or not confinement.can_read_only()
        with pytest.raises(ReadOnlyUnavailableError, match="no sandbox"):
            await shell_command("ls", {"PATH": os.defpath}, confinement, place)


OF_OTHERS = (
    "for d in /opt /usr/local /etc/opt; do mount -t tmpfs none $d -o mode=755; mkdir -p $d/app/closed; umask 022;"
    " for f in .env .npmrc server.key server.key.bak plain; do echo SECRET-$f > $d/app/$f; done; echo public > $d/app/plain;"
    " echo -----BEGIN PRIVATE KEY----- SECRET > $d/app/tls.pem; echo public > $d/app/ca.pem;"
    " echo SECRET > $d/app/0600; chmod 600 $d/app/0600; echo SECRET > $d/app/0640; chmod 640 $d/app/0640;"
    " echo SECRET > $d/app/closed/x; chmod 700 $d/app/closed; ln -s .env $d/app/link; done"
)
SHOW = "cd /; for d in /opt /usr/local /etc/opt; do cat $d/app/.[a-z]* $d/app/* $d/app/closed/*; done 2>/dev/null"


@pytest.mark.parametrize(("backend", "read_only"), [("bubblewrap", True), ("bubblewrap", False), ("landlock", False)])
def test_secrets_of_the_system_are_hidden_wherever_it_keeps_them(backend: str, *, read_only: bool) -> None:
    result = tried(backend, "root", [SHOW], before=OF_OTHERS, read_only=read_only)
    assert "SECRET" not in result.outputs[0]
    assert result.outputs[0].count("public") == 6


def test_a_folder_is_looked_through_again_only_after_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []

    def noting(path: str) -> list[os.DirEntry[str]]:
        looked.append(path)
        return entries(path)

    entries = secrets.entries_of
    monkeypatch.setattr(secrets, "entries_of", noting)
    for name in ("a/b", "c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x").touch()
    long_ago = time.time() - 60
    for path in (tmp_path / "a" / "b", tmp_path / "a", tmp_path / "c", tmp_path):
        os.utime(path, (long_ago, long_ago))
    search = secrets.SecretSearch()
    assert search.below([tmp_path]) == search.below([tmp_path]) == ()
    assert len(looked) == 4
    (tmp_path / "a" / "b" / ".env").touch()
    assert search.below([tmp_path]) == search.below([tmp_path]) == (tmp_path / "a" / "b" / ".env",)
    assert looked[4:] == [str(tmp_path / "a" / "b")] * 2, "what changed just now may change again in the same instant"


def test_more_files_than_can_be_looked_through_are_not_taken_for_harmless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        (tmp_path / f"{number}.env").write_text("KEY=x")
    assert len(secrets.secrets_of_system([tmp_path], 12) or ()) == 12
    assert secrets.secrets_of_system([tmp_path], 11) is None
    monkeypatch.setattr(secrets, "MOST_ENTRIES", 11)
    assert secrets.SecretSearch().below([tmp_path]) is None


def test_what_is_mounted_in_a_folder_of_packages_is_looked_through_for_who_only_reads() -> None:
    before = OF_OTHERS.replace("/opt /usr/local /etc/opt", "/usr/share")
    result = tried("bubblewrap", "root", [SHOW.replace("/etc/opt", "/usr/share")], before=before, read_only=True)
    assert "SECRET" not in result.outputs[0]
    assert result.outputs[0].count("public") == 2


TOKEN = "tok3n-of-mine"  # noqa: S105  made up for the tests
SETTINGS = f'[remote "o"]\n\turl = https://me:{TOKEN}@example.com/a.git\n[user]\n\tname = ada\n\temail = a@b\n'
SHOWN = "cat {0}; rev {0} | rev; base64 {0} | base64 -d; tr a-z A-Z <{0} | tr A-Z a-z; dd if={0} 2>/dev/null; sed p {0}"


def lay_settings(root: Path, home: Path) -> dict[Path, str]:
    """Create repositories whose settings hold a token, and return their text by path."""
    for command in (
        ["git", "init", "-q"],
        ["git", "init", "-q", "sub"],
        ["git", "init", "-q", "--bare", ".git/modules/m"],
    ):
        subprocess.run(command, cwd=root, check=True)
    own = root / ".git" / "config"
    own.write_text(f"{own.read_text()}{SETTINGS}[include]\n\tpath = more\n")
    (root / ".git" / "more").write_text(f"[http]\n\textraheader = X: {TOKEN}\n[my]\n\tkey = kept\n")
    others = [root / "sub" / ".git" / "config", root / ".git" / "modules" / "m" / "config", home / ".gitconfig"]
    for place in others:
        place.write_text(SETTINGS)
    return {place: place.read_text() for place in (own, root / ".git" / "more", *others)}


@pytest.mark.parametrize("kind", ["read only", "working"])
async def test_credentials_in_settings_of_git_are_not_there_and_git_goes_on(bubblewrap: Cell, kind: str) -> None:
    laid = lay_settings(bubblewrap.root, bubblewrap.base / "home")
    (bubblewrap.root / "a").write_text("a\n")

    async def printed(line: str) -> str:
        return (await bubblewrap.run(line, read_only=kind == "read only")).stdout

    told = await printed("; ".join(SHOWN.format(place) for place in laid))
    asked = await printed(
        "git config -l; git remote -v; grep -r . .git sub; git config --show-origin -l; git config -l | rev"
    )

    assert "example.com" in told
    assert not [text for text in (told, asked, asked[::-1]) if TOKEN in text]
    works = await printed("git remote get-url o; git config my.key; git status --short a")
    assert works == "https://example.com/a.git\nkept\n?? a\n"
    if kind == "working":
        assert await printed("git add a && git commit -qm one && git log --format=%an") == "ada\n"
    assert {place: place.read_text() for place in laid} == laid


async def test_libraries_of_the_workspace_are_for_commands_and_not_for_the_sandbox(bubblewrap: Cell) -> None:
    bubblewrap.environ["LD_LIBRARY_PATH"] = str(bubblewrap.root)
    line, place = "/bin/echo $LD_LIBRARY_PATH", Place(roots=(bubblewrap.root,))

    started = await shell_command(line, child_environ(bubblewrap.environ), bubblewrap.confinement, place)
    await started.put_aside()
    assert "LD_LIBRARY_PATH" not in started.command.environ
    assert (await bubblewrap.run(line)).stdout == f"{bubblewrap.root}\n"


async def test_what_vibe_runs_by_is_not_written_though_it_lies_in_the_workspace(
    bubblewrap: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bubblewrap.root / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setattr("sys.prefix", str(bubblewrap.root / ".venv"))

    assert (await bubblewrap.run("echo x >.venv/bin/rg")).exit_code != 0
    assert (await bubblewrap.run("mv .venv old")).exit_code != 0
    assert (await bubblewrap.run("echo x >fine; cat fine")).stdout == "x\n"
