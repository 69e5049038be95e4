"""Attachments: what stands behind the markers of a prompt, large pastes and images."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

from vibe.core.plain_text import plain, plain_line

LARGE_CHARACTERS = 2_000
LARGE_LINES = 20
IMAGES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp"})
LONGEST_PATHS = 4_096
_MARKER = re.compile(r"\[(?:pasted|image) \d+: [^\[\]\n]*\]")


class Attachments:
    """Keeps what was pasted for as long as the program runs: a marker may come back out of the history."""

    def __init__(self) -> None:
        self._pastes: dict[str, str] = {}
        self._images: dict[str, Path] = {}

    def taken(self, pasted: str, root: Path | None) -> str:
        """Return what to put in for a paste: cleaned text, or markers for much of it and for paths of images.

        Relative paths are those of ``root``.
        """
        if len(pasted) <= LONGEST_PATHS and (images := _image_files(pasted, root)):
            return " ".join(self._image_marker(image) for image in images)
        return self.folded(plain(pasted.replace("\r\n", "\n").replace("\r", "\n")))

    def folded(self, text: str) -> str:
        """Return the text, or a marker for one that is large."""
        lines = text.count("\n") + (not text.endswith("\n"))
        if len(text) <= LARGE_CHARACTERS and lines <= LARGE_LINES:
            return text
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        marker = f"[pasted {len(self._pastes) + 1}: {size}]"
        self._pastes[marker] = text
        return marker

    def expanded(self, text: str) -> str:
        """Return the text with the pastes in the place of their markers."""
        return _MARKER.sub(lambda match: self._pastes.get(match.group(), match.group()), text)

    def images(self, text: str) -> tuple[Path, ...]:
        """Return the images whose markers are in the text, in their order, each once."""
        names = dict.fromkeys(match.group() for match in _MARKER.finditer(text))
        return tuple(self._images[name] for name in names if name in self._images)

    def marker_before(self, line: str) -> str:
        """Return the marker at the end of a line, to be deleted as a whole; empty if there is none."""
        start = line.rfind("[") if line.endswith("]") else -1
        marker = line[start:] if start >= 0 else ""
        return marker if marker in self._pastes or marker in self._images else ""

    def _image_marker(self, image: Path) -> str:
        for marker, known in self._images.items():
            if known == image:
                return marker
        name = re.sub(r"[\[\]]", "_", plain_line(image.name))
        marker = f"[image {len(self._images) + 1}: {name}]"
        self._images[marker] = image
        return marker


def _image_files(pasted: str, root: Path | None) -> list[Path]:
    """The files that a paste names, if it names nothing but image files that exist."""
    whole = _image_file(pasted.strip(), root)
    if whole is not None:
        return [whole]
    try:
        words = shlex.split(pasted)
    except ValueError:
        return []
    files = [_image_file(word, root) for word in words]
    found = [file for file in files if file is not None]
    return found if len(found) == len(files) else []


def _image_file(name: str, root: Path | None) -> Path | None:
    if name.startswith("file://"):
        name = unquote(name.removeprefix("file://").removeprefix("localhost"))
    if "\n" in name or "\0" in name or Path(name).suffix.lower() not in IMAGES:
        return None
    try:
        path = Path(name).expanduser()
        if root is not None:
            path = root / path
        return path if path.is_absolute() and path.is_file() else None
    except (OSError, RuntimeError):
        return None
