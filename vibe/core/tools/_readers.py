"""The programs that only read, with every option they may be given: whatever is not written here is asked about.

``_reader_rules`` says how a row is read. Abbreviations of long options are not known, and so asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from vibe.core.tools._reader_rules import (
    TEST_OPERATORS,
    Operands,
    Reader,
    check_jq,
    check_printf,
    check_sed,
    check_strings,
    check_test,
    check_xxd,
    matching,
    only,
    options_in,
    reader,
    whole_words,
)

HASH_OPTIONS = "-bt --binary --text --tag --zero"
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
    "--no-walk --left-right --cherry-pick --cherry --stdin --source --simplify-by-decoration --full-history --notes? "
    "--no-notes --show-pulls --ancestry-path --boundary --cc --no-mailmap --regexp-ignore-case --extended-regexp"
)

READERS: Mapping[str, Reader] = MappingProxyType({
    # looking at files
    "ls": reader(
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 -I= -w= -T= --all --almost-all --author --block-size= --classify? --color? "
        "--directory --full-time --group-directories-first --human-readable --hide= --ignore= --inode --no-group "
        "--numeric-uid-gid --recursive --reverse --si --size --sort= --time= --time-style="
    ),
    "cat": reader("-AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends --show-tabs"),
    "tac": reader("-br -s="),
    "head": reader("-# -qvz -c= -n= --bytes= --lines= --quiet --verbose"),
    "tail": reader("-# -qvz -c= -n= --bytes= --lines= --quiet --verbose"),
    "nl": reader("-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w="),
    "wc": reader("-cmlLw --bytes --chars --lines --words --max-line-length"),
    "stat": reader("-Lft -c= --dereference --file-system --format= --printf= --terse"),
    "file": reader("-bhikNnprL --brief --mime --mime-type --mime-encoding --no-pad"),
    "du": reader(
        "-abchkmsSx0 -d= -B= -t= --all --apparent-size --bytes --total --human-readable --summarize --max-depth= "
        "--exclude= --one-file-system --separate-dirs --threshold= --time?"
    ),
    "df": reader("-ahHiklPT -t= -x= -B= --all --human-readable --inodes --local --total --output?"),
    "tree": reader(
        "-adfisphugDCnJXQqNvrtU -L: -I: -P: --dirsfirst --noreport --prune --gitignore --filelimit= --du --si --inodes "
        "--matchdirs --sort= --charset="
    ),
    "basename": reader("-az -s= --multiple --suffix= --zero", Operands.TEXT),
    "dirname": reader("-z --zero", Operands.TEXT),
    "realpath": reader("-emsPLqz --relative-to= --relative-base="),
    "readlink": reader("-femnqsz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline"),
    "cmp": reader("-bls -n= -i= --print-bytes --silent --quiet --verbose"),
    "diff": Reader(
        options=options_in(
            "-abBcdeEiHNnqrsTtuwy -U= -C= -W= -I= -x= --brief --unified? --context? --recursive --new-file --ignore-case "
            "--ignore-all-space --ignore-blank-lines --ignore-space-change --side-by-side --width= --color? --exclude= "
            "--report-identical-files --suppress-common-lines --text --strip-trailing-cr"
        ),
        recursive=frozenset({"*"}),
        follows=True,
    ),
    "comm": reader("-123z --check-order --nocheck-order --total --output-delimiter="),
    "od": reader("-abcdfilosxv -A= -j= -N= -t= -w?"),
    "hexdump": reader("-bcCdovx -n= -s="),
    "xxd": Reader(
        options={**options_in("-a -b -C -d -e -E -i -p -u -c= -g= -l= -o= -s="), "-ps": ""},
        operands=Operands.ONE_PATH,
        clusters=False,
        check=check_xxd,
    ),
    "strings": Reader(options=options_in("-afo -n= -t= -e="), check=check_strings),
    "md5sum": reader(HASH_OPTIONS),
    "sha1sum": reader(HASH_OPTIONS),
    "sha256sum": reader(HASH_OPTIONS),
    "sha512sum": reader(HASH_OPTIONS),
    "b2sum": reader(HASH_OPTIONS),
    "cksum": reader(""),
    # searching
    "grep": Reader(
        options=options_in(
            "-# -EFGPiyvwxcLloqsbHhnTZarzU -e= -m= -A= -B= -C= --extended-regexp --fixed-strings --perl-regexp --regexp= "
            "--ignore-case --no-ignore-case --invert-match --word-regexp --line-regexp --count --color? --colour? "
            "--files-without-match --files-with-matches --max-count= --only-matching --quiet --silent --no-messages "
            "--with-filename --no-filename --line-number --after-context= --before-context= --context= --text --binary "
            "--binary-files= --exclude= --include= --exclude-dir= --recursive --null"
        ),
        operands=Operands.PATTERN,
        patterns=frozenset({"-e", "--regexp"}),
        recursive=frozenset({"-r", "--recursive"}),
    ),
    "rg": Reader(
        options=options_in(
            "-# -iswxvclnNoFPSUHIpq0 -e= -g= -t= -T= -A= -B= -C= -m= -d= -r= -M= --regexp= --glob= --iglob= --type= "
            "--type-not= --after-context= --before-context= --context= --max-count= --max-depth= --max-columns= "
            "--ignore-case --smart-case --case-sensitive --word-regexp --line-regexp --invert-match --count "
            "--count-matches --files-with-matches --files-without-match --line-number --no-line-number --only-matching "
            "--fixed-strings --pcre2 --multiline --with-filename --no-filename --heading --no-heading --color= --column "
            "--json --files --type-list --stats --sort= --sortr= --trim --vimgrep --no-messages --null --quiet --replace="
        ),
        operands=Operands.PATTERN,
        patterns=frozenset({"-e", "--regexp", "--files", "--type-list"}),
        recursive=frozenset({"*"}),
        visible=True,
    ),
    "find": Reader(options={}, operands=Operands.PATHS),
    "which": reader("-a", Operands.TEXT),
    "type": reader("-aftpP", Operands.TEXT),
    "command -v": reader("", Operands.TEXT),
    "command -V": reader("", Operands.TEXT),
    # taking text apart
    "sort": reader(
        "-bdfghiMnRrVucsz -k= -t= --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort "
        "--human-numeric-sort --numeric-sort --reverse --version-sort --unique --check? --key= --field-separator= "
        "--stable --zero-terminated"
    ),
    "uniq": reader(
        "-cdDiuz -f= -s= -w= --count --repeated --all-repeated? --ignore-case --unique --skip-fields= --skip-chars=",
        Operands.ONE_PATH,
    ),
    "cut": reader("-nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement --only-delimited"),
    "tr": reader("-cCdst --complement --delete --squeeze-repeats --truncate-set1", Operands.TEXT),
    "paste": reader("-sz -d= --delimiters= --serial"),
    "join": reader("-i -1= -2= -a= -e= -j= -o= -t= -v= --header --ignore-case"),
    "fold": reader("-bs -w= --width= --spaces"),
    "fmt": reader("-cstu -w= --width="),
    "expand": reader("-i -t="),
    "rev": reader(""),
    "column": reader("-tx -n= -s= -o= -c= -N="),
    "base64": reader("-di -w= --decode --wrap="),
    "jq": Reader(
        options=options_in(
            "-rcnsSeCMja --raw-output --compact-output --null-input --slurp --sort-keys --exit-status --color-output "
            "--monochrome-output --join-output --tab --indent= --raw-input -R"
        ),
        operands=Operands.PATTERN,
        check=check_jq,
    ),
    "sed": Reader(
        options=options_in("-nEsu --quiet --silent --regexp-extended"), operands=Operands.PATTERN, check=check_sed
    ),
    # saying something
    "echo": reader("", Operands.TEXT),
    "printf": Reader(options={}, operands=Operands.TEXT, check=check_printf),
    "seq": reader("-w -s= -f= -# --equal-width --separator= --format=", Operands.TEXT),
    "expr": reader("", Operands.TEXT),
    "true": reader("", Operands.TEXT),
    "false": reader("", Operands.TEXT),
    "test": Reader(options=options_in(" ".join(TEST_OPERATORS)), check=check_test),
    # where and when
    "pwd": reader("-LP --logical --physical", Operands.NONE),
    "date": Reader(
        options=options_in("-uR -I? --utc --universal --rfc-email --iso-8601? --rfc-3339="),
        operands=Operands.TEXT,
        check=matching(r"\+.*|-uR?|-Ru?|-I[a-z]*|--(?:utc|universal|rfc-email|iso-8601(?:=[a-z]+)?|rfc-3339=[a-z]+)"),
    ),
    "uname": reader("-asnrvmpio --all --kernel-name --kernel-release --machine --operating-system", Operands.NONE),
    "whoami": reader("", Operands.NONE),
    "id": reader("-ugGnrz --user --group --groups --name", Operands.TEXT),
    "groups": reader("", Operands.TEXT),
    "hostname": reader("-sfiId", Operands.NONE),
    "nproc": reader("--all", Operands.NONE),
    "arch": reader("", Operands.NONE),
    "uptime": reader("-ps --pretty --since", Operands.NONE),
    "free": reader("-bkmghtw --human --total --wide", Operands.NONE),
    "lscpu": reader("-aJ --all --json", Operands.NONE),
    "locale": reader("-a --all-locales", Operands.NONE),
    "ps": Reader(options={}, operands=Operands.TEXT, check=only("aux", "ax", "-e", "-ef", "-A", "-f", "-u", "-aux")),
    # versions and packages
    "python --version": reader("", Operands.NONE),
    "python -V": reader("", Operands.NONE),
    "python3 --version": reader("", Operands.NONE),
    "python3 -V": reader("", Operands.NONE),
    "node --version": reader("", Operands.NONE),
    "node -v": reader("", Operands.NONE),
    "pip --version": reader("", Operands.NONE),
    "pip list": reader("-e --editable --format= --not-required --exclude-editable", Operands.NONE),
    "pip show": reader("-f --files", Operands.TEXT),
    "pip freeze": reader("-l --all --local", Operands.NONE),
    "uv --version": reader("", Operands.NONE),
    "make --version": reader("", Operands.NONE),
    "gcc --version": reader("", Operands.NONE),
    # git
    "git --version": reader("", Operands.NONE),
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
        "-bceflnstw -M? -C? -L= --root --show-stats --show-name --show-number --show-email --porcelain --line-porcelain "
        "--incremental --since= --date= --abbrev? --first-parent --color-lines --color-by-age",
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
            "-# -iIvwanlLcEFGPhHqpWz -e= -A= -B= -C= -m= --cached --untracked --ignore-case --invert-match --word-regexp "
            "--text --line-number --column --files-with-matches --name-only --files-without-match --count --color? "
            "--no-color --break --heading --extended-regexp --fixed-strings --perl-regexp --basic-regexp --full-name "
            "--max-depth= --and --or --not --all-match --show-function --function-context --only-matching"
        ),
        operands=Operands.PATTERN,
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
    "git config --get": Reader(
        options={},
        operands=Operands.TEXT,
        check=matching(r"(?:user|core|init|pull|push|merge|rebase|commit|branch|remote)\.[\w.-]+"),
    ),
})
"""By the words they begin with."""

PATTERN_SAFE = frozenset({"ls", "cat", "head", "tail", "wc", "stat", "du", "md5sum", "sha1sum", "sha256sum", "sha512sum",
                          "echo", "basename", "dirname", "nl", "tac"})  # fmt: skip
"""Programs without any option that writes or runs something: a file named like an option can do no harm there."""


def find_reader(argv: Sequence[str]) -> tuple[Reader, int] | None:
    """The reader of the longest beginning of ``argv``, and how many words that is."""
    for length in (3, 2, 1):
        reader = READERS.get(" ".join(argv[:length])) if len(argv) >= length else None
        if reader is not None:
            return reader, length
    return None
