"""Shell lines that hide an option where a value is expected, or an output file where an input file is."""

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
"""Lines that each write a file. All are asked about."""

SCRIPTS = (
    "sed 's/one/x/w new' a.txt", "sed 's/one/x/gw new' a.txt", "sed -n '/one/w new' a.txt", "sed '1w new' a.txt", "sed '1!w new' a.txt",
    "sed -e p -e 'w new' a.txt", "sed 's/[/]/x/;w new\n' a.txt", "sed 's/.*/pwn/e' a.txt", "sed '1e pwn' a.txt", "sed 'e pwn' a.txt",
    "sed '/one/{p;w new\n}' a.txt", "sed '1,2{s/o/0/;w new\n}' a.txt", "sed 's|x|y|;s|o|0|w new' a.txt", "sed 'y/o/0/;w new' a.txt",
    "sed -n '$W new' a.txt", "sed 'r .env' a.txt", "sed '1R .env' a.txt", "sed '$r ../outside/secret.txt' a.txt", "sed 's/x/y/\nw new' a.txt",
    "sed ':a;w new' a.txt", "sed 'b end;p\nw new\n:end\nw new' a.txt", "sed '\\,one,w new' a.txt", "sed '/[/]one/,$w new' a.txt",
    "sed -E 's/(o)/\\1/;1w new' a.txt", "sed --expression='w new' a.txt", "sed -ne '1w new' a.txt", "sed -z 's/$/x/w new' a.txt",
    "sed 'a x' a.txt -i", "sed 's/a/b/' .env", "sed '' .env", "sed -n p ../outside/secret.txt", "sed 's,x,y,' link",
    "awk '{print > \"new\"}' a.txt", "awk '{print $1 >> \"new\"}' a.txt", "awk '{printf \"x\" > \"new\"}' a.txt", "awk '{print | \"pwn\"}' a.txt",
    "awk 'BEGIN {system(\"pwn\")}'", "awk 'BEGIN {\"pwn\" | getline}'", "awk 'BEGIN {while ((getline x < \".env\") > 0) print x}'",
    "awk 'BEGIN {ARGV[1] = \".env\"; ARGC = 2} {print}' a.txt", "awk 'BEGIN {print ENVIRON[\"FAKE_API_KEY\"]}'",
    "awk 'BEGIN {for (k in ENVIRON) print ENVIRON[k]}'", "awk '{print a[1] > (\"ne\" \"w\")}' a.txt", "awk '{print \"/\" > \"new\" ; x = \"/\"}' a.txt",
    "awk '{x = 4 /2; print > \"new\"; y = 1/ 2}' a.txt", "awk '/one/ {print; print > \"new\"}' a.txt",
    "awk '{if ($1 > 2) print > \"new\"}' a.txt; awk '{print > \"new\"}' a.txt", "awk '{print($1) > \"new\"}' a.txt",
    "awk '{print ($1 > 2) > \"new\"}' a.txt", "awk '{print $1,\n$2 > \"new\"}' a.txt", "awk 'BEGIN {print 1 # }\n > \"new\"}'; awk 'BEGIN{print > \"new\"}'",
    "awk -f pwn.awk a.txt; awk 'BEGIN{system(\"pwn\")}'", "awk '1' .env", "awk '{print}' x=1 .env",
    "awk -v x=1 '{print > \"new\"}' a.txt", "awk '1' FS=x ../outside/secret.txt", "gawk '@load \"filefuncs\"; BEGIN {print > \"new\"}'",
    "gawk 'BEGIN {f = \"system\"; @f(\"pwn\")}'", "gawk -o'new' 1 a.txt", "gawk -dnew 1 a.txt", "gawk --dump-variables=new 1 a.txt", "gawk -pnew 1 a.txt",
    "gawk -e 'BEGIN{system(\"pwn\")}'", "gawk 'BEGIN {PROCINFO[1]; print SYMTAB[\"ENVIRON\"][\"FAKE_API_KEY\"]}'",
    "tar -xf src.tar -C linkdir", "tar xf src.tar --one-top-level=new",
    "tar -tf src.tar -I ./pwn.sh", "tar tf src.tar --checkpoint=1 --checkpoint-action=exec=pwn",
    "tar -tf src.tar --index-file=new", "tar tvf src.tar --use-compress-program=./pwn.sh",
    "unzip src.zip -d new", "unzip -o src.zip -d new", "unzip -l src.zip -d new; unzip -q src.zip -d new", "fdfind . -x pwn", "fdfind -x pwn", "fdfind a.txt -X pwn",
    "fdfind -1 a.txt --exec pwn", "batcat .env", "batcat a.txt ../outside/secret.txt", "batcat --pager=pwn --paging=always a.txt",
    "grep -R SECRET .", "grep -R SECRET linkdir", "grep -rR SECRET src", "egrep -r SECRET config", "fgrep SECRET link", "egrep SECRET .env", "fgrep -f .env .env",
    "rg --hidden SECRET", "rg -. KEY", "rg --no-ignore --hidden KEY", "less .env", "more .env", "less ../outside/secret.txt", "less a.txt link", "more -d link",
    "printenv", "printenv FAKE_API_KEY", "printenv PATH FAKE_API_KEY",
    "git -C ../outside status; cat link", "git -C evilrepo status", "git -C . -C evilrepo status", "git --no-pager -C evilrepo status",
    "git -C . log -U --output=new", "git -C src log --format --output=new", "git config user.name evil", "git config --add user.name evil", "git config --global user.name x",
    "git symbolic-ref HEAD refs/heads/other", "git symbolic-ref -d HEAD; git symbolic-ref HEAD refs/heads/x", "git submodule add ./evilrepo sub", "git submodule foreach pwn; git submodule init; touch x",
    "git whatchanged -1 --output=new", "git whatchanged -U --output=new", "git diff-tree -U --output=new HEAD", "git show-branch --output=new; touch x",
    "find . -maxdepth 0 -newer a.txt -fprint new; find . -maxdepth 0 -fprint new", "shuf -o new a.txt", "shuf a.txt --output=new", "jq -n 'env'", "jq -n '.a|env'", "jq -n '[env]'", "jq -n '..|env'",
    "jq -rn '\"\\(env.FAKE_API_KEY)\"'", "jq -n '$ENV.FAKE_API_KEY'", "zcat .env.gz; cat .env", "cat /etc/os-release .env", "cat /proc/self/environ",
    "cat /etc/../proc/self/environ",
    "time cd src && cat deep-link", "for i in 1 2 3; do cat deep-link; time cd src; done", "time time cd src; head deep-link", "cd src < nothere; cat link",
    "cd src < nothere && ls; cat < link", "exit < nothere; cd src; cat deep-link", "exit < nothere; cd evilrepo; git status", "uniq ./?.txt", "xxd ./?.txt", "xxd -p ./?.txt",
)  # fmt: skip
"""Further abilities of programs that may list, print or replace.

Each changes something or shows a secret, and all are asked about.
"""

EXPANDED = (
    "touch .eaa; grep .e* a.txt", "touch .eaa; grep -e .e* a.txt", "touch .eaa; paste -d .e* a.txt", "touch 's,o,0,w new'; sed s,o,0,* a.txt",
    "touch 's,o,0,w new'; sed -e s,o* a.txt", "touch -- '--expression=s,o,0,w new'; sed --expression=s,o,0,* a.txt",
    "touch .eaa; jq -Rr . .e*", "touch .eaa; sed -n -e p .e*", "touch '1{w new'; awk 1* .env",
    "echo link > named; x=a.txt; time read -r x < named; cat \"$x\"", "echo link > named; x=a.txt; while time read -r x; do cat $x; done < named",
    "touch 'NR;system(\"pwn\")#2'; awk NR*2 a.txt", "touch n=a 'n=b{system(\"pwn\")}'; awk -v n=* '{print}' a.txt", "touch 's,a,x,;e pwn;s,a,b,'; sed s,a*,b, a.txt",
    "touch .a,env,2; jq -n .a*2", "touch .a,env; jq --indent .a* . a.json", "ln -s ../outside/x.zip z.zip; unzip -l z", "ln -s ../outside/x.zip z.ZIP; unzip -Z1 z", "touch a%n; printf a%* x",
    "mkdir d && ln -s ../../outside/secret.txt d/.l && touch -- d/--files0-from=.l; cd d && wc *", "mkdir d && touch -- d/-c; cd d && md5sum ?*", "mkdir d; rg SECRET < src",
)  # fmt: skip
"""Judged without the part before ``;``. The names that a pattern matches become the value of an option, or a script."""
