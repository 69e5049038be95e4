from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.bash_construct_lines import CONSTRUCTED, HARMLESS
from tests.unit.shell.policy.bash_everyday_lines import LOOKING
from tests.unit.shell.policy.bash_hostile_lines import HOSTILE
from tests.unit.shell.policy.bash_lines import EVASIONS, EVERYDAY, UNREADABLE
from tests.unit.shell.policy.bash_option_lines import EXPANDED, HIDDEN, SCRIPTS
from tests.unit.shell.policy.shell_lab import SECRET, ShellLab
from vibe.core.tools.base import ToolPermission
from vibe.core.tools.workspace import Workspace
from vibe.shell.policy.paths import candidates
from vibe.shell.policy.verdict import (
    DEFAULT_ALLOWED,
    DEFAULT_DENIED,
    DEFAULT_DENIED_STANDALONE,
    BashVerdict,
    ConfinedReading,
    classify,
)

PARTS = 24
"""The number of tests that share the lines to be run one by one, so that they can run in parallel."""

SIGNS = ("SECRET-", "missing.so", "outside/secret.txt")
"""Texts whose output shows that a line reached what it should not."""


def judge(line: str, lab: ShellLab, confined: ConfinedReading = ConfinedReading.OFF) -> BashVerdict:
    return classify(
        line,
        DEFAULT_ALLOWED,
        DEFAULT_DENIED,
        standalone=DEFAULT_DENIED_STANDALONE,
        workspace=Workspace(root=lab.work),
        confined=confined,
    )


def test_the_tables_are_long_enough_and_say_nothing_twice() -> None:
    assert len(set(EVERYDAY)) == len(EVERYDAY) >= 60
    assert len(set(EVASIONS)) == len(EVASIONS) >= 200
    assert len(set(HARMLESS)) == len(HARMLESS) >= 100
    assert len(set(CONSTRUCTED)) == len(CONSTRUCTED) >= 150
    assert len({*EVASIONS, *HOSTILE}) == len(EVASIONS) + len(HOSTILE) >= 500


def test_everyday_looking_runs_unasked(template: ShellLab) -> None:
    verdicts = {line: judge(line, template) for line in (*EVERYDAY, *HARMLESS, *LOOKING)}
    assert [
        (line, verdict.reason) for line, verdict in verdicts.items() if verdict.permission is not ToolPermission.ALWAYS
    ] == []


def test_everyday_looking_changes_nothing_and_shows_no_secret(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    before = lab.state()
    lines = (*EVERYDAY, *HARMLESS, *LOOKING)
    printed = lab.run(
        "\n".join([*(f"bash -c {shlex.quote(line)} </dev/null" for line in lines), "echo came to the end"])
    )
    assert "came to the end\n" in printed
    assert lab.state() == before
    assert SECRET not in printed


def test_a_way_round_is_asked_about_or_denied(template: ShellLab) -> None:
    lines = (*EVASIONS, *CONSTRUCTED, *UNREADABLE, *HOSTILE, *HIDDEN, *SCRIPTS)
    verdicts = {line: judge(line, template) for line in lines}
    assert [line for line, verdict in verdicts.items() if verdict.permission is ToolPermission.ALWAYS] == []
    assert [line for line, verdict in verdicts.items() if not verdict.reason] == []


@pytest.mark.parametrize("part", range(PARTS))
def test_a_way_round_would_have_done_something(part: int, template: ShellLab, tmp_path: Path) -> None:
    idle: dict[str, str] = {}
    labs: dict[bool, tuple[ShellLab, dict[str, object]]] = {}
    for number, line in enumerate((*EVASIONS, *HIDDEN, *SCRIPTS)[part::PARTS]):
        if not is_there(line.split(maxsplit=1)[0], template):
            continue
        repositories = "git" in line.lower()
        if repositories not in labs:
            fresh = shell_lab.copy(template, tmp_path / f"lab{number}", repositories=repositories)
            labs[repositories] = fresh, fresh.state()
        lab, before = labs[repositories]
        printed = lab.run(line)
        if lab.state() != before:
            shutil.rmtree(labs.pop(repositories)[0].base)
        elif not any(sign in printed for sign in SIGNS):
            idle[line] = printed
    assert idle == {}


def is_there(program: str, lab: ShellLab) -> bool:
    """Return True if a line can be tried. Rare programs must exist only where all tests must run."""
    return (
        "EVERY_PROGRAM" in os.environ
        or program not in {"rg", "make", "perl", "curl", "patch", "file", "tree", "gawk", "fdfind", "batcat", "unzip"}
        or shutil.which(program, path=lab.environ()["PATH"]) is not None
    )


@pytest.mark.parametrize("line", EXPANDED)
def test_what_a_pattern_stands_for_is_no_value_and_no_script(line: str, template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab", repositories=False)
    prepared, _, rest = line.partition("; ")
    lab.run(prepared)
    assert judge(rest, lab).permission is not ToolPermission.ALWAYS


@pytest.mark.parametrize("ignore", [".gitignore", ".ignore", ".rgignore", "src/../.git/info/exclude"])
@pytest.mark.parametrize(("shown", "found"), [("!.env", True), ("src/\n!/.e*/", True), ("!.env.example", False)])
def test_an_ignore_file_that_shows_a_hidden_secret_makes_a_search_a_question(
    ignore: str,
    shown: str,
    found: bool,  # noqa: FBT001  a table
    template: ShellLab,
    tmp_path: Path,
) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab")
    shutil.rmtree(lab.work / "config")
    (lab.work / ".git" / "info").mkdir(exist_ok=True)
    assert judge("rg SECRET", lab).permission is ToolPermission.ALWAYS
    (lab.work / ignore).write_text(shown)
    assert (judge("rg SECRET", lab).permission is None) is found
    assert judge("diff a.txt b.txt", lab).permission is ToolPermission.ALWAYS


def test_comparing_folders_with_a_link_in_them_is_asked_about(template: ShellLab) -> None:
    assert judge("diff src src", template).permission is None
    assert "deep-link" in judge("diff src src", template).reason


def test_a_filter_may_not_ask_for_what_a_module_says(template: ShellLab) -> None:
    assert judge("jq -n '\"x\" | modulemeta'", template).permission is None


@pytest.mark.parametrize(
    "line",
    [
        "cat [^x]ink", "cat [!x]ink", "cat [[:lower:]]ink", "cat [k-m]ink", "cat l[[=i=]]nk", "cat l[[.i.]]nk", "cat ?[i]nk", "cat l*[k]",
        "cat .*/outside/secret.txt", "cat .?/outside/secret.txt", "cat ./.*/outside/secret.txt", "cat src/.*/../outside/secret.txt", "cat src/*-link",
        "cat */deep-link", "cat */*-link", "cat ./*/d*k", "cat li*k", "cat lin?", "cat ?ink", "cat ????", "head -n 1 linkd*/secret.txt", "cat l*dir/*",
        "cd linkd* && cat secret.txt", "cd link?ir; cat secret.txt", "cd l*r && ls", "cd .*; cat link", "cd ?inkdir && ls",
        "cd src; cd ..; cd src; cd ..; cd src; cd ..; cd ..; cat outside/secret.txt", "cd src && " * 70 + "ls", "echo x | grep -r KEY", "cat a.txt | grep -rn SECRET",
        "grep -r KEY < a.txt", "echo x | grep --recursive KEY", "ls | grep -rl KEY | head", "cat ~root/x", "cat ~+/link", "cat ~-/link", "ls ~nobody", "echo ~+",
        "cat --show-all=~/x", "ls x=~/", "ls x:~", "cat {link,a.txt}", "cat l{ink,x}", "cat lin{j..l}", "cat a.tx*{,/../link}", "cat lin[k]*", "cat \\[^x]*", "rg KEY < /dev/null config",
    ],
)  # fmt: skip
def test_a_pattern_that_may_lead_out_is_asked_about(line: str, template: ShellLab) -> None:
    assert judge(line, template).permission is None


def test_a_pattern_for_plain_paths_is_judged_by_what_it_stands_for(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "lab", repositories=False)
    folder = lab.work / "plain"
    folder.mkdir()
    (folder / "one.txt").write_text("one\n")
    lines = ("cd plain && sort *", "cd plain && grep one *", "cd plain && du -sh *", "cd plain && grep -l one *.txt")
    for line in lines:
        assert judge(line, lab).permission is ToolPermission.ALWAYS
    (folder / "-onew.txt").touch()
    assert all(judge(line, lab).permission is None for line in lines)
    assert all(judge(line, lab, ConfinedReading.READERS).read_only for line in lines[:3])
    for name in ("a-link", "z-link", "-link"):  # in any order of the folder's names, it leads outside
        (folder / name).symlink_to("../../outside/secret.txt")
        assert not any(judge(line, lab, ConfinedReading.READERS).read_only for line in lines[:3])
        (folder / name).unlink()
    (folder / "-onew.txt").unlink()
    for line in ("cd plain && git show *", "cd plain && seq *", "cd plain && uniq *", "cd plain && strings *"):
        assert judge(line, lab).permission is None


def test_brackets_in_the_name_of_a_folder_are_no_pattern(template: ShellLab, tmp_path: Path) -> None:
    lab = shell_lab.copy(template, tmp_path / "[ab]*?{x}" / "lab")
    assert judge("cat lin*", lab).permission is None
    assert "outside the workspace" in judge("cat lin*", lab).reason
    assert judge("cat a.t*", lab).permission is ToolPermission.ALWAYS
    (lab.work / "[z]").mkdir()
    (lab.work / "[z]" / "out").symlink_to("../../outside/secret.txt")
    assert judge("cd '[z]' && cat ou*", lab).permission is None
    assert judge("cd '[z]' && cat no*", lab).permission is ToolPermission.ALWAYS


NAMES = st.text(alphabet="ab.-\u00e9\U0001f600 *?[]{}~", min_size=1, max_size=4).filter(
    lambda name: name not in {".", ".."}
)
PATTERNS = st.lists(
    st.sampled_from(["*", "?", "a", "b", ".", "-", "/", "..", "d", "\u00e9"]), min_size=1, max_size=6
).map("".join)


@pytest.mark.parametrize("setting", ["LC_ALL=C", "LANG=de_DE.UTF-8", "PAGER=cat", "GIT_PAGER=cat", "NO_COLOR=1"])
def test_language_colours_and_no_pager_are_no_reason_to_ask_where_it_can_only_read(
    setting: str, template: ShellLab
) -> None:
    for line in (f"{setting} git log -1", f"LC_ALL=C {setting} sort a.txt", f"x=$({setting} ls)"):
        assert judge(line, template, ConfinedReading.READERS).read_only, line
    for beyond in (f"{setting}x/y git log -1", f"{setting}$(pwn) ls", f"{setting} pwn", f"{setting} bash -c ls"):
        verdict = judge(beyond, template, ConfinedReading.READERS)
        assert (verdict.permission is ToolPermission.ALWAYS or verdict.read_only) is False, beyond


@settings(max_examples=60, deadline=None)
@given(names=st.sets(NAMES, max_size=8), patterns=st.lists(PATTERNS, min_size=1, max_size=12))
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_pattern_stands_for_all_that_bash_finds(
    locale: str, names: set[str], patterns: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("patterns") / "d"
    (folder / "d").mkdir(parents=True)
    for name in names:
        (folder / name).touch()
        (folder / "d" / name).touch()
    for pattern in {f"./{pattern}" for pattern in patterns if re.search(r"[*?]", pattern)}:
        found = subprocess.run(
            ["bash", "-c", f"shopt -u globskipdots 2>/dev/null; printf '%s\\0' {pattern}"],
            cwd=folder, env={"LC_ALL": locale, "PATH": "/usr/bin:/bin"}, capture_output=True, check=True,
        ).stdout.decode(errors="surrogateescape").split("\0")[:-1]  # fmt: skip
        ours = {os.path.normpath(path) for path in candidates(pattern, folder, pattern=True) if path is not None}
        assert {os.path.normpath(folder / path) for path in found} <= ours


CONFINED = (
    "cargo --version", "rustc -vV", "go version", "go env GOPATH", "uv tree", "uv pip list", "make -n all", "ruff check .",
    "wc -l $(git ls-files)", "find . -name '*.py' | xargs wc -l", "find . -name '*.py' -print0 | xargs -0 grep -n def", "find src -name '*.py' -exec wc -l {} +", "grep -rl def .", "awk '{print $1}' a.txt",
    "awk -F: '{s+=$1} END {print s}' a.txt", "sed 's/a/b/' a.txt", "tar -tf x.tar", "zcat x.gz", "unzip -l x.zip", "fd py", "bat a.txt", "egrep 'a|b' a.txt", "cat <<< x", "cat <<EOF\nx\nEOF", "for f in $(git ls-files); do wc -l $f; done",
    "git ls-files | while read -r f; do wc -l \"$f\"; done", "basename `pwd`", "head -1 \"$(ls | head -1)\"", "git cherry", "git name-rev HEAD", "ls src | xargs -n 1 basename", "timeout 5 grep -c one a.txt", "env ls", "time -p ls",
    "x=$(ls | wc -l); [ \"$x\" -gt 0 ] && echo some", "for f in *; do [ -f \"$f\" ] && wc -l $f; done", "sed -n '$p;2q' a.txt", "ls *.t[x]t", "ls {a,b}.txt", "diff -r src config", "grep -R def src", "cd $(git rev-parse --show-toplevel) && ls",
)  # fmt: skip


@pytest.mark.parametrize("line", CONFINED)
def test_what_reads_but_is_not_understood_may_run_where_it_can_only_read(line: str, template: ShellLab) -> None:
    verdict = judge(line, template, ConfinedReading.READERS)
    assert verdict.permission is ToolPermission.ALWAYS or verdict.read_only, verdict.reason
    assert judge(line, template, ConfinedReading.OFF).read_only is False


@pytest.mark.parametrize(
    "line",
    [
        "pwn", "ls; pwn", "xargs pwn", "find . -exec pwn {} +", "sh -c ls", "python3 x.py", "./ls", "$x", "cat .env $(pwd)", "cat link $(pwd)/", "echo $FAKE_API_KEY", "cat $FAKE_API_KEY", "echo x > new", "ls &", "PATH=evil ls", "LD_PRELOAD=x ls",
        "cat ../outside/secret.txt $(pwd)", "while :; do ls; done", "f() { ls; }; f", "sudo ls", "ls (", "git push", "git -C evilrepo status", "cd evilrepo && git status", "eval ls", "source x", ". ./x", "export x=1; ls", "xargs sh -c ls", "git commit -m x",
    ],
)  # fmt: skip
def test_what_may_run_more_than_readers_may_not(line: str, template: ShellLab) -> None:
    verdict = judge(line, template, ConfinedReading.READERS)
    assert not verdict.read_only
    assert verdict.permission is not ToolPermission.ALWAYS
