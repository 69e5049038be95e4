"""Holds a value against a schema in a process of its own, which ends after its argument's seconds of work: a program.

A schema's patterns are matched in linear time (RE2); what RE2 does not take, such as a look-ahead, by Python.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, cast

from vibe.core.config.patterns import compile_linear
from vibe.core.tools.json_schema import problems_here


def main() -> None:
    """Read schema and value from standard input, write the problems to standard output."""
    from jsonschema import _keywords, _legacy_keywords, _utils

    seconds = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    linear = SimpleNamespace(search=_search)
    for module in (_keywords, _legacy_keywords, _utils):
        cast("Any", module).re = linear
    document = json.load(sys.stdin)
    json.dump(problems_here(document["schema"], document["value"]), sys.stdout)


def _search(pattern: str, text: str) -> object:
    return (_linear(pattern) or re.compile(pattern)).search(text)


_linear = lru_cache(maxsize=None)(compile_linear)


if __name__ == "__main__":
    main()
