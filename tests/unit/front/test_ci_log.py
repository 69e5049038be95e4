from __future__ import annotations

import io

import pytest

from vibe.front.ci_log import CiLog, without_commands, write_command


@pytest.mark.parametrize(
    "text",
    [
        "::error::no",
        "::error title=a b::no",
        "::set-output name=x::1",
        "  \t\u00a0::ADD-PATH::/tmp",
        "fine\n::stop-commands::x",
        "fine\r::add-mask::e",
        "##[error]no",
        "[step] | ##[set-env name=PATH]/tmp",
        "##vso[task.setvariable variable=x]y",
        "a ##teamcity[buildStop comment='x']",
        "###[group]x",
    ],
)
def test_a_line_of_somebody_else_is_no_command_to_the_service(text: str) -> None:
    printed = without_commands(text)
    assert printed != text
    assert printed.replace(" ", "") == text.replace(" ", "")  # all of it can be read
    for line in printed.replace("\r", "\n").split("\n"):
        assert not line.lstrip().startswith("::")
        assert "##[" not in line
        assert "##vso[" not in line
        assert "##teamcity[" not in line


@pytest.mark.parametrize(
    "text",
    ["::std::string x;", "a ::error::b", "## [link](x)", "::", "::errors::", "# #[x]", "x::error::", "##", ":error:"],
)
def test_what_is_no_command_is_printed_as_it_is(text: str) -> None:
    assert without_commands(text) == text


def stream() -> tuple[CiLog, io.BytesIO]:
    raw = io.BytesIO()
    return CiLog(raw, encoding="utf-8", write_through=True), raw


def test_a_command_in_pieces_is_none_either() -> None:
    log, raw = stream()
    for piece in ("[a] fine\n:", ":err", "or::x\n#", "#[gro", "up]y", "\n::notice::z"):
        log.write(piece)
        log.flush()
    log.finish()
    assert raw.getvalue().decode() == "[a] fine\n: :error::x\n# #[group]y\n: :notice::z"


def test_our_own_commands_are_written_on_lines_of_their_own() -> None:
    log, raw = stream()
    log.write("half a line")
    write_command(log, "::error::x")
    log.writelines(["::error::y\n"])
    assert raw.getvalue().decode() == "half a line\n::error::x\n: :error::y\n"


def test_a_stream_that_is_no_log_takes_a_command_as_a_line() -> None:
    out = io.StringIO()
    write_command(out, "::error::x")
    assert out.getvalue() == "::error::x\n"
