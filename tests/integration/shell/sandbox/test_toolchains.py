from __future__ import annotations

import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.integration.shell.sandbox.cell import Cell
from tests.integration.shell.sandbox.plain import run_plain

SERVER = """
import http.server, threading, urllib.request

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").status)
"""


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(program) is None, reason=f"{program} is not installed")


async def test_pytest_of_a_virtual_environment_runs(cell: Cell) -> None:
    (cell.root / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    ended = await cell.run(f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist test_it.py")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert "1 passed" in ended.stdout


async def test_a_server_on_localhost_is_reached(cell: Cell) -> None:
    (cell.root / "serve.py").write_text(SERVER)
    ended = await cell.run(f"{sys.executable} serve.py")
    assert (ended.exit_code, ended.stdout) == (0, "200\n"), ended.stderr


@needs("git")
async def test_git_commits(cell: Cell) -> None:
    ended = await cell.run("git init -q . && echo x > a && git add a && git commit -qm 'a' && git log --format=%an%s")
    assert (ended.exit_code, ended.stdout) == (0, "mea\n"), ended.stderr


@needs("git")
async def test_git_commits_in_a_worktree(cell: Cell) -> None:
    main = cell.base / "main"
    main.mkdir()
    work = cell.root
    work.rmdir()
    run_plain("git init -q . && git commit -q --allow-empty -m one && git worktree add -q ../work", main, cell.environ)
    ended = await cell.run(
        "echo x > a && git add a && git commit -qm two && git log --format=%s && echo evil > ../main/x"
    )
    assert ended.stdout == "two\none\n", ended.stderr
    assert ended.exit_code != 0
    if cell.backend == "bubblewrap":
        assert (await cell.run("echo gitdir: elsewhere > .git")).exit_code != 0
        assert (await cell.run("echo evil > ../main/.git/hooks/pre-commit")).exit_code != 0


@needs("git")
async def test_a_worktree_of_a_plan_can_be_written_and_its_repository_can_not(cell: Cell) -> None:
    run_plain("git init -q . && echo a > a && git add a && git commit -qm one", cell.root, cell.environ)
    cell.folder = cell.base / "home" / ".vibe" / "plans" / "p" / "worktrees" / "s"
    run_plain(f"git worktree add -q {cell.folder}", cell.root, cell.environ)

    seen = await cell.run("echo b > a && echo new > b && git status --short && git log --format=%s")

    assert (seen.exit_code, seen.stdout) == (0, " M a\n?? b\none\n"), seen.stderr
    for line in ("git commit -qam two", "git branch -f master", f"echo evil > {cell.root}/a", "echo evil > ../../x"):
        assert (await cell.run(line)).exit_code != 0, line
    assert (cell.root / "a").read_text() == "a\n"


@needs("npm")
async def test_npm_test_runs(cell: Cell) -> None:
    (cell.root / "package.json").write_text('{"name": "x", "version": "1.0.0", "scripts": {"test": "node t.js"}}')
    (cell.root / "t.js").write_text(
        "const http = require('http'); const s = http.createServer((q, r) => r.end('ok')).listen(0, '127.0.0.1', () =>"
        " http.get({port: s.address().port, host: '127.0.0.1'}, r => { console.log(r.statusCode); s.close(); }));"
    )
    ended = await cell.run("npm test")
    assert ended.exit_code == 0, ended.stdout + ended.stderr
    assert "200" in ended.stdout


@needs("gcc")
async def test_gcc_compiles(cell: Cell) -> None:
    (cell.root / "a.c").write_text('#include <stdio.h>\nint main(void) { puts("hi"); return 0; }\n')
    ended = await cell.run("gcc a.c -o a && ./a")
    assert (ended.exit_code, ended.stdout) == (0, "hi\n"), ended.stderr


@needs("cargo")
async def test_cargo_test_runs(cell: Cell) -> None:
    home = Path(shutil.which("cargo") or "").parent.parent
    (cell.root / "src").mkdir()
    (cell.root / "Cargo.toml").write_text('[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n')
    (cell.root / "src" / "lib.rs").write_text("#[test]\nfn it() { assert_eq!(1 + 1, 2); }\n")
    cell.environ |= {"CARGO_HOME": str(home), "RUSTUP_HOME": str(home.parent / ".rustup")}
    probe = await cell.run("cargo --version")
    if probe.exit_code != 0:
        pytest.skip("no Rust toolchain is installed")
    ended = await cell.run("cargo test --offline -q --lib")
    assert ended.exit_code == 0, ended.stdout + ended.stderr


async def test_a_virtual_environment_can_be_made_and_used(cell: Cell) -> None:
    ended = await cell.run(f"{sys.executable} -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'")
    assert (ended.exit_code, ended.stdout) == (0, "1\n"), ended.stderr


async def test_pip_install_is_refused_with_a_note(cell: Cell) -> None:
    pip = f"{sys.executable} -m pip" if (Path(sysconfig.get_path("purelib")) / "pip").exists() else "python3 -m pip"
    ended = await cell.run(
        f"{pip} install --retries 1 --timeout 2 --target t --index-url https://example.invalid/simple nothing-x"
    )
    if "No module named pip" in ended.stderr:
        pytest.skip("pip is not installed")
    assert ended.exit_code != 0
    assert '[sandbox] network = "on"' in ended.stderr


async def test_processes_and_shared_memory_work(cell: Cell) -> None:
    (cell.root / "p.py").write_text(
        "import multiprocessing\n\n\ndef f(x):\n    return x * x\n\n\nif __name__ == '__main__':\n"
        "    with multiprocessing.Pool(2) as pool:\n        print(sum(pool.map(f, range(4))))\n"
    )
    ended = await cell.run(f"{sys.executable} p.py")
    assert (ended.exit_code, ended.stdout) == (0, "14\n"), ended.stderr
