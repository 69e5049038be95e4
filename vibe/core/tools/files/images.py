"""Images in the form models accept: recognized by their first bytes, whole, and limited in size."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path, PurePath

from vibe.core.messages import Image
from vibe.core.tools.errors import PathError
from vibe.system.errors import UsageError, error_as

MAX_IMAGE_BYTES = 4_000_000
"""The most bytes of an image.

Providers refuse images above about 5 MB, and some count base64, which makes four bytes of three.
"""

MOST_READ = 10 * MAX_IMAGE_BYTES
"""The most bytes of a file that are read."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def image_type(head: bytes) -> str | None:
    """Return the media type of a file by its first bytes, or None if it is not an image that models accept."""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _SIGNATURES if head.startswith(start)), None)


def images_in(files: Iterable[Path]) -> tuple[Image, ...]:
    """Read image files.

    Raises:
        UsageError: one can't be read, is not an image that models accept, or is too large.
    """
    images: list[Image] = []
    for path in files:
        try:
            with path.open("rb") as file:
                data = file.read(MOST_READ)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{path} can't be read ({why}): leave it out, or name another") from error
        images.append(attachable(data, str(path)))
    return tuple(images)


def attachable(data: bytes, name: str) -> Image:
    """Return the bytes of a file that a user attaches as an image for a message.

    Raises:
        UsageError: it is not an image that models accept, or is too large.
    """
    kind = image_type(data)
    if kind is None:
        raise UsageError(f"{name} is not an image that models accept: use a PNG, JPEG, GIF or WebP file")
    with error_as(PathError, lambda error: UsageError(str(error))):
        return as_image(data, kind, name)


def as_image(data: bytes, media_type: str, name: str) -> Image:
    """Return the bytes of an image file as an image for a message.

    Raises:
        PathError: it is larger than models accept.
    """
    if len(data) > MAX_IMAGE_BYTES:
        smaller = f"make one of at most {MAX_IMAGE_BYTES} bytes first, {PurePath(name).stem}-small for example"
        raise PathError(name, f"is an image of {len(data)} bytes", smaller)
    return Image(media_type=media_type, data=base64.b64encode(data).decode("ascii"))
