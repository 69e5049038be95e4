"""The programs that only read, with every option they may be given: whatever is not written here is asked about.

``option_specs`` says how a row is read. Abbreviations of long options are not known, and so asked about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from vibe.shell.policy.git_readers import GIT_READERS
from vibe.shell.policy.option_specs import (
    TEST_OPERATORS,
    Operands,
    Reader,
    check_bat,
    check_counting,
    check_jq,
    check_pager,
    check_printf,
    check_strings,
    check_test,
    check_xxd,
    find_paths,
    list_tar,
    list_zip,
    matching,
    only,
    options_in,
    read_date,
    reader,
    something,
)
from vibe.shell.policy.script_rules import check_awk, check_repeats, check_sed

HASH_OPTIONS = "-bt --binary --text --tag --zero"
GREP_OPTIONS = (
    "-# -iyvwxcLloqsbHhnTZarzUR -e= -m= -A= -B= -C= --regexp= --ignore-case --no-ignore-case --invert-match "
    "--word-regexp --line-regexp --count --color? --colour? --files-without-match --files-with-matches --max-count= "
    "--only-matching --quiet --silent --no-messages --with-filename --no-filename --line-number --after-context= "
    "--before-context= --context= --text --binary --binary-files= --exclude= --include= --exclude-dir= --recursive "
    "--dereference-recursive --null --line-buffered --byte-offset --initial-tab --null-data"
)
FIXED_GREP = Reader(
    options=options_in(GREP_OPTIONS),
    operands=Operands.PATTERN,
    check=check_repeats,
    patterns=frozenset({"-e", "--regexp"}),
    recursive=frozenset({"-r", "-R", "--recursive", "--dereference-recursive"}),
    follows=frozenset({"-R", "--dereference-recursive"}),
)
GREP = replace(
    FIXED_GREP,
    options=options_in(f"{GREP_OPTIONS} -EFGP --extended-regexp --fixed-strings --perl-regexp --basic-regexp"),
)
PIP_LIST = reader("-e --editable --format= --not-required --exclude-editable", Operands.NONE)
NPM_LIST = Reader(
    options={},
    operands=Operands.WORDS,
    check=matching(r"[@\w][\w@/.-]*|-[aglp]|--(?:all|long|json|parseable|global|link|omit=\w+|include=\w+|depth=\d+)"),
)
AWK = Reader(options=options_in("-F= -v="), operands=Operands.PATTERN, stops=True, script=check_awk)
FD = Reader(
    options=options_in(
        "-HIsigFpa0q1 -e= -t= -d= -E= -c= -S= --hidden --no-ignore --case-sensitive --ignore-case --glob "
        "--fixed-strings --full-path --absolute-path --print0 --quiet --extension= --type= --max-depth= --min-depth= "
        "--exact-depth= --exclude= --color= --size= --max-results= --no-ignore-vcs"
    ),
    operands=Operands.PATTERN,
)
BAT = Reader(
    options=options_in(
        "-pnAuP -l= -r= -H= --plain --number --show-all --language= --line-range= --style= --color= --paging= "
        "--decorations= --tabs= --wrap= --theme= --terminal-width= --highlight-line= --list-languages"
    ),
    check=check_bat,
)
HARMLESS_VARIABLES = (
    "EDITOR HOME HOSTNAME LANG LC_ALL LOGNAME OLDPWD PATH PWD PYTHONPATH SHELL SHLVL TERM TMPDIR TZ USER VIRTUAL_ENV"
)
VERSIONED = (
    "awk bash bat batcat clang clang++ cmake curl docker fd fdfind g++ gawk gcc git grep java javac jq less make "
    "mypy node npm perl pip pip3 python python3 rg ruff sed sqlite3 tar uv wget"
)
"""Programs that print their version and end, before they look at the folder they are in."""

READERS: Mapping[str, Reader] = MappingProxyType({
    # looking at files
    "ls": reader(
        "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 -I= -w= -T= --all --almost-all --author --block-size= --classify? "
        "--color? --directory --full-time --group-directories-first --human-readable --hide= --ignore= --inode "
        "--no-group --numeric-uid-gid --recursive --reverse --si --size --sort= --time= --time-style="
    ),
    "cat": reader("-AbeEnstTuv --show-all --number --number-nonblank --squeeze-blank --show-ends --show-tabs"),
    "tac": reader("-br -s="),
    "bat": BAT,
    "batcat": BAT,
    "less": Reader(options=options_in("-EFMNRSXeginsm"), check=check_pager),
    "more": Reader(options=options_in("-dflcpsu"), check=check_pager),
    "zcat": Reader(options={}, check=matching(r".*\.(?:gz|tgz|Z)")),
    "tar": Reader(options={}, own=list_tar),
    "unzip": Reader(options={}, own=list_zip),
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
            "-abBcdeEiHNnqrsTtuwy -U= -C= -W= -I= -x= --brief --unified? --context? --recursive --new-file "
            "--ignore-case --ignore-all-space --ignore-blank-lines --ignore-space-change --side-by-side --width= "
            "--color? --exclude= --report-identical-files --suppress-common-lines --text --strip-trailing-cr"
        ),
        recursive=frozenset({"*"}),
        follows=frozenset({"*"}),
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
    "grep": GREP,
    "egrep": FIXED_GREP,
    "fgrep": FIXED_GREP,
    "rg": Reader(
        options=options_in(
            "-# -iswxvclnNoFPSUHIpq0 -e= -g= -t= -T= -A= -B= -C= -m= -d= -r= -M= --regexp= --glob= --iglob= --type= "
            "--type-not= --after-context= --before-context= --context= --max-count= --max-depth= --max-columns= "
            "--ignore-case --smart-case --case-sensitive --word-regexp --line-regexp --invert-match --count "
            "--count-matches --files-with-matches --files-without-match --line-number --no-line-number --only-matching "
            "--fixed-strings --pcre2 --multiline --with-filename --no-filename --heading --no-heading --color= "
            "--column --json --files --type-list --stats --sort= --sortr= --trim --vimgrep --no-messages --null "
            "--quiet --replace= -. --hidden --no-ignore --no-ignore-vcs --passthru --sort-files --crlf "
            "--block-buffered --line-buffered"
        ),
        operands=Operands.PATTERN,
        patterns=frozenset({"-e", "--regexp", "--files", "--type-list"}),
        recursive=frozenset({"*"}),
        visible=True,
    ),
    "find": Reader(options={}, own=find_paths),
    "fd": FD,
    "fdfind": FD,
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
        script=check_jq,
    ),
    "sed": Reader(
        options=options_in("-nErsuz -e= --quiet --silent --regexp-extended --expression= --null-data --separate"),
        operands=Operands.PATTERN,
        patterns=frozenset({"-e", "--expression"}),
        script=check_sed,
    ),
    "awk": AWK,
    "gawk": AWK,
    "mawk": AWK,
    # saying something
    "echo": reader("", Operands.WORDS),
    "printf": Reader(options={}, operands=Operands.WORDS, check=check_printf, fixed_first=True),
    "seq": Reader(
        options=options_in("-w -s= -f= -# --equal-width --separator= --format="),
        operands=Operands.TEXT,
        check=check_counting,
    ),
    "expr": reader("", Operands.WORDS),
    "true": reader("", Operands.WORDS),
    "false": reader("", Operands.WORDS),
    "test": Reader(options=options_in(" ".join(TEST_OPERATORS)), check=check_test),
    # where and when
    "pwd": reader("-LP --logical --physical", Operands.NONE),
    "date": Reader(options={}, own=read_date),
    "sleep": Reader(options={}, operands=Operands.TEXT, check=matching(r"\d{1,3}(?:\.\d+)?s?|\.\d+s?")),
    "printenv": Reader(options={}, operands=Operands.TEXT, check=something(only(*HARMLESS_VARIABLES.split()))),
    "ulimit -a": reader("", Operands.NONE),
    "ulimit -n": reader("", Operands.NONE),
    "ulimit -u": reader("", Operands.NONE),
    "ulimit": reader("", Operands.NONE),
    "umask": reader("-S -p", Operands.NONE),
    "times": reader("", Operands.NONE),
    "jobs": reader("-lp", Operands.NONE),
    "tty": reader("-s", Operands.NONE),
    "history": reader("", Operands.NONE),
    "tput": Reader(options={}, operands=Operands.WORDS, check=something(only("cols", "lines", "colors"))),
    "lsb_release": Reader(options={}, operands=Operands.WORDS, check=matching(r"-[adrcsi]+")),
    "ss": Reader(options={}, operands=Operands.WORDS, check=matching(r"-[atulnp46sxw]+")),
    "netstat": Reader(options={}, operands=Operands.WORDS, check=matching(r"-[atulnpsr46]+")),
    "whereis": Reader(options={}, operands=Operands.TEXT, check=matching(r"\w[\w.+-]*")),
    "getconf": reader("", Operands.TEXT),
    "pgrep": reader("-alfcixno -u= -d=", Operands.TEXT),
    "pidof": reader("-s", Operands.TEXT),
    "shuf": Reader(
        options=options_in("-ze -n= -i= --head-count= --input-range= --zero-terminated --echo"), check=check_counting
    ),
    "tsort": reader(""),
    "unexpand": reader("-a -t="),
    "numfmt": reader(
        "--from= --to= --suffix= --padding= --field= --format= --header? --round= --grouping", Operands.TEXT
    ),
    "factor": reader("", Operands.TEXT),
    "sum": reader("-rs"),
    "sha224sum": reader(HASH_OPTIONS),
    "sha384sum": reader(HASH_OPTIONS),
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
    "ps": Reader(
        options={},
        operands=Operands.WORDS,
        check=matching(
            r"auxf?|faux|axf?|-ef?|-eaf|-A|-[aA]?f|-efl|-u|-aux|-p|\d+(?:,\d+)*"
            r"|--sort=[-+]?%?[a-z]+|--forest|--no-headers"
        ),
    ),
    # versions and packages
    **{f"{name} --version": reader("", Operands.NONE) for name in VERSIONED.split()},
    "java -version": reader("", Operands.NONE),
    "perl -v": reader("", Operands.NONE),
    "npm -v": reader("", Operands.NONE),
    **{name: reader("", Operands.NONE) for name in ("npm root", "npm prefix", "npm run", "npx --version")},
    "npm ls": NPM_LIST,
    "npm list": NPM_LIST,
    "dpkg -l": reader("", Operands.TEXT),
    "dpkg -s": reader("", Operands.TEXT),
    "pip check": reader("", Operands.NONE),
    "pip3 list": PIP_LIST,
    "pip3 show": reader("-f --files", Operands.TEXT),
    "pip3 freeze": reader("-l --all --local", Operands.NONE),
    "python -V": reader("", Operands.NONE),
    "python3 -V": reader("", Operands.NONE),
    "node -v": reader("", Operands.NONE),
    "pip list": PIP_LIST,
    "pip show": reader("-f --files", Operands.TEXT),
    "pip freeze": reader("-l --all --local", Operands.NONE),
    **GIT_READERS,
})
"""By the words they begin with."""

PATTERN_SAFE = frozenset({"ls", "cat", "head", "tail", "wc", "stat", "du", "md5sum", "sha1sum", "sha256sum",
                          "sha512sum", "echo", "basename", "dirname", "nl", "tac"})  # fmt: skip
"""Programs without any option that writes or runs something: a file named like an option can do no harm there."""


def find_reader(argv: Sequence[str]) -> tuple[Reader, int] | None:
    """The reader of the longest beginning of ``argv``, and how many words that is."""
    for length in (3, 2, 1):
        reader = READERS.get(" ".join(argv[:length])) if len(argv) >= length else None
        if reader is not None:
            return reader, length
    return None
