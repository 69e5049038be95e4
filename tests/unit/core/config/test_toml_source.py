"""The line of every key, in every way of writing it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from vibe.core.config.toml_source import RawPath, TomlSource, read_toml
from vibe.system.errors import ConfigError

EVERYTHING = '''\
# a comment = 1
top = 1
dotted.inner.key = 2
"quoted key" = 3
'single.dot' = 4
"esc\\"aped" = 5
text = """
[not.a.table]
not_a_key = 1
""""
after_text = 6
literal = \'\'\'
x = "1"
\'\'\'
string = "# no comment = \\" ]"   # [comment]
list = [
  "a",  # ]
  [1, 2],
  { name = "x", deep = { er = 1 } },
]
date = 1979-05-27 07:32:00
[table]
key = 1

[ table . "sub table" ]
key = 2
[[models]]
name = "a"
[[models]]
  name = "b"
  price = 1
[models.extra]
key = 3
[[models.parts]]
id = 1
[[models.parts]]
id = 2
'''


def _read(folder: Path, text: str) -> TomlSource:
    path = folder / "file.toml"
    path.write_bytes(text.encode())
    source = read_toml(path, "file.toml")
    assert source is not None
    return source


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("dotted", "inner", "key"), 3),
        (("dotted",), 3),
        (("quoted key",), 4),
        (("single.dot",), 5),
        (('esc"aped',), 6),
        (("text",), 7),
        (("after_text",), 11),
        (("literal",), 12),
        (("string",), 15),
        (("list",), 16),
        (("list", 0), 17),
        (("list", 1, 1), 18),
        (("list", 2, "deep", "er"), 19),
        (("date",), 21),
        (("table",), 22),
        (("table", "key"), 23),
        (("table", "sub table"), 25),
        (("table", "sub table", "key"), 26),
        (("models",), 27),
        (("models", 0), 27),
        (("models", 0, "name"), 28),
        (("models", 1), 29),
        (("models", 1, "price"), 31),
        (("models", 1, "extra", "key"), 33),
        (("models", 1, "parts", 0, "id"), 35),
        (("models", 1, "parts", 1), 36),
        (("models", 1, "parts", 1, "id"), 37),
        (("table", "missing"), 22),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_key_is_found_on_its_line(tmp_path: Path, path: RawPath, line: int, newline: str) -> None:
    source = _read(tmp_path, EVERYTHING.replace("\n", newline))
    assert source.where(path) == f"file.toml:{line}"


def test_every_key_of_a_file_has_a_line(tmp_path: Path) -> None:
    source = _read(tmp_path, EVERYTHING)
    assert set(_paths(source.data, ())) == set(source.lines)


def _paths(value: object, prefix: RawPath) -> Iterator[RawPath]:
    items: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        items = list(cast("dict[str | int, Any]", value).items())
    elif isinstance(value, list):
        items = list(enumerate(cast("list[Any]", value)))
    for name, inner in items:
        yield (*prefix, name)
        yield from _paths(inner, (*prefix, name))


def test_a_file_that_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_toml(tmp_path / "none.toml", "none.toml") is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a = 1\nb = {x = 1,\n x = 2}\n", "f.toml"),
        ('[[m]]\nname = "a"\nname = "b"\n', "f.toml:3: m[0].name: is already set on line 2, remove one of the two"),
        ("a.b = 1\n\na.b = 2\n", "f.toml:3: a.b: is already set on line 1, remove one of the two"),
        ('a = """\n1\n2"""\n"a" = 3\n', "f.toml:4: a: is already set on line 1, remove one of the two"),
        ("a = 1\nb =\n", "f.toml:2: is not valid TOML (Invalid value), correct this line"),
        ("a = 1\n\n[b\n", "f.toml:3: is not valid TOML"),
        ('a = "\n', "f.toml:1: is not valid TOML"),
        ("a = 1\n[b]\n] x\n", "f.toml:3: is not valid TOML"),
        ("a = " + "[" * 5000, "f.toml: is nested too deeply"),
        ("a = " + "9" * 5000, "f.toml: is nested too deeply or has a number that is too long"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "f.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_toml(path, "f.toml")
    assert str(caught.value).startswith(told)


@given(text=st.text(alphabet="ab.=[]{}\"'\\#,\n 1", max_size=60))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_the_text_it_is_read_or_refused(tmp_path: Path, text: str) -> None:
    try:
        source = _read(tmp_path, text)
    except ConfigError:
        return
    assert set(_paths(source.data, ())) == set(source.lines)


def test_a_large_file_is_scanned_in_time_linear_in_its_size(tmp_path: Path) -> None:
    text = "".join(f'[t{number}]\nkey = "value"\nlist = [1, 2, "x"]\n' for number in range(2000))
    started = time.process_time()
    assert len(_read(tmp_path, text).lines) == 12_000
    assert time.process_time() - started < 2
