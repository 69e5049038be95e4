from __future__ import annotations

import base64

import pytest

from vibe.core.tools.errors import PathError
from vibe.core.tools.files.images import MAX_IMAGE_BYTES, as_image, image_type


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89arest", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", None),
        (b"%PDF-1.7", None),
        (b"plain text", None),
        (b"", None),
    ],
)
def test_images_are_told_by_their_first_bytes(head: bytes, media_type: str | None) -> None:
    assert image_type(head) == media_type


def test_an_image_goes_whole_or_not_at_all() -> None:
    assert base64.b64decode(as_image(b"\x89PNG", "image/png", "a.png").data) == b"\x89PNG"
    with pytest.raises(PathError, match=str(MAX_IMAGE_BYTES)):
        as_image(bytes(MAX_IMAGE_BYTES + 1), "image/png", "a.png")
