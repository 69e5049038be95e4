"""Markers for large pastes and images."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from vibe.cli.textual_ui.input.prompt_area import Attachments

LINES = "".join(f"line {number}\n" for number in range(5_000))


def test_a_small_paste_is_text() -> None:
    assert Attachments().taken("a\nb") == "a\nb"


def test_a_large_paste_becomes_a_marker_and_the_text_again() -> None:
    attachments = Attachments()
    first, second = attachments.taken(LINES), attachments.taken("x" * 2_001)

    assert (first, second) == ("[pasted 1: 5,000 lines]", "[pasted 2: 2,001 characters]")
    assert attachments.expanded(f"a {first} b {second} [pasted 3: 9 lines]") == (
        f"a {LINES} b {'x' * 2_001} [pasted 3: 9 lines]"
    )


def test_markers_in_a_paste_are_not_expanded() -> None:
    attachments = Attachments()
    first = attachments.taken(LINES)
    second = attachments.taken(f"{first}\n" * 30)

    assert attachments.expanded(second) == f"{first}\n" * 30


def test_escapes_and_control_characters_are_removed_and_line_ends_kept() -> None:
    assert Attachments().taken("a\r\nb\rc\x1b[31md\x00\x9b\u202ee\tf") == "a\nb\ncde\tf"


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "my shot [1].PNG"
    path.write_bytes(b"")
    return path


@pytest.mark.parametrize(
    "form", ["{0}", "{0} \n", "'{0}'", '"{0}"', "{escaped}", "file://{url}", "file://localhost{url}"]
)
def test_a_path_of_an_image_becomes_a_marker(form: str, image: Path) -> None:
    attachments = Attachments()
    escaped = str(image).replace(" ", "\\ ").replace("[", "\\[").replace("]", "\\]")
    marker = attachments.taken(form.format(image, escaped=escaped, url=quote(str(image))))

    assert marker == "[image 1: my shot _1_.PNG]"
    assert attachments.images(f"see {marker}") == (image,)
    assert attachments.images("see") == ()


def test_several_images_and_the_same_again(image: Path) -> None:
    other = image.with_name("b.jpg")
    other.write_bytes(b"")
    attachments = Attachments()
    markers = attachments.taken(f"'{other}' '{image}'")

    assert attachments.images(markers) == (other, image)
    attachments.root = image.parent
    assert attachments.taken("b.jpg") == "[image 1: b.jpg]"


@pytest.mark.parametrize("text", ["/nowhere/a.png", "look at 'this", "a.png b.png", "", "x.png and more", "a.png"])
def test_what_is_no_image_file_stays_text(text: str) -> None:
    assert Attachments().taken(text) == text


def test_the_marker_before_the_cursor_is_known() -> None:
    attachments = Attachments()
    marker = attachments.taken(LINES)

    assert attachments.marker_before(f"a {marker}") == marker
    assert attachments.marker_before("a [b]") == attachments.marker_before(f"{marker} ") == ""
