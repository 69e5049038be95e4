"""The subcommands of git that only read, with every option they may be given; see ``read_only_commands``."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from vibe.shell.policy.option_specs import Operands, Reader, git_setting, options_in, reader, whole_words
from vibe.shell.policy.script_rules import check_repeats

LIST_IMPLYING = frozenset({"--list", "-l", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at"})
GIT_DIFF = (
    "-pusbwWzRa -U? -M? -C? -S= -G= -B? -D --patch --no-patch --unified? --raw --minimal --patience --histogram "
    "--diff-algorithm= --stat? --numstat --shortstat --dirstat? --summary --compact-summary --name-only --name-status "
    "--color? --no-color --color-words? --word-diff? --word-diff-regex= --no-renames --find-renames? --find-copies? "
    "--diff-filter= --pickaxe-all --pickaxe-regex --ignore-all-space --ignore-space-change --ignore-blank-lines "
    "--ignore-space-at-eol --function-context --inter-hunk-context= --no-ext-diff --no-textconv --exit-code --quiet "
    "--relative? --abbrev? --full-index --no-prefix --check --binary --text"
)
GIT_LOG = (
    f"{GIT_DIFF} -# -n= -i -E -F -P -c -m -q --max-count= --skip= --since= --after= --until= --before= --author= "
    "--committer= --grep= --all-match --invert-grep --merges --no-merges --first-parent --all --branches? --tags? "
    "--remotes? --glob= --exclude= --reverse --oneline --graph --decorate? --no-decorate --pretty? --format? "
    "--abbrev-commit --no-abbrev-commit --date= --relative-date --follow --topo-order --date-order --author-date-order "
    "--no-walk --left-right --cherry-pick --cherry --source --simplify-by-decoration --full-history --notes? "
    "--no-notes --show-pulls --ancestry-path --boundary --cc --no-mailmap --regexp-ignore-case --extended-regexp"
)

GIT_SETTING = Reader(options={}, operands=Operands.WORDS, check=git_setting)

GIT_READERS: Mapping[str, Reader] = MappingProxyType({
    "git version": reader("", Operands.NONE),
    "git status": reader(
        "-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? --ignored? "
        "--ignore-submodules? --ahead-behind --no-ahead-behind --renames --no-renames --column? --no-column",
        Operands.REVISIONS,
    ),
    "git log": whole_words(f"{GIT_LOG} -L=", Operands.REVISIONS),
    "git show": whole_words(f"{GIT_LOG} -L=", Operands.REVISIONS),
    "git diff": whole_words(f"{GIT_DIFF} --cached --staged --merge-base --ours --theirs --base", Operands.REVISIONS),
    "git branch": Reader(
        options=options_in(
            "-arvlq --all --remotes --verbose --list --show-current --color? --no-color --column? --no-column --sort= "
            "--format= --contains= --no-contains= --merged= --no-merged= --points-at="
        ),
        operands=Operands.REVISIONS,
        listing=LIST_IMPLYING,
    ),
    "git tag": Reader(
        options=options_in(
            "-l -n? --list --sort= --format= --contains= --no-contains= --merged= --no-merged= --points-at= --column?"
        ),
        operands=Operands.REVISIONS,
        listing=LIST_IMPLYING,
    ),
    "git rev-parse": whole_words(
        "-q --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --show-toplevel --show-prefix "
        "--show-cdup --show-superproject-working-tree --git-dir --absolute-git-dir --git-common-dir "
        "--is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --all --branches? "
        "--tags? --remotes?",
        Operands.REVISIONS,
    ),
    "git rev-list": whole_words(GIT_LOG + " --count --objects --parents --children --timestamp", Operands.REVISIONS),
    "git blame": reader(
        "-bceflnstw -M? -C? -L= --root --show-stats --show-name --show-number --show-email --porcelain "
        "--line-porcelain --incremental --since= --date= --abbrev? --first-parent --color-lines --color-by-age",
        Operands.REVISIONS,
    ),
    "git ls-files": reader(
        "-cdmoistuvkz -x= --cached --deleted --modified --others --ignored --stage --unmerged --killed "
        "--exclude-standard --exclude= --error-unmatch --full-name --eol --deduplicate --abbrev? --directory",
        Operands.REVISIONS,
    ),
    "git ls-tree": reader(
        "-drtlz --long --name-only --name-status --full-name --full-tree --abbrev?", Operands.REVISIONS
    ),
    "git cat-file": reader("-teps", Operands.REVISIONS),
    "git describe": reader(
        "--all --tags --always --long --dirty? --abbrev? --contains --candidates= --exact-match --match= --exclude= "
        "--first-parent --debug",
        Operands.REVISIONS,
    ),
    "git shortlog": reader(
        "-nsec --numbered --summary --email --group= --no-merges --all --since= --until=", Operands.REVISIONS
    ),
    "git merge-base": reader("-a --all --octopus --is-ancestor --fork-point --independent", Operands.REVISIONS),
    "git for-each-ref": reader("--count= --sort= --format= --contains= --merged= --points-at=", Operands.TEXT),
    "git show-ref": reader("-d -s? --head --heads --tags --hash? --abbrev? --verify --dereference", Operands.TEXT),
    "git count-objects": reader("-vH --verbose --human-readable", Operands.NONE),
    "git check-ignore": reader("-qvn --quiet --verbose --non-matching --no-index", Operands.PATHS),
    "git grep": Reader(
        options=options_in(
            "-# -iIvwanlLcEFGPhHqpWz -e= -A= -B= -C= -m= --cached --untracked --ignore-case --invert-match "
            "--word-regexp --text --line-number --column --files-with-matches --name-only --files-without-match "
            "--count --color? --no-color --break --heading --extended-regexp --fixed-strings --perl-regexp "
            "--basic-regexp --full-name --max-depth= --and --or --not --all-match --show-function --function-context "
            "--only-matching"
        ),
        operands=Operands.PATTERN,
        check=check_repeats,
        patterns=frozenset({"-e"}),
        recursive=frozenset({"--untracked"}),
    ),
    "git remote": Reader(options=options_in("-v --verbose"), operands=Operands.NONE),
    "git remote get-url": reader("--all --push", Operands.TEXT),
    "git stash list": whole_words(GIT_LOG, Operands.NONE),
    "git stash show": whole_words(f"{GIT_DIFF} --include-untracked --only-untracked", Operands.REVISIONS),
    "git worktree list": reader("-vz --porcelain --verbose", Operands.NONE),
    "git reflog": whole_words(GIT_LOG, Operands.NONE),
    "git reflog show": whole_words(GIT_LOG, Operands.REVISIONS),
    "git config --get": GIT_SETTING,
    "git config --get-all": GIT_SETTING,
    "git config": Reader(options={}, operands=Operands.WORDS, check=git_setting),
    "git submodule status": reader("-q --quiet --cached --recursive", Operands.REVISIONS),
    "git cherry": reader("-v --abbrev?", Operands.REVISIONS),
    "git name-rev": reader(
        "--tags --all --name-only --always --no-undefined --undefined --refs= --exclude=", Operands.REVISIONS
    ),
    "git whatchanged": whole_words(f"{GIT_LOG} -L=", Operands.REVISIONS),
    "git show-branch": reader(
        "-ar --all --remotes --current --topo-order --date-order --sparse --more? --list --independent "
        "--merge-base --no-name --sha1-name --topics --color? --no-color",
        Operands.REVISIONS,
    ),
    "git diff-tree": whole_words(
        f"{GIT_DIFF} -r -t --root -m -c --cc --no-commit-id --pretty? --format? -v", Operands.REVISIONS
    ),
    "git check-attr": reader("-az --all --cached", Operands.PATHS),
    "git symbolic-ref": Reader(options=options_in("-q --quiet --short"), operands=Operands.ONE_PATH),
})
