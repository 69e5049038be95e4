"""The programs that only read, with every option they may be given. Anything else needs approval.

``option_parsing`` describes the rows. Abbreviations of long options are treated as unknown, so they need approval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from vibe.shell.policy.option_parsing import Operands, Reader, by_name, options_in
from vibe.shell.policy.script_rules import check_awk, check_repeats, check_sed

NEEDS_NAME = "without a name it prints everything"


def matching(
    pattern: str, problem: str = "{!r} may do more than look", *, without: str = ""
) -> Callable[[Sequence[str]], str]:
    """Make a check that accepts only words that match ``pattern``.

    It returns ``problem``, formatted with the word, for the first other word, and ``without`` if there are no words.
    """
    compiled = re.compile(pattern, re.DOTALL)

    def check(words: Sequence[str]) -> str:
        if not words:
            return without
        return next((problem.format(word) for word in words if not compiled.fullmatch(word)), "")

    return check


def listing(
    program: str, options: str, odd: str, *endings: str
) -> Callable[[Sequence[str]], tuple[str, Sequence[str]]]:
    """Make a reader of ``OPTIONS ARCHIVE [MEMBER...]``.

    The program tries each of ``endings`` on the archive's name. A name that matches ``odd`` means something else than
    a file, and is refused.
    """

    def own(words: Sequence[str]) -> tuple[str, Sequence[str]]:
        if len(words) < 2 or not re.fullmatch(options, words[0]) or re.search(odd, words[1]):
            return f"{program!r} may do more than list", ()
        if any(word.startswith("-") for word in words[1:]):
            return f"{program!r} with further options may do more than list", ()
        return "", [words[1] + ending for ending in endings]

    return own


FIND_OPTIONS = options_in(
    "--name= --iname= --path= --ipath= --wholename= --regex= --iregex= --regextype= --type= --maxdepth= --mindepth= "
    "--mtime= --mmin= --atime= --amin= --ctime= --cmin= --size= --perm= --user= --group= --links= --printf= --newer= "
    "--anewer= --cnewer= --newermt= --lname= --ilname= --iwholename= --xtype= --inum= --used= --fstype= --empty "
    "--print --print0 --prune --not --o --or --a --and --readable --writable --executable --depth --xdev --mount --ls "
    "--quit --true --false --nouser --nogroup --daystart --ignore_readdir_race --noleaf"
)
"""The options of ``find``, written with a second dash, so that a row can hold them."""
FIND_OPERATORS = frozenset("!(),")
PRINTF_WIDE = re.compile(r"%[^%A-Za-z]*(?:\*|\d{5})")
HUGE = re.compile(
    r"[+-]?(?:0x[\da-f.p+-]+|\d{8,}.*|\d*\.\d{5,}|[\d.]+e.*|inf\w*|nan\w*)|\d+-\d{8,}|-i\d+-\d{8,}|.*=\d+-\d{8,}",
    re.IGNORECASE,
)
PRINTF_STORE = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
XXD_FLAGS = frozenset({"-a", "-b", "-C", "-d", "-e", "-E", "-i", "-p", "-ps", "-u"})
XXD_VALUED = re.compile(r"-[cglos]")
XXD_NUMBER = re.compile(r"[+-]?(?:0x[0-9a-f]+|[0-9]+)")
JQ_REACH = re.compile(
    r"(?<![\w.])env\b|\.\.env\b|\d\.env\b|\bENV\b|\bimport\b|\binclude\b|\bget_search_list\b|\bmodulemeta\b"
)


def find_paths(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return what is wrong with the words of ``find``, or "", and the folders it starts from."""
    starts: list[str] = []
    index = 0
    while index < len(words) and not words[index].startswith(("-", "(", "!", ",")):
        starts.append(words[index])
        index += 1
    while index < len(words):
        mark = "" if words[index] in FIND_OPERATORS else FIND_OPTIONS.get(f"-{words[index]}")
        if mark is None:
            return f"'find {words[index]}' may do more than look", starts
        index += 2 if mark else 1
    return "", starts


def check_printf(words: Sequence[str]) -> str:
    """Refuse ``-v`` and ``%n``, which store into a variable whose subscript the shell evaluates, and huge widths."""
    if words and (words[0].startswith("-") or PRINTF_STORE.search(words[0]) or PRINTF_WIDE.search(words[0])):
        return f"'printf {words[0]}' may do more than print"
    return ""


def check_counting(words: Sequence[str]) -> str:
    """Refuse numbers too large to wait for, and a step of zero."""
    huge = next((word for word in words if HUGE.fullmatch(word)), None)
    if huge is None and len(words) > 2 and re.fullmatch(r"[+-]?0*+(?:\.0*+)?", words[-2]):
        huge = words[-2]
    return "" if huge is None else f"counting with {huge!r} may never end"


def check_jq(script: str) -> str:
    """Return what a jq script reads besides its input, or ""."""
    return "reads variables or modules" if JQ_REACH.search(script) else ""


def check_xxd(words: Sequence[str]) -> str:
    """Return what is wrong with the words of ``xxd``, or "".

    ``xxd`` reads only the first letter of most options. After a file all words are files, and it writes to the second.
    """
    index = 0
    while index < len(words) and words[index].startswith("-"):
        word = words[index]
        number = word[2:] or "".join(words[index + 1 : index + 2])
        index += 2 if XXD_VALUED.fullmatch(word) else 1
        if word not in XXD_FLAGS and not (XXD_VALUED.match(word) and XXD_NUMBER.fullmatch(number)):
            return f"'xxd {word}' may do more than look"
    return f"xxd writes to {words[index + 1]!r}" if len(words) > index + 1 else ""


DATE_WORDS = re.compile(r"[\w+@-][\w :+,./-]*")
DATE_OPTIONS = re.compile(
    r"\+.*|-uR?|-Ru?|-I[a-z]*|--(?:utc|universal|rfc-email|iso-8601(?:=[a-z]+)?|rfc-3339=[a-z]+)", re.DOTALL
)


def read_date(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return what is wrong with the words of ``date``, or "", and no paths.

    An operand would set the clock. The text of ``-d`` may name a file with a time zone.
    """
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word in {"-d", "--date"} and index < len(words):
            given = words[index]
            index += 1
        elif word.startswith(("--date=", "-d")):
            given = word.removeprefix("--date=").removeprefix("-d")
        elif DATE_OPTIONS.fullmatch(word):
            continue
        else:
            return f"'date {word}' may do more than look", ()
        if not DATE_WORDS.fullmatch(given) or "TZ" in given or re.match(r"-(?!\d)", given):
            return f"'date -d {given}' may do more than look", ()
    return "", ()


GIT_KEY = re.compile(
    r"(?:user|core|init|pull|push|merge|rebase|commit|branch|remote|diff|log|color|status)\.[\w./-]+", re.IGNORECASE
)


def git_setting(words: Sequence[str]) -> str:
    """Accept a single known name and no value. Other settings may hold a secret."""
    names = words[1:] if words[:1] in {("--local",), ("--global",)} else words
    return "" if len(names) == 1 and GIT_KEY.fullmatch(names[0]) else "'git config' may show a secret or set something"


LIST_IMPLYING = "--list -l --contains --no-contains --merged --no-merged --points-at"
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
    "--no-walk --not --left-right --cherry-pick --cherry --source --simplify-by-decoration --full-history --notes? "
    "--no-notes --show-pulls --ancestry-path --boundary --cc --no-mailmap --regexp-ignore-case --extended-regexp"
)

GIT_WITH_CLUSTERS = {
    "git status": (
        "-sbvz -u? --short --branch --show-stash --porcelain? --long --verbose --untracked-files? --ignored? "
        "--ignore-submodules? --ahead-behind --no-ahead-behind --renames --no-renames --column? --no-column"
    ),
    "git blame": (
        "-bceflnstw -M? -C? -L= --root --show-stats --show-name --show-number --show-email --porcelain "
        "--line-porcelain --incremental --since= --date= --abbrev? --first-parent --color-lines --color-by-age"
    ),
    "git ls-files": (
        "-cdmoistuvkz -x= --cached --deleted --modified --others --ignored --stage --unmerged --killed "
        "--exclude-standard --exclude= --error-unmatch --full-name --eol --deduplicate --abbrev? --directory"
    ),
    "git ls-tree": "-drtlz --long --name-only --name-status --full-name --full-tree --abbrev?",
    "git cat-file": "-teps",
    "git describe": (
        "--all --tags --always --long --dirty? --abbrev? --contains --candidates= --exact-match --match= --exclude= "
        "--first-parent --debug"
    ),
    "git shortlog": "-nsec --numbered --summary --email --group= --no-merges --all --since= --until=",
    "git merge-base": "-a --all --octopus --is-ancestor --fork-point --independent",
    "git submodule status": "-q --quiet --cached --recursive",
    "git cherry": "-v --abbrev?",
    "git name-rev": "--tags --all --name-only --always --no-undefined --undefined --refs= --exclude=",
    "git show-branch": (
        "-ar --all --remotes --current --topo-order --date-order --sparse --more? --list --independent --merge-base "
        "--no-name --sha1-name --topics --color? --no-color"
    ),
}
"""Subcommands of git that name revisions and paths, with their options."""
GIT_WITHOUT_CLUSTERS = {
    "git log, git show, git whatchanged": f"{GIT_LOG} -L=",
    "git diff": f"{GIT_DIFF} --cached --staged --merge-base --ours --theirs --base",
    "git rev-parse": (
        "-q --abbrev-ref? --short? --verify --quiet --symbolic --symbolic-full-name --show-toplevel --show-prefix "
        "--show-cdup --show-superproject-working-tree --git-dir --absolute-git-dir --git-common-dir "
        "--is-inside-work-tree --is-inside-git-dir --is-bare-repository --is-shallow-repository --all --branches? "
        "--tags? --remotes?"
    ),
    "git rev-list": GIT_LOG + " --count --objects --parents --children --timestamp",
    "git stash show": f"{GIT_DIFF} --include-untracked --only-untracked",
    "git reflog show": GIT_LOG,
    "git diff-tree": f"{GIT_DIFF} -r -t --root -m -c --cc --no-commit-id --pretty? --format? -v",
}
"""The same for subcommands that do not read ``-ab`` as ``-a -b``."""
GIT_READERS = {
    **{name: Reader(row, Operands.REVISIONS) for name, row in GIT_WITH_CLUSTERS.items()},
    **{name: Reader(row, Operands.REVISIONS, clusters=False) for name, row in GIT_WITHOUT_CLUSTERS.items()},
    "git branch": Reader(
        "-arvlq --all --remotes --verbose --list --show-current --color? --no-color --column? --no-column --sort= "
        "--format= --contains= --no-contains= --merged= --no-merged= --points-at=",
        Operands.REVISIONS,
        listing=LIST_IMPLYING,
    ),
    "git tag": Reader(
        "-l -n? --list --sort= --format= --contains= --no-contains= --merged= --no-merged= --points-at= --column?",
        Operands.REVISIONS,
        listing=LIST_IMPLYING,
    ),
    "git for-each-ref": Reader("--count= --sort= --format= --contains= --merged= --points-at=", Operands.TEXT),
    "git show-ref": Reader("-d -s? --head --heads --tags --hash? --abbrev? --verify --dereference", Operands.TEXT),
    "git count-objects": Reader("-vH --verbose --human-readable", Operands.NONE),
    "git check-ignore": Reader("-qvn --quiet --verbose --non-matching --no-index"),
    "git grep": Reader(
        "-# -iIvwanlLcEFGPhHqpWz -e= -A= -B= -C= -m= --cached --untracked --ignore-case --invert-match --word-regexp "
        "--text --line-number --column --files-with-matches --name-only --files-without-match --count --color? "
        "--no-color --break --heading --extended-regexp --fixed-strings --perl-regexp --basic-regexp --full-name "
        "--max-depth= --and --or --not --all-match --show-function --function-context --only-matching",
        Operands.PATTERN,
        check=check_repeats,
        patterns="-e",
        recursive="--untracked",
    ),
    "git remote": Reader("-v --verbose", Operands.NONE),
    "git remote get-url": Reader("--all --push", Operands.TEXT),
    "git worktree list": Reader("-vz --porcelain --verbose", Operands.NONE),
    "git reflog, git stash list": Reader(GIT_LOG, Operands.NONE, clusters=False),
    "git config, git config --get, git config --get-all": Reader(operands=Operands.WORDS, check=git_setting),
    "git check-attr": Reader("-az --all --cached"),
    "git symbolic-ref": Reader("-q --quiet --short", Operands.ONE_PATH),
}

GREP = Reader(
    "-# -IiyvwxcLloqsbHhnTZarzUR -e= -m= -A= -B= -C= --regexp= --ignore-case --no-ignore-case --invert-match "
    "--word-regexp --line-regexp --count --color? --colour? --files-without-match --files-with-matches --max-count= "
    "--only-matching --quiet --silent --no-messages --with-filename --no-filename --line-number --after-context= "
    "--before-context= --context= --text --binary --binary-files= --exclude= --include= --exclude-dir= --recursive "
    "--dereference-recursive --null --line-buffered --byte-offset --initial-tab --null-data",
    Operands.PATTERN,
    check=check_repeats,
    patterns="-e --regexp",
    recursive="-r -R --recursive --dereference-recursive",
    follows="-R --dereference-recursive",
)
NPM_LIST = r"[@\w][\w@/.-]*|-[aglp]|--(?:all|long|json|parseable|global|link|omit=\w+|include=\w+|depth=\d+)"
HARMLESS_VARIABLES = (
    "EDITOR|HOME|HOSTNAME|LANG|LC_ALL|LOGNAME|OLDPWD|PATH|PWD|PYTHONPATH|SHELL|SHLVL|TERM|TMPDIR|TZ|USER|VIRTUAL_ENV"
)
TEST_OPERATORS = r"-(?:[abcdefhnoprswxzLS]|eq|ne|lt|le|gt|ge|nt|ot)"
COMMANDS_OF_PAGERS = matching(r"[^+].*|", "{!r} may be a command for the pager")
WITHOUT_WORDS = Reader(operands=Operands.NONE)
WITHOUT_ARGUMENTS = (
    "arch", "git version", "history", "java -version", "node -v", "npm -v", "npm prefix", "npm root", "npm run",
    "npx --version", "perl -v", "pip check", "python -V", "python3 -V", "times", "ulimit", "ulimit -a", "ulimit -n",
    "ulimit -u", "whoami",
)  # fmt: skip
"""Commands that print something. With further words some of them do more, so none are allowed."""
VERSIONED = (
    "awk bash bat batcat clang clang++ cmake curl docker fd fdfind g++ gawk gcc git grep java javac jq less make "
    "mypy node npm perl pip pip3 python python3 rg ruff sed sqlite3 tar uv wget"
)
"""Programs that, with ``--version``, print it and end before they read anything in the current folder."""

READERS = by_name({
    # looking at files
    "ls": Reader(
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 -I= -w= -T= --all --almost-all --author --block-size= --classify? "
        "--color? --directory --full-time --group-directories-first --human-readable --hide= --ignore= --inode "
        "--no-group --numeric-uid-gid --recursive --reverse --si --size --sort= --time= --time-style="
    ),
    "cat": Reader("-AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends --show-tabs"),
    "tac": Reader("-br -s="),
    "bat, batcat": Reader(
        "-pnAuP -l= -r= -H= --plain --number --show-all --language= --line-range= --style= --color= --paging= "
        "--decorations= --tabs= --wrap= --theme= --terminal-width= --highlight-line= --list-languages",
        # ``cache`` writes, and ``--paging`` starts a program
        check=matching(r"(?!--paging(?!=never\Z)|cache\Z).*", "'bat' may do more than look"),
    ),
    "less": Reader("-EFMNRSXeginsm", check=COMMANDS_OF_PAGERS),
    "more": Reader("-dflcpsu", check=COMMANDS_OF_PAGERS),
    "zcat": Reader(check=matching(r".*\.(?:gz|tgz|Z)")),
    "tar": Reader(own=listing("tar", r"-?(?=[a-zA-Z]*t)[tvzjJ]+f", r"[:*?\[{]", "")),
    "unzip": Reader(own=listing("unzip", r"-(?:lv?|v|Z1|lq)", r"[*?\[\\]", "", ".zip", ".ZIP")),
    "head, tail": Reader("-# -qvz -c= -n= --bytes= --lines= --quiet --verbose"),
    "nl": Reader("-p -b= -d= -f= -h= -i= -l= -n= -s= -v= -w="),
    "wc": Reader("-cmlLw --bytes --chars --lines --words --max-line-length"),
    "stat": Reader("-Lft -c= --dereference --file-system --format= --printf= --terse"),
    "file": Reader("-bhikNnprL --brief --mime --mime-type --mime-encoding --no-pad"),
    "du": Reader(
        "-abchkmsSx0 -d= -B= -t= --all --apparent-size --bytes --total --human-readable --summarize --max-depth= "
        "--exclude= --one-file-system --separate-dirs --threshold= --time?"
    ),
    "df": Reader("-ahHiklPT -t= -x= -B= --all --human-readable --inodes --local --total --output?"),
    "tree": Reader(
        "-adfisphugDCnJXQqNvrtU -L: -I: -P: --dirsfirst --noreport --prune --gitignore --filelimit= --du --si "
        "--inodes --matchdirs --sort= --charset="
    ),
    "basename": Reader("-az -s= --multiple --suffix= --zero", Operands.TEXT),
    "dirname": Reader("-z --zero", Operands.TEXT),
    "realpath": Reader("-emsPLqz --relative-to= --relative-base="),
    "readlink": Reader("-femnqsz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline"),
    "cmp": Reader("-bls -n= -i= --print-bytes --silent --quiet --verbose"),
    "diff": Reader(
        "-abBcdeEiHNnqrsTtuwy -U= -C= -W= -I= -x= --brief --unified? --context? --recursive --new-file --ignore-case "
        "--ignore-all-space --ignore-blank-lines --ignore-space-change --side-by-side --width= --color? --exclude= "
        "--report-identical-files --suppress-common-lines --text --strip-trailing-cr",
        recursive="*",
        follows="*",
    ),
    "comm": Reader("-123z --check-order --nocheck-order --total --output-delimiter="),
    "od": Reader("-abcdfilosxv -A= -j= -N= -t= -w?"),
    "hexdump": Reader("-bcCdovx -n= -s="),
    "xxd": Reader("-abCdeEipu -c= -g= -l= -o= -s= -ps!", Operands.ONE_PATH, clusters=False, check=check_xxd),
    "strings": Reader("-afo -n= -t= -e=", check=matching(r"[^@].*|", "'strings {}' takes its words from a file")),
    "b2sum, md5sum, sha1sum, sha224sum, sha256sum, sha384sum, sha512sum": Reader("-bt --binary --text --tag --zero"),
    "cksum, rev, tsort": Reader(),
    # searching
    "egrep, fgrep": GREP,
    "grep": replace(GREP, row=f"{GREP.row} -EFGP --extended-regexp --fixed-strings --perl-regexp --basic-regexp"),
    "rg": Reader(
        "-# -iswxvclnNoFPSUHIpq0 -e= -g= -t= -T= -A= -B= -C= -m= -d= -r= -M= --regexp= --glob= --iglob= --type= "
        "--type-not= --after-context= --before-context= --context= --max-count= --max-depth= --max-columns= "
        "--ignore-case --smart-case --case-sensitive --word-regexp --line-regexp --invert-match --count "
        "--count-matches --files-with-matches --files-without-match --line-number --no-line-number --only-matching "
        "--fixed-strings --pcre2 --multiline --with-filename --no-filename --heading --no-heading --color= --column "
        "--json --files --type-list --stats --sort= --sortr= --trim --vimgrep --no-messages --null --quiet "
        "--replace= -. --hidden --no-ignore --no-ignore-vcs --passthru --sort-files --crlf --block-buffered "
        "--line-buffered",
        Operands.PATTERN,
        patterns="-e --regexp --files --type-list",
        recursive="*",
        visible=True,
    ),
    "find": Reader(own=find_paths),
    "fd, fdfind": Reader(
        "-HIsigFpa0q1 -e= -t= -d= -E= -c= -S= --hidden --no-ignore --case-sensitive --ignore-case --glob "
        "--fixed-strings --full-path --absolute-path --print0 --quiet --extension= --type= --max-depth= "
        "--min-depth= --exact-depth= --exclude= --color= --size= --max-results= --no-ignore-vcs",
        Operands.PATTERN,
    ),
    "which": Reader("-a", Operands.TEXT),
    "type": Reader("-aftpP", Operands.TEXT),
    "command -v, command -V, dpkg -l, dpkg -s, factor, getconf, groups": Reader(operands=Operands.TEXT),
    # processing text
    "sort": Reader(
        "-bdfghiMnRrVucsz -k= -t= --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort "
        "--human-numeric-sort --numeric-sort --reverse --version-sort --unique --check? --key= --field-separator= "
        "--stable --zero-terminated"
    ),
    "uniq": Reader(
        "-cdDiuz -f= -s= -w= --count --repeated --all-repeated? --ignore-case --unique --skip-fields= --skip-chars=",
        Operands.ONE_PATH,
    ),
    "cut": Reader("-nsz -b= -c= -d= -f= --bytes= --characters= --delimiter= --fields= --complement --only-delimited"),
    "tr": Reader("-cCdst --complement --delete --squeeze-repeats --truncate-set1", Operands.TEXT),
    "paste": Reader("-sz -d= --delimiters= --serial"),
    "join": Reader("-i -1= -2= -a= -e= -j= -o= -t= -v= --header --ignore-case"),
    "fold": Reader("-bs -w= --width= --spaces"),
    "fmt": Reader("-cstu -w= --width="),
    "expand": Reader("-i -t="),
    "column": Reader("-tx -n= -s= -o= -c= -N="),
    "base64": Reader("-di -w= --decode --wrap="),
    "jq": Reader(
        "-rcnsSeCMja --raw-output --compact-output --null-input --slurp --sort-keys --exit-status --color-output "
        "--monochrome-output --join-output --tab --indent= --raw-input -R",
        Operands.PATTERN,
        script=check_jq,
    ),
    "sed": Reader(
        "-nErsuz -e= --quiet --silent --regexp-extended --expression= --null-data --separate",
        Operands.PATTERN,
        patterns="-e --expression",
        script=check_sed,
    ),
    "awk, gawk, mawk": Reader("-F= -v=", Operands.PATTERN, stops=True, script=check_awk),
    # printing
    "echo, expr, true, false": Reader(operands=Operands.WORDS),
    "printf": Reader(operands=Operands.WORDS, check=check_printf, fixed_first=True),
    "seq": Reader("-w -s= -f= -# --equal-width --separator= --format=", Operands.TEXT, check=check_counting),
    "test": Reader(
        "-abcdefghlnopqrstwxzLS", check=matching(rf"[^-].*||{TEST_OPERATORS}", "'test {}' may run something")
    ),
    # system information
    "pwd": Reader("-LP --logical --physical", Operands.NONE),
    "date": Reader(own=read_date),
    "sleep": Reader(operands=Operands.TEXT, check=matching(r"\d{1,3}(?:\.\d+)?s?|\.\d+s?")),
    "printenv": Reader(operands=Operands.TEXT, check=matching(HARMLESS_VARIABLES, without=NEEDS_NAME)),
    "umask": Reader("-S -p", Operands.NONE),
    "jobs": Reader("-lp", Operands.NONE),
    "tty": Reader("-s", Operands.NONE),
    "tput": Reader(operands=Operands.WORDS, check=matching("cols|lines|colors", without=NEEDS_NAME)),
    "lsb_release": Reader(operands=Operands.WORDS, check=matching(r"-[adrcsi]+")),
    "ss": Reader(operands=Operands.WORDS, check=matching(r"-[atulnp46sxw]+")),
    "netstat": Reader(operands=Operands.WORDS, check=matching(r"-[atulnpsr46]+")),
    "whereis": Reader(operands=Operands.TEXT, check=matching(r"\w[\w.+-]*")),
    "pgrep": Reader("-alfcixno -u= -d=", Operands.TEXT),
    "pidof": Reader("-s", Operands.TEXT),
    "shuf": Reader("-ze -n= -i= --head-count= --input-range= --zero-terminated --echo", check=check_counting),
    "unexpand": Reader("-a -t="),
    "numfmt": Reader(
        "--from= --to= --suffix= --padding= --field= --format= --header? --round= --grouping", Operands.TEXT
    ),
    "sum": Reader("-rs"),
    "uname": Reader("-asnrvmpio --all --kernel-name --kernel-release --machine --operating-system", Operands.NONE),
    "id": Reader("-ugGnrz --user --group --groups --name", Operands.TEXT),
    "hostname": Reader("-sfiId", Operands.NONE),
    "nproc": Reader("--all", Operands.NONE),
    "uptime": Reader("-ps --pretty --since", Operands.NONE),
    "free": Reader("-bkmghtw --human --total --wide", Operands.NONE),
    "lscpu": Reader("-aJ --all --json", Operands.NONE),
    "locale": Reader("-a --all-locales", Operands.NONE),
    "ps": Reader(
        operands=Operands.WORDS,
        check=matching(
            r"auxf?|faux|axf?|-ef?|-eaf|-A|-[aA]?f|-efl|-u|-aux|-p|\d+(?:,\d+)*"
            r"|--sort=[-+]?%?[a-z]+|--forest|--no-headers"
        ),
    ),
    # versions and packages
    **dict.fromkeys((f"{name} --version" for name in VERSIONED.split()), WITHOUT_WORDS),
    ", ".join(WITHOUT_ARGUMENTS): WITHOUT_WORDS,
    "npm list, npm ls": Reader(operands=Operands.WORDS, check=matching(NPM_LIST)),
    "pip list, pip3 list": Reader("-e --editable --format= --not-required --exclude-editable", Operands.NONE),
    "pip show, pip3 show": Reader("-f --files", Operands.TEXT),
    "pip freeze, pip3 freeze": Reader("-l --all --local", Operands.NONE),
    **GIT_READERS,
})
"""The readers by the words they begin with."""


def find_reader(argv: Sequence[str]) -> tuple[Reader, int] | None:
    """Return the reader with the longest name that ``argv`` begins with, and the number of words in that name."""
    for length in (3, 2, 1):
        reader = READERS.get(" ".join(argv[:length])) if len(argv) >= length else None
        if reader is not None:
            return reader, length
    return None
