"""Stores the sign-ins to MCP servers by address, with their tokens in the keyring or in a file only the user can read.

The file lists all of them. If the tokens are in the keyring, it holds the rest of the sign-in.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vibe.system.errors import EnvironmentFailure, os_error_as, remedy
from vibe.system.files import FileLock, replace_file
from vibe.system.keyring import KeyringError, delete_secret, read_secret, write_secret

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthToken

LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
"""The only hosts to which a token may be sent without TLS."""
LOCK_SECONDS = 30.0
"""The most seconds to wait for another process, which may be renewing a token."""
SERVICE = "vibe-orchestrator mcp"
"""The service name of tokens in the keyring, where each is stored under its server's address."""
FORM = "application/json"
"""The form in which tokens are asked for. Some servers give them in another unless told."""
UNAUTHORIZED = 401
"""The HTTP status by which a server asks for a token, or for another one."""
IN_CLEAR = "is not https, and a token would be read on its way"
SECRETS = ("access_token", "refresh_token", "client_secret")
"""Fields that are stored in the keyring."""
KEPT_IN, KEYRING, VERSION = "kept_in", "keyring", "version"

Entry: TypeAlias = dict[str, Any]


def is_in_clear(url: str) -> bool:
    """Return whether what is sent to an address could be read on its way."""
    parts = urlsplit(url)
    return parts.scheme != "https" and parts.hostname not in LOCAL_HOSTS


class SignIn(BaseModel):
    """A sign-in to one server: its tokens, and all that is needed to renew them. Its repr shows no secrets."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    token_endpoint: str
    revocation_endpoint: str | None = None
    """The server's endpoint for revoking tokens. None if it names none."""
    client_id: str
    client_secret: str | None = Field(default=None, repr=False)
    client_auth: str | None = None
    resource: str | None = None
    access_token: str = Field(repr=False)
    refresh_token: str | None = Field(default=None, repr=False)
    expires_at: float | None = None
    """Seconds since the epoch. None if the server did not say."""
    scope: str | None = None

    def with_tokens(self, tokens: OAuthToken) -> SignIn:
        """Return the sign-in with tokens that were given now. What was not given again stays."""
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        told = {name: value for name, value in tokens.model_dump(include={*SECRETS, "scope"}).items() if value}
        return self.model_copy(update={**told, "expires_at": expires_at})


class SignInStore:
    """A user's sign-ins, stored by server address so that no other server gets the tokens. Methods block."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_before: dict[str, tuple[str, SignIn]] = {}
        """The sign-ins read from the keyring, with their versions, so that it is not asked twice for the same one."""

    def find(self, url: str) -> SignIn | None:
        """Return the sign-in to the server at an address, or None.

        Raises:
            EnvironmentFailure: the file can't be read, or is damaged.
            KeyringError: the tokens are in the keyring, which can't be used.
        """
        entry = self._read().get(url)
        return None if entry is None else self._complete(url, entry)

    def put(self, url: str, sign_in: SignIn, *, in_keyring: bool = False) -> None:
        """Store a sign-in, replacing an earlier one.

        Raises:
            EnvironmentFailure: as for ``find``, or the file can't be written; nothing is changed then.
        """
        with self._locked() as entries:
            before = entries.get(url)
            self._write({**entries, url: _entry(url, sign_in, in_keyring=in_keyring)})
            if before is not None and _is_in_keyring(before) and not in_keyring:
                with suppress(KeyringError):  # The old token is of no use any more.
                    delete_secret(SERVICE, url)

    def drop(self, url: str) -> SignIn | None:
        """Remove a sign-in and return it, or return None if there is none.

        Raises:
            EnvironmentFailure: as for ``put``.
        """
        with self._locked() as entries:
            entry = entries.pop(url, None)
            if entry is None:
                return None
            dropped = self._complete(url, entry)
            if _is_in_keyring(entry):
                delete_secret(SERVICE, url)
            self._write(entries)
        return dropped

    def renew(self, url: str, used: str, ask: Callable[[SignIn], SignIn | None]) -> SignIn | None:
        """Return a sign-in whose token differs from ``used``: one that is stored by now, or one from ``ask``.

        A refresh token often works only once, so one process at a time asks.

        Raises:
            EnvironmentFailure: as for ``put``.
        """
        with self._locked() as entries:
            entry = entries.get(url)
            found = None if entry is None else self._complete(url, entry)
            if entry is None or found is None or found.access_token != used:
                return found
            renewed = ask(found)
            if renewed is not None:
                self._write({**entries, url: _entry(url, renewed, in_keyring=_is_in_keyring(entry))})
            return renewed

    def _complete(self, url: str, entry: Entry) -> SignIn | None:
        """Return the sign-in of an entry, or None if the keyring no longer has its tokens."""
        if not _is_in_keyring(entry):
            return SignIn.model_validate(entry)
        version, (known, sign_in) = str(entry[VERSION]), self._read_before.get(url, ("", None))
        if known == version:
            return sign_in
        secret = read_secret(SERVICE, url)
        if secret is None:
            return None
        try:
            sign_in = SignIn.model_validate({**entry, **json.loads(secret)})
        except (ValueError, TypeError, RecursionError) as error:
            raise KeyringError(f"what it has for {url} is not a token: sign in again") from error
        self._read_before[url] = version, sign_in
        return sign_in

    @contextmanager
    def _locked(self) -> Generator[dict[str, Entry]]:
        """Hold the file's lock, and yield its entries."""
        with os_error_as(self._unusable):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock.acquire(self.path.with_name(f".{self.path.name}.lock"), LOCK_SECONDS)
        if lock is None:
            raise self._failure("are being changed by another process: try again")
        with lock:
            yield self._read()

    def _read(self) -> dict[str, Entry]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(error) from error
        try:
            entries = cast("dict[str, Entry]", json.loads(data.decode())["servers"])
            for entry in entries.values():
                if _is_in_keyring(entry):
                    _ = entry[VERSION]
                SignIn.model_validate({"access_token": "", **entry} if _is_in_keyring(entry) else entry)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, ValidationError) as error:
            raise self._failure("are damaged: remove the file, and sign in again") from error
        return entries

    def _write(self, entries: dict[str, Entry]) -> None:
        with os_error_as(self._unusable):
            replace_file(self.path, json.dumps({"servers": entries}, indent=2).encode() + b"\n", sync=True)

    def _unusable(self, error: OSError) -> EnvironmentFailure:
        return self._failure(f"can't be used ({error.strerror or error}): {remedy(error)}")

    def _failure(self, problem: str) -> EnvironmentFailure:
        return EnvironmentFailure(f"the sign-ins to MCP servers in {self.path} {problem}")


def _is_in_keyring(entry: Entry) -> bool:
    return entry.get(KEPT_IN) == KEYRING


def _entry(url: str, sign_in: SignIn, *, in_keyring: bool) -> Entry:
    """Return what the file holds of a sign-in, after storing its tokens in the keyring if asked to."""
    entry = sign_in.model_dump(exclude_none=True)
    if not in_keyring:
        return entry
    write_secret(SERVICE, url, json.dumps({name: entry.pop(name) for name in SECRETS if name in entry}))
    return {**entry, KEPT_IN: KEYRING, VERSION: uuid4().hex}
