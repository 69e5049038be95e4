"""The sign-ins to MCP servers by address: their tokens in the keyring, or in a file that only the user can read.

The file lists them all; of one whose tokens are in the keyring it holds the rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, cast
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vibe.system.errors import EnvironmentFailure, remedy
from vibe.system.files import FileLock, replace_file
from vibe.system.keyring import KeyringError, delete_secret, read_secret, write_secret

LOCAL_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})
"""Only with these may a token travel without TLS."""
LOCK_SECONDS = 30.0
"""The longest another process is waited for, which may be renewing a token at this moment."""
SERVICE = "vibe-orchestrator mcp"
"""The name that tokens have in the keyring, each under its server's address."""
SECRETS = ("access_token", "refresh_token", "client_secret")
KEPT_IN, KEYRING, VERSION = "kept_in", "keyring", "version"

Entry: TypeAlias = dict[str, Any]


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
        self._read_before: dict[str, tuple[str, SignIn]] = {}
        """What the keyring gave, with the version it had: it is not asked twice for the same."""

    def find(self, url: str) -> SignIn | None:
        """Return the sign-in to the server at an address.

        Raises:
            EnvironmentFailure: the file can't be read, or is damaged.
            KeyringError: the tokens are in the keyring, which can't be used.
        """
        entry = self._read().get(url)
        return None if entry is None else self._whole(url, entry)

    def put(self, url: str, sign_in: SignIn, *, in_keyring: bool = False) -> None:
        """Keep a sign-in, in place of the one so far.

        Raises:
            EnvironmentFailure: as for ``find``, or the disk refuses; nothing is changed then.
        """
        with self._held() as entries:
            before = entries.get(url)
            self._write({**entries, url: _entry(url, sign_in, in_keyring=in_keyring)})
            if before is not None and _is_in_keyring(before) and not in_keyring:
                with suppress(KeyringError):  # it is of no use any more
                    delete_secret(SERVICE, url)

    def drop(self, url: str) -> SignIn | None:
        """Forget a sign-in, and return it; None if there is none.

        Raises:
            EnvironmentFailure: as for ``put``.
        """
        with self._held() as entries:
            entry = entries.pop(url, None)
            if entry is None:
                return None
            dropped = self._whole(url, entry)
            if _is_in_keyring(entry):
                delete_secret(SERVICE, url)
            self._write(entries)
        return dropped

    def renewed(self, url: str, used: str, ask: Callable[[SignIn], SignIn | None]) -> SignIn | None:
        """Return a sign-in whose token is another than ``used``, by ``ask`` unless it is there by now.

        A token that renews others often works once: so one process at a time asks.

        Raises:
            EnvironmentFailure: as for ``put``.
        """
        with self._held() as entries:
            entry = entries.get(url)
            found = None if entry is None else self._whole(url, entry)
            if entry is None or found is None or found.access_token != used:
                return found
            renewed = ask(found)
            if renewed is not None:
                self._write({**entries, url: _entry(url, renewed, in_keyring=_is_in_keyring(entry))})
            return renewed

    def _whole(self, url: str, entry: Entry) -> SignIn | None:
        """Return the sign-in of an entry; None: the keyring has its tokens no more."""
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
            raise KeyringError(f"what it has for {url} is no token: sign in again") from error
        self._read_before[url] = version, sign_in
        return sign_in

    @contextmanager
    def _held(self) -> Generator[dict[str, Entry]]:
        """Hold the file's lock."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock.acquire(self.path.with_name(f".{self.path.name}.lock"), LOCK_SECONDS)
        except OSError as error:
            raise self._unusable(error) from error
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
        try:
            replace_file(self.path, json.dumps({"servers": entries}, indent=2).encode() + b"\n", sync=True)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> EnvironmentFailure:
        return self._failure(f"can't be used ({error.strerror or error}): {remedy(error)}")

    def _failure(self, problem: str) -> EnvironmentFailure:
        return EnvironmentFailure(f"the sign-ins to MCP servers in {self.path} {problem}")


def _is_in_keyring(entry: Entry) -> bool:
    return entry.get(KEPT_IN) == KEYRING


def _entry(url: str, sign_in: SignIn, *, in_keyring: bool) -> Entry:
    """Return what the file has of a sign-in, once its tokens are in the keyring if they are to be."""
    entry = sign_in.model_dump(exclude_none=True)
    if not in_keyring:
        return entry
    write_secret(SERVICE, url, json.dumps({name: entry.pop(name) for name in SECRETS if name in entry}))
    return {**entry, KEPT_IN: KEYRING, VERSION: uuid4().hex}
