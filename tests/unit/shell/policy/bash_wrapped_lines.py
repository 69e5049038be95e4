"""Ways to run one program through another, in all of which the policy must find the program.

This is for programs that are denied, or asked about each time.
"""

from __future__ import annotations

WRAPPERS: tuple[str, ...] = (
    "bash <(echo '{}')", "source <(echo '{}')", ". /dev/stdin <<< '{}'", "bash -c '\"$@\"' x {}", "sh -c '$0 \"$@\"' {}", "sh -c 'exec \"$@\"' -- {}", "npx -c '{}'", "npm exec -c '{}'",
    "micromamba run -n x {}", "nix shell -c {}", "nix develop --command {}", "rbenv exec {}", "ssh h {}",
    "ssh -p 22 h '{}'", "git -c core.pager='{}' log", "git grep -O'{}' x", "git grep --open-files-in-pager='{}' x", "choom -n 5 -- {}", "uclampset -m 5 {}", "ifne {}", "timelimit -t 5 {}",
    "dotenv run -- {}", "dotenv -f x run {}", "op run -- {}", "aws-vault exec p -- {}", "envdir x {}", "caffeinate -i {}", "ccache {}", "sem -j2 {}", "tini -- {}", "runcon x {}", "aa-exec -p x -- {}",
    "timeout 5 {}", "timeout --signal KILL 5 {}", "timeout -s KILL 5 {}", "timeout -k 1 -sKILL 5s {}", "timeout --kill-after=1 5 {}",
    "timeout -v --preserve-status 5 {}", "nice {}", "nice -n 5 {}", "nice -5 {}", "nice --adjustment 5 {}", "nice -n5 {}",
    "stdbuf -o L {}", "stdbuf -oL -e0 {}", "stdbuf --output L {}", "ionice -c 3 {}", "ionice -c2 -n 0 {}", "ionice --class 3 -t {}",
    "chrt 5 {}", "chrt -r 5 {}", "chrt --rr 5 {}", "chrt -b 0 {}", "chrt --batch 0 {}", "chrt -v -f 1 {}", "setpriv --no-new-privs {}", "setpriv --pdeathsig KILL {}",
    "setpriv --nnp --securebits +noroot {}", "prlimit --nofile=9 {}", "prlimit --nofile=9 --cpu=5 {}", "prlimit -n5 {}",
    "nsenter -t 1 {}", "nsenter --target 1 -m {}", "nsenter -t 1 -m -u -i -n -p -- {}", "nsenter --mount=/x {}", "runuser -u me {}", "runuser -u me -- {}",
    "runuser -c '{}' me", "runuser - me -c '{}'", "runuser --command='{}' me", "flock /tmp/x {}", "flock -w 5 x {}", "flock -n x -c '{}'", "flock --timeout 5 x {}",
    "flock x --command '{}'", "taskset 1 {}", "taskset -c 0-3 {}", "taskset --cpu-list 0 {}", "unshare -r {}", "unshare --map-root-user {}",
    "unshare -U --wd / {}", "unshare --fork --pid --mount-proc {}", "unshare -w / {}", "chroot / {}", "chroot --skip-chdir / {}", "chroot --groups x / {}",
    "xargs {}", "ls | xargs -n 1 {}", "ls | xargs -n1 -P 4 {}", "ls | xargs -I {{}} {} {{}}", "ls | xargs --max-args 1 {}", "ls | xargs --max-args=1 {}",
    "xargs -0 -r {} < x", "xargs -a x -d , {}", "xargs --arg-file x --delimiter , {}", "xargs -i {} {{}}", "find . -exec {} ;", "find . -name x -exec {} {{}} +",
    "find . -ok {} ;", "find . -execdir {} \\;", "find . -type f -exec sh -c '{}' \\;", "fd -x {}", "fd . --exec-batch {}", "parallel {} ::: a", "parallel -j 4 {} ::: a",
    "parallel -j4 '{}' ::: a", "ls | parallel {}", "watch {}", "watch -n 1 {}", "watch -n1 -d '{}'", "watch --interval 5 -x {}", "script -c '{}'", "script -qc '{}' /dev/null",
    "script -q -c '{}' x", "script --command '{}' x", "script --command='{}'", "script -qec '{}' /dev/null", "strace {}", "strace -f -o x {}",
    "strace -e trace=open {}", "strace --output x {}", "setarch x86_64 {}", "setarch -R {}", "setarch x86_64 -R {}", "linux32 {}", "systemd-run {}",
    "systemd-run --scope {}", "systemd-run -p X=y {}", "systemd-run --unit x -t {}", "busybox {}", "toybox {}", "busybox timeout 5 {}", "bash -c '{}'", "bash -c -- '{}'",
    "bash -ec '{}'", "sh -ec '{}'", "sh -e -c '{}'", "sh -c -e '{}'", "bash -lc '{}'", "bash -o pipefail -c '{}'", "bash -eo pipefail -c '{}'", "bash -O extglob -c '{}'",
    "bash --norc --noprofile -c '{}'", "bash --rcfile x -c '{}'", "bash +x -c '{}'", "bash -ceu '{}'", "dash -c '{}'", "zsh -fc '{}'", "ksh -c '{}'", "/bin/sh -c '{}' x y",
    "eval {}", "eval '{}'", "eval -- '{}'", "eval 'ls;' '{}'", "trap '{}' EXIT", "trap -- '{}' EXIT", "trap -- '{}' 0 1", "env {}", "env - {}", "env -i {}", "env -i - {}",
    "env A=b C=d {}", "env -u HOME {}", "env --unset HOME {}", "env --unset=HOME {}", "env -iS '{}'", "env -S '{}'", "env -vS '{}'", "env -S'{}'", "env --split-string='{}'",
    "env --split-string '{}'", "env -C / {}", "env --chdir / {}", "env -iS 'A=b {}'", "env --ignore-signal {}", "env --ignore-signal=INT {}", "env -- {}",
    "env -a x {}", "exec {}", "exec -a x {}", "exec -cl -a x {}", "exec -la x {}", "coproc {}", "coproc NAME {{ {}; }}", "coproc {{ {}; }}", "time {}", "time -p {}",
    "/usr/bin/time -f %e {}", "/usr/bin/time -o x -a {}", "command {}", "command -p {}", "command -- {}", "builtin command {}", "builtin eval '{}'", "nohup {}",
    "setsid {}", "setsid -w {}", "setsid --fork {}", "numactl --cpunodebind 0 {}", "numactl -C 0 {}", "fakeroot {}", "fakeroot -- {}", "unbuffer {}", "rlwrap {}",
    "faketime yesterday {}", "bwrap --ro-bind / / {}", "bwrap --dev /dev --ro-bind / / -- {}", "proot -r / {}", "firejail --quiet {}", "start-stop-daemon --start --exec {}",
    "systemd-inhibit {}", "dbus-run-session -- {}", "xvfb-run -a {}", "perf stat {}", "perf record -o x {}", "valgrind --tool=none {}", "uv run {}",
    "uv run --with x {}", "poetry run {}", "pipenv run {}", "bundle exec {}", "direnv exec . {}", "mise exec -- {}", "rustup run stable {}", "conda run -n x {}",
    "npm exec -- {}", "hyperfine '{}'", "entr -r {}", "ls | entr {}", "nix-shell --run '{}'", "tar -cf x --to-command='{}' y", "tar --checkpoint-action=exec='{}' -cf x y",
    "tar -I '{}' -cf x y", "rsync -e '{}' a b", "mapfile -C '{}' -c 1 x < y", "complete -C '{}' x", "alias x='{}'; x", "alias x=y z='{}'", "bind -x '\"a\":{}'",
    "git -c alias.x='!{}' x", "git -c core.editor='{}' commit", "git -c core.sshCommand='{}' fetch", "git rebase --exec '{}' HEAD~1", "git rebase -x '{}' HEAD~1",
    "git bisect run {}", "git submodule foreach '{}'", "git submodule foreach --recursive '{}'", "git filter-branch --tree-filter '{}'", "git difftool -y -x '{}'",
    "git -C . -c alias.x='!{}' x", "{{{},}}", "{{{},x}}", "/usr/bin/{{{},x}} y", "timeout 5 {{{},x}}", "timeout {{5,{}}}", "echo {} | sh", "echo '{}' | bash -s",
    "echo '{}' | bash -s x y", "printf '%s\\n' '{}' | sh -x", "echo '{}' | sh /dev/stdin", "sh <<< '{}'", "bash <<EOF\n{}\nEOF", "echo {} | xargs env", "echo {} | xargs",
    "echo {} | xargs -I{{}} {{}}", "echo {} | xargs sh -c", "echo '{}' | parallel", "at now <<< '{}'", "echo '{}' | at now", "batch <<< '{}'", "su -c '{}'", "su me -c '{}'",
    "su - me --command '{}'", "su me --command='{}'", "sg grp '{}'", "sg grp -c '{}'", "pkexec {}", "pkexec --user me {}", "doas {}", "doas -u me {}", "sudo {}",
    "sudo -u me {}", "sudo --user me {}", "sudo --user=me -- {}", "sudo -EH -g x {}", "sudo -nu me {}", "sudo A=b {}", "run0 {}", "run0 -u me {}",
    "gosu me {}", "chpst -u me {}", "ls; (ls && {{ {}; }})", "ls $({})", "cat <({})", "echo \"$({})\"", "f() {{ {}; }}; f", "if true; then {}; fi", "case x in *) {};; esac",
    "for i in 1 2; do {}; done", "while {}; do ls; done", "! {}", "X=1 {}", "X=1 Y=2 env {}", "sh -c 'sh -c \"{}\"'", "env -S 'sh -c \"{}\"'", "timeout 5 env -i nice -n 5 {}",
      "x='{}'; eval $x", "x='{}'; eval \"$x\"", "x='{}'; bash -c \"$x\"",  "{{ cd x && {}; }} || ls", "cd x; {}",
    "timeout $T {}", "nice -n $N {}", "env $X {}", "xargs $OPTIONS {}", "timeout $A $B {}", "ls |& {}", "{} &", "ls\n{}", "ls &&\\\n{}", "> x {}", "2>/dev/null {}",
    "{} <<< x", "nice\\\n {}", "\\time {}", "'env' {}", "e\"n\"v {}", "/usr/bin/env {}", "./env {}", "ls | (xargs -n 1 nice {})", "[[ $({}) ]]", "x=$({})", "echo `{}`",
    "echo $(({} 2>/dev/null))`{}`",
)  # fmt: skip
"""Lines with a place for a command."""

PLAIN_ARGUMENTS: tuple[str, ...] = (
    "command -v node", "command -V python3", "command -pv vim", "command -v vim less", "which less", "type vim", "man vim", "grep less f", "grep -rn vim src", "rg less",
    "echo vim", "echo 'run sudo vim'", "printf '%s\\n' python", "timeout 5 grep less f", "timeout -k 1 5 grep more f", "timeout --signal KILL 5 grep less f",
    "nice -n 5 grep vim f", "env A=b grep vim f", "xargs grep less", "ls | xargs -0 grep less", "ls | xargs -n 1 grep more", "xargs -I {} grep less {}", "find . -name vim",
    "find . -name less -exec grep more {} +", "git log --grep vim", "git commit -m 'use less memory'", "git commit -m vim", "git checkout -b vim", "git add less", "git log -- less",
    "git -C less status", "cat vim", "ls top", "cd screen", "ls more less top", "pip show ipython", "pip install nano", "npm install less", "npm install --save-dev less",
    "apt-get install -y vim", "make top", "uv run grep less f", "uv add less", "uv pip install ipython", "test -f less", "[ -d vim ]",
    "[[ -x /usr/bin/vim ]]", "cp vim x", "cat src/screen/top.py", "sh build.sh vim", "bash -e build.sh less", "bash -c 'echo $1' x vim", "python x.py", "python -c 'print(1)'",
    "python -m pytest pdb", "python -m json.tool", "python3 -m pytest --pdb", "node x.js", "node --version", "bash --version", "ssh host ls", "ssh -V", "echo x | python",
    "python <<EOF\nprint(1)\nEOF", "rm less", "stat view", "alias", "trap - EXIT", "exec 3>&1", "for vim in a; do echo $vim; done", "x=vim", "rg -t less foo", "ls | grep top",
    "git bisect good", "git submodule update", "git config --get core.editor", "git -c core.pager=cat log", "git -c user.name=vim log", "chmod +x view", "which python node",
    "npm run view", "npm view react", "npm exec -- eslint less", "gh pr view 1", "kubectl top pods", "docker top x", "cargo run --bin top", "perf report", "watch -n 1 ls less",
    "tar -tf less.tar", "tar xf vim.tar.gz", "hash less", "git shortlog -sn", "time grep less f",
)  # fmt: skip
"""Lines that contain the words without running them."""
