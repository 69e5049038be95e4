"""Loops, conditions, variables, substitutions and ``cd``: everyday lines, and ways around a policy that use them."""

from __future__ import annotations

HARMLESS: tuple[str, ...] = (
    "cd src && ls && cd ..", "cd src && cat a.py && cd .. && cat a.txt", "cd src; ls; cd ..; ls", "cd src && ls ..", "(cd src && ls); ls", "cd src || exit 1; ls ..",
    "cd ./src && cat ../a.txt", "cd src && cd .. && cd src && ls", "{ cd src; ls; }; ls ..", "x=$(cd src && ls | wc -l); echo \"$x\"", "if cd src; then ls; fi; ls",
    "for f in *.txt; do echo $f; done", "for f in *.txt; do cat \"$f\"; done", "for f in a.txt b.txt; do wc -l $f; done", "for f in a.txt b.txt; do echo \"== $f\"; cat \"$f\"; done",
    "for f in src/*.py; do head -5 \"$f\"; done", "for i in 1 2 3; do echo $i; done", "for i in {1..3}; do echo $i; done", "for d in src config; do ls $d; done",
    "for f in a b; do [ -f \"$f.txt\" ] && echo \"$f\"; done", "for f in a b; do cat \"$f.txt\"; done", "for f in a.txt; do grep -n one \"$f\" || true; done",
    "for w in one two; do grep -c $w a.txt; done", "for f in a.txt b.txt; do diff \"$f\" a.txt; done", "for i in 1 2; do for j in 3 4; do echo $i$j; done; done",
    "for f in a.txt; do if [ -f $f ]; then cat $f; fi; done", "for i in 1 2 3; do [ $i -eq 2 ] && continue; echo $i; done", "for f in a.txt missing; do cat $f || break; done",
    "if [ -f a.txt ]; then cat a.txt; fi", "if [ -f x ]; then cat x; else echo none; fi", "if [[ -f a.txt ]]; then head -1 a.txt; elif [[ -d src ]]; then ls src; else pwd; fi",
    "if git diff --quiet; then echo clean; else git diff --stat; fi", "if grep -q one a.txt; then echo yes; fi", "if ! grep -q nine a.txt; then echo no; fi",
    "if [ \"$(git rev-parse --abbrev-ref HEAD)\" = main ]; then echo main; fi", "if test -d src && test -f a.txt; then ls; fi",
    "[[ -f a.txt ]] && echo yes", "[[ -d src && -f a.txt ]] && ls src", "[[ ! -e missing ]] || cat missing", "[[ a == b* ]] || echo no", "[[ abc =~ ^a.c$ ]] && echo yes",
    "[ ! -d missing ] && echo none", "[ a.txt -nt b.txt ] && echo newer", "[[ 1 -lt 2 ]] && echo less",
    "case main in main) echo trunk;; *) echo other;; esac", "case \"$(uname -s)\" in Linux) uname -a;; Darwin) date;; esac", "x=abc; case $x in a*) echo a;; b|c) echo b;; esac",
    "while read -r l; do echo \"$l\"; done < a.txt", "cat a.txt | while read l; do echo \"line: $l\"; done", "git ls-files | while read -r f; do echo \"$f\"; done",
    "while IFS= read -r l; do printf '%s\\n' \"$l\"; done < a.txt", "i=0; while [ $i -lt 3 ]; do echo $i; i=$((i+1)); done", "i=3; until [ $i -eq 0 ]; do i=$((i - 1)); echo $i; done",
    "n=0; for f in *.txt; do n=$((n + 1)); done; echo $n", "sort a.txt | while read -r a; do [ -n \"$a\" ] && echo \"$a\"; done", "n=1; [[ $n -gt 0 ]] && echo $n",
    "echo $((1+2))", "echo $(( (3 + 4) * 2 ))", "echo \"sum: $((10 / 3)) $((10 % 3))\"", "x=2; echo $((x * x))", "x=a y=b; echo \"$x $y $x\"; echo \" $x\"; echo \"$y \"", "x=5; y=$((x + 1)); echo \"$y\"",
    "x=a.txt; cat $x", "x=a.txt; cat \"$x\" && wc -l < a.txt", "d=src; ls $d/a.py", "d=src; ls \"$d\"", "f=src/a.py; echo ${f}; echo \"${f##*/} ${f%.py} ${#f}\"", "x=1 y=2; echo $x$y", "msg='a b'; echo \"$msg\"",
    "branch=$(git rev-parse --abbrev-ref HEAD); echo \"on $branch\"", "n=$(wc -l < a.txt); echo \"$n lines\"", "x=$(cat a.txt); echo \"$x\"", "now=$(date +%F); echo \"$now\"",
    "echo \"$(git rev-parse HEAD)\"", "echo $(git rev-parse --short HEAD)", "echo \"today: $(date)\"", "echo \"$(wc -l < a.txt) lines\"", "printf '%s\\n' \"$(head -1 a.txt)\"", "echo \"$(echo \"$(pwd)\")\"",
    "diff <(sort a.txt) <(sort b.txt)", "comm -12 <(sort a.txt) <(sort b.txt)", "cat <(head -1 a.txt) <(tail -1 a.txt)", "grep -c one <(cat a.txt)",
    "while read -r l; do echo \"$l\"; done < <(sort a.txt)", "echo $PWD", "echo \"$PWD\" $HOME $USER", "echo $?", "ls missing; echo \"exit: $?\"", "echo $$ $#", "echo \"${PWD}\"",
    "git -C . log --oneline", "git -C src status -s", "git -C src --no-pager log -1", "time git -C . diff --stat", "set -e; ls", "set -euo pipefail; ls | wc -l", "git log HEAD@{0} -1", "cat /proc/version",
    "time ls", "time git status", "time sort a.txt | head", "sleep 0.1", "sleep 0.1 && ls", ": nothing; ls", "ls; exit 0", "true && { ls; pwd; }", "test \"$(whoami)\" = root || echo no",
    "for f in a.txt b.txt; do echo -n \"$f: \"; wc -l < a.txt; done",
)  # fmt: skip
"""Lines that run without approval. All of them work in the folder that ``shell_lab`` builds."""

READING = (
    "x=a; for i in 1 2; do cat $x; x=link; done", "x=a.txt; for i in 1 2; do cat \"$x\"; x=../outside/secret.txt; done", "for f in *; do cat \"$f\"; done", "for f in .*; do cat \"$f\"; done",
    "for f in l*; do cat $f; done", "for f in a.txt link; do cat $f; done", "for f in a.txt ../outside/secret.txt; do cat \"$f\"; done", "f=link; cat $f", "f=../outside; cat $f/secret.txt",
    "f=.env; cat \"$f\"", "f=.e; cat ${f}nv", "f=secret.txt; cat ../outside/$f", "f=a; g=$f; f=link; cat $f", "if true; then cat link; fi", "if false; then ls; else cat link; fi",
    "if false; then ls; elif true; then cat link; fi", "f=a.txt; if true; then f=link; fi; cat $f", "f=a.txt; true && f=link; cat $f", "f=a.txt; case x in x) f=link;; esac; cat $f", "f=a.txt; { f=link; }; cat $f",
    "case a in b) ls;; *) cat link;; esac", "case $(cat link) in *) echo \"$(cat link)\";; esac", "while read -r f; do cat \"$f\"; done <<< link", "echo link | while read f; do cat $f; done",
    "read -r f <<< link; cat $f", "x=$(cat link); echo \"$x\"", "echo \"$(cat link)\"", "echo \"$(cat .env)\"", "diff <(cat link) a.txt", "[[ $(cat link) ]] && cat link", "[ \"$(cat link)\" = x ] || cat link",
    "cat $(echo link)", "cat \"$(echo .env)\"", "cat <(cat link)", "while read -r l; do echo \"$l\"; done < link", "while read -r l; do echo \"$l\"; done < <(cat link)", "f=link; while read -r l; do echo \"$l\"; done < $f",
    "x=$FAKE_API_KEY; echo $x", "for x in $FAKE_API_KEY; do echo $x; done", "case $FAKE_API_KEY in *) echo \"${FAKE_API_KEY%x}\";; esac", "[[ $FAKE_API_KEY == x* ]] || echo \"$FAKE_API_KEY\"",
    "x=FAKE_API_KEY; echo ${!x}", "echo \"${FAKE_API_KEY:0}\"", "printf '%s\\n' \"$FAKE_API_KEY\"", "x=\"a $FAKE_API_KEY\"; echo \"$x\"", "echo \"${x:-$FAKE_API_KEY}\"", "x=1; echo \"${x:+$FAKE_API_KEY}\"", "echo \"${FAKE_API_KEY##x}\"",
    "false && cd src; cd ..; cat outside/secret.txt", "cd missing; cd ..; cat outside/secret.txt", "(cd src); cd ..; cat outside/secret.txt", "cd src | cat; cd ..; cat outside/secret.txt",
    "if false; then cd src; fi; cd ..; cat outside/secret.txt", "for i in 1; do cd ..; done; cat outside/secret.txt", "cd src; cd ..; cd ..; cat outside/secret.txt", "while read x; do cd ..; cat outside/secret.txt; done <<< y",
    "{ cd ..; }; cat outside/secret.txt", "! cd ..; cat outside/secret.txt", "cd $(echo ..); cat outside/secret.txt", "d=..; cd $d; cat outside/secret.txt", "for d in src ../..; do cd $d; done; cat outside/secret.txt",
    "x=$(cd ..; cat outside/secret.txt); echo \"$x\"", "cd src && cat ../link", "cd src && cd - && cat link", "true || cd src; cat ../outside/secret.txt", "case x in y) cd src;; esac; cat ../outside/secret.txt",
    "cd src/.. && cd .. && cat outside/secret.txt", "cd src && cd ../.. && cat outside/secret.txt", "cd src; for i in 1 2; do cat deep-link; cd ..; done", "cd src || exit; cat ../../outside/secret.txt", "exit 1 2; cat link",
    "cd linkdir/../src; cat deep-link", "cd src; cd linkdir; cat deep-link", "cd /; cd \"$OLDPWD/../outside\"; cat secret.txt", "cd src && cd evil; cd ../..; cat outside/secret.txt",
    "for f in ../outside/*; do echo $f; done", "x='../outside/*'; echo $x", "for f in \"../outside/*\"; do echo $f; done", "echo $(echo '../outside/*')", "x=$(echo '../outside/*'); echo $x",
    "read -r x <<< '../outside/*'; echo $x", "for d in linkdir; do cat $d/*; done", "for f in linkdir/*; do cat \"$f\"; done", "for f in link?ir/*; do cat \"$f\"; done", "time cat link", "time -p cat .env", "f=link; time cat $f",
    "for f in config/*; do cat $f; done", "for f in src/*; do cat \"$f\"; done", "for f in {link,x}; do cat \"$f\"; done", "for f in [l]ink; do cat \"$f\"; done", "x=l; cat ${x}ink", "x=ink; cat l$x", "x=k; cat \"lin$x\"", "ln -s ../outside/secret.txt 'lin k' 2>/dev/null; x=lin y=k; cat \"$x $y\"",
    "for a in li; do for b in nk; do cat $a$b; done; done", "x=../outside y=secret.txt; cat $x/$y", "grep -r KEY $(echo .)", "d=.; grep -r KEY $d", "d=config; grep -r SECRET \"$d\"", "o=-r; grep $o KEY .", "for o in -h -r; do grep $o KEY .; done",
)  # fmt: skip
RUNNING = (
    "x=pwn; y=$x; $y", "for x in ls pwn; do $x; done", "x='ls; pwn'; eval \"$x\"", "x=ls; x=pwn; $x", "[ -f \"$(pwn)\" ]", "echo $(( $(pwn) 0 ))", "i=0; echo $((i + $(pwn) 1))", "x='a[$(pwn)0]'; [[ $x -eq 0 ]]",
    "x='a[$(pwn)0]'; [[ 1 -lt $x ]]", "for x in 'a[$(pwn)0]'; do echo $((x + 1)); done", "read -r x <<< 'a[$(pwn)0]'; echo $((x))", "x=1; x='a[$(pwn)0]'; echo $((x))",
    "i=1; for j in 1 2; do echo $((i)); i='a[$(pwn)0]'; done", "while read x; do [[ $x -gt 1 ]]; done <<< 'a[$(pwn)0]'", "diff <(pwn) a.txt", "time -p pwn", "time ./pwn.sh", "case x in $(pwn)) ;; esac",
    "case $(pwn) in x) ;; esac", "if pwn; then :; fi", "until pwn; do break; done", "for i in \"$(pwn)\"; do :; done", "x=\"$(pwn)\"; :", "x=${y:-$(pwn)}", ": \"$(pwn)\"", "true $(pwn)", "sleep \"$(pwn)0\"", "exit $(pwn)",
    "for i in 1; do break \"$(pwn)1\"; done", "read -r PATH <<< evil; ls", "path=evil; PATH=$path ls", "if true; then PATH=$PWD/evil; fi; ls", "IFS=x read -r PATH <<< $PWD/evil; ls", "x=1; y='x[$(pwn)0]'; echo $((y))", "echo $((`pwn`1))",
    "x='$(pwn)'; echo \"${x@P}\"", "echo \"a $(echo \"b $(pwn)\")\"", "cat <(cat <(pwn))", "x=$(echo \"$(pwn)\")", "echo \"${x:=$(pwn)}\"", "[[ a == $(pwn)* ]]", "[[ a =~ $(pwn) ]]", "[ \"$(pwn)\" = y ]", "for x in \"${y:-$(pwn)}\"; do :; done",
    "case a in \"$(pwn)\") ;; esac", "i=0; while [ $i -lt 1 ]; do i=$((i+1)); pwn; done", "x=$(pwn) y=2; echo $y", "while pwn; do break; done", "ls | while read -r f; do pwn; done", "[[ -f a.txt && -n $(pwn) ]]", "[[ ( -n $(pwn) ) ]]", "[[ ! $(pwn) ]]",
    "git_dir=evilgit; GIT_DIR=$git_dir git status", "cd evilrepo; git status; cd ..", "if cd evilrepo; then git status; fi", "for d in src evilrepo; do (cd $d; git status); done", "x=evilrepo; git -C $x status", "d=evilrepo; cd $d && git status",
)  # fmt: skip
WRITING = (
    "for f in a.txt; do sort -o \"$f.new\" $f; done", "o=-i; sed $o s/t/T/ a.txt", "for o in -delete; do find . -name a.txt $o; done", "f=new; echo x > $f", "for f in 1; do ls; done > new", "if true; then ls; fi > new",
    "x=--output=new; git diff $x", "x=new; git branch $x", "x=new9; git tag \"$x\"", "git tag $(echo v10)", "while read x; do git tag $x; done <<< v11", "for b in v12; do git tag \"$b\"; done", "[[ -f a.txt ]] && touch t2",
    "o='-o new'; sort $o a.txt", "cat a.txt | while read l; do touch $l; done", "git tag \"v$((1+12))\"", "for f in -*; do sort \"$f\"; done", "for f in *; do sort $f; done", "case x in x) touch t3;; esac", "x=touch; $x t4",
    "for c in touch; do \"$c\" t5; done", "x=a.txt; uniq $x t6", "for f in a.txt t7; do set -- $@ $f; done; uniq $@", "time touch t8", "time -o t9 ls", "time sort -o t10 a.txt", "while read -r l; do echo \"$l\"; done < a.txt > t11", "cat <(ls) > t12",
    "ls >(cat > t13); sleep 0.3", "if ls; then ls; fi 2> t14", "case x in x) ls;; esac > t15", "o=-delete; find . -name b.txt \"$o\"", "w='w t16'; sed -n \"$w\" a.txt", "x=t17; cat a.txt | tee $x", "x=$(touch t18)", "echo \"$(sort -o t19 a.txt)\"",
    "[ -n \"$(sort -o t20 a.txt)\" ]", "for i in 1 2; do git branch b$i; done", "i=1; git tag n$i", "x=1; git tag m$((x+1))",
)  # fmt: skip
CONSTRUCTED: tuple[str, ...] = (*READING, *RUNNING, *WRITING)
"""Lines that are asked about or denied. If bash runs them all the same, each changes something or shows a secret."""
