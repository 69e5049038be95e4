"""Shell lines that hide an option where a value is expected, or a file to write where one to read is."""

from __future__ import annotations

HIDDEN_OUTPUT = (
    *(
        f"git {command} {hiding} {output}"
        for command in ("log", "log -1", "show", "diff", "diff HEAD~1", "reflog", "reflog show", "rev-list HEAD")
        for hiding in ("-U", "--unified", "--format")
        for output in ("--output=new", "--output new")
        if not (command.startswith("diff") and hiding == "--format")
    ),
    "git log -p -U --output=new -- a.txt",
    "git log --stat --unified --output=a.txt",
    "git log -M --output=new",
    "git log --stat --output=.git/hooks/new -1",
    "git diff -C --output=new HEAD~1",
    "git show -B --output=new HEAD",
    "git --no-pager log -U --output=new",
    "git blame --abbrev --output=new a.txt",
    "cd src && git log -U --output=new",
    "git log -1 -U --output=src/a.py",
    "git rev-list --unified --output=src/a.py HEAD",
)  # fmt: skip
GLUED = (
    *(f"xxd -{flag}{hiding} a.txt new" for flag in "pEbeiu" for hiding in "lcgs"),
    "xxd -plain a.txt new", "xxd -up a.txt new", "xxd -- a.txt new", "xxd -u -l 3 a.txt new", "xxd 5 new; xxd a.txt -b",
    "xxd a.txt -u", "xxd -l3 a.txt new", "xxd -cols 8 a.txt new", "xxd -seek 1 a.txt new", "xxd --len 1 a.txt new",
    "tree -Lo 1 new", "tree -Io x new", "tree -Po x new", "tree -aLo 1 new .",
)  # fmt: skip
HIDDEN = (*HIDDEN_OUTPUT, *GLUED)
"""Each writes a file; all are asked about."""
