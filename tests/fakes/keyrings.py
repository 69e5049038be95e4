"""Keyrings for tests, chosen as a user would choose one: by ``PYTHON_KEYRING_BACKEND``."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import keyring
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

FILE_VARIABLE = "FILE_KEYRING"
REPOSITORY = Path(__file__).parents[2]


class FileKeyring(KeyringBackend):
    """Keeps secrets in a JSON file."""

    priority = 1.0  # pyright: ignore[reportAssignmentType]  what backends do

    def __init__(self, path: Path | None = None) -> None:
        super().__init__()
        self.path = path or Path(os.environ.get(FILE_VARIABLE, "/nonexistent"))

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries().get(f"{service}/{username}")

    def set_password(self, service: str, username: str, password: str) -> None:
        self.path.write_text(json.dumps({**self.entries(), f"{service}/{username}": password}))

    def delete_password(self, service: str, username: str) -> None:
        entries = self.entries()
        if entries.pop(f"{service}/{username}", None) is None:
            raise PasswordDeleteError("not found")
        self.path.write_text(json.dumps(entries))

    def entries(self) -> dict[str, str]:
        return json.loads(self.path.read_text()) if self.path.exists() else {}


class LockedKeyring(FileKeyring):
    """Refuses every request, like a keyring that nobody unlocks."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))

    def entries(self) -> dict[str, str]:
        raise KeyringLocked("Failed to unlock\nthe collection!")


class HangingKeyring(LockedKeyring):
    """Never answers, like a keyring whose prompt nobody sees. Set ``left`` to release the waiting threads."""

    left = threading.Event()

    def entries(self) -> dict[str, str]:
        self.left.wait()
        return {}


class ForgetfulKeyring(FileKeyring):
    """Accepts secrets, but does not keep them."""

    def get_password(self, service: str, username: str) -> str | None:  # noqa: ARG002  the library's interface
        return None

    def delete_password(self, service: str, username: str) -> None:
        """Do nothing: no secret was kept."""


@contextmanager
def keyring_of_this_process(backend: KeyringBackend) -> Generator[None]:
    """Use a keyring in this process until the context ends."""
    before = keyring.get_keyring()
    keyring.set_keyring(backend)
    try:
        yield
    finally:
        keyring.set_keyring(before)


def keyring_variables(kind: type[KeyringBackend], path: Path) -> dict[str, str]:
    """Return the environment variables that make another process use a keyring of this module."""
    return {
        "PYTHONPATH": str(REPOSITORY),
        "PYTHON_KEYRING_BACKEND": f"{__name__}.{kind.__name__}",
        FILE_VARIABLE: str(path),
    }
