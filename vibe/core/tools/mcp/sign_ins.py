"""The file of sign-ins to MCP servers: tokens by address, for nobody but the user to read."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vibe.core.errors import EnvironmentFailure, remedy
from vibe.core.system.files import replace_file
from vibe.core.system.locks import FileLock

LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
"""Only with these may a token travel without TLS."""
LOCK_SECONDS = 30.0
"""The longest another process is waited for, which may be renewing a token at this moment."""


class SignInFileError(EnvironmentFailure):
    """The file of sign-ins can't be used."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"the sign-ins to MCP servers in {path} {problem}")


class SignIn(BaseModel):
    """A sign-in to one server: its tokens, and all that it takes to have them renewed. Prints without secrets."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    token_endpoint: str
    revocation_endpoint: str | None = None
    """The server's place to revoke tokens at; None: it names none."""
    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    client_auth: str | None = None
    resource: str | None = None
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since the epoch; None: its server did not say."""
    scope: str | None = None


class SignInStore:
    """The sign-ins of a user, each under its server's address, so that no other server gets its tokens. Blocks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def find(self, url: str) -> SignIn | None:
        """Return the sign-in to the server at an address.

        Raises:
            SignInFileError: the file can't be read, or is damaged.
        """
        return self._read().get(url)

    def put(self, url: str, sign_in: SignIn) -> None:
        """Keep a sign-in, in place of the one so far.

        Raises:
            SignInFileError: as for ``find``, or the disk refuses; nothing is changed then.
        """
        with self._held():
            self._write({**self._read(), url: sign_in})

    def drop(self, url: str) -> SignIn | None:
        """Forget a sign-in, and return it; None if there is none.

        Raises:
            SignInFileError: as for ``put``.
        """
        with self._held():
            entries = self._read()
            dropped = entries.pop(url, None)
            if dropped is not None:
                self._write(entries)
        return dropped

    def renewed(self, url: str, used: str, ask: Callable[[SignIn], SignIn | None]) -> SignIn | None:
        """Return a sign-in whose token is another than ``used``, by ``ask`` unless it is there by now.

        A token that renews others often works once: so one process at a time asks.

        Raises:
            SignInFileError: as for ``put``.
        """
        with self._held():
            entries = self._read()
            found = entries.get(url)
            if found is None or found.access_token != used:
                return found
            renewed = ask(found)
            if renewed is not None:
                self._write({**entries, url: renewed})
            return renewed

    @contextmanager
    def _held(self) -> Generator[None]:
        """Nobody else changes the file meanwhile."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock.acquire(self.path.with_name(f".{self.path.name}.lock"), LOCK_SECONDS)
        except OSError as error:
            raise self._unusable(error) from error
        if lock is None:
            raise SignInFileError(self.path, "are being changed by another process: try again")
        try:
            yield
        finally:
            lock.release()

    def _read(self) -> dict[str, SignIn]:
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise self._unusable(error) from error
        try:
            entries = cast("dict[str, Any]", json.loads(text)["servers"])
            return {url: SignIn.model_validate(entry) for url, entry in entries.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
            raise SignInFileError(self.path, "are damaged: remove the file, and sign in again") from error

    def _write(self, entries: dict[str, SignIn]) -> None:
        document = {"servers": {url: entry.model_dump(exclude_none=True) for url, entry in entries.items()}}
        try:
            replace_file(self.path, json.dumps(document, indent=2).encode() + b"\n", sync=True)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError | UnicodeDecodeError) -> SignInFileError:
        if isinstance(error, OSError):
            return SignInFileError(self.path, f"can't be used ({error.strerror or error}): {remedy(error)}")
        return SignInFileError(self.path, "are damaged: remove the file, and sign in again")
