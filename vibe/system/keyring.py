"""The user's keyring, of the desktop or the system, which stores secrets by service and name.

Only using it shows whether it works: its service may be missing, locked, or never answer. So each call has a time
limit, after which its thread is abandoned and ends with the process. All functions block.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from threading import Thread
from typing import Protocol, TypeVar, cast

from vibe.system.errors import EnvironmentFailure
from vibe.system.plain_text import one_line

T = TypeVar("T")

ANSWER_SECONDS = 20.0
"""The most seconds to wait for an answer. A person may have to unlock the keyring first."""
TRIAL_SECONDS = 5.0
"""The most seconds to wait for an answer during a trial."""
TRIAL_SERVICE = "vibe-orchestrator trial"
"""The service under which the secret of a trial is stored."""
LONGEST_PROBLEM = 200
"""The most characters of an error's message."""
_REFUSED = ("keyring.backends.fail", "keyring.backends.null", "keyrings.alt", "keyrings.cryptfile")
"""Backends that store nothing, store it readably, or ask for a password at the terminal, which is in use."""


class _Backend(Protocol):
    """The typed part of the library's backends that is used."""

    def get_password(self, service: str, username: str) -> str | None: ...

    def set_password(self, service: str, username: str, password: str) -> None: ...

    def delete_password(self, service: str, username: str) -> None: ...


class KeyringError(EnvironmentFailure):
    """The keyring can't be used."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"the keyring can't be used: {problem}")


def keyring_problem(*, seconds: float = TRIAL_SECONDS) -> str | None:
    """Store, read and remove a secret, and return what is wrong with the keyring, or None if it works."""
    secret = secrets.token_hex(8)
    name = f"trial {secret}"

    def kept_and_read(backend: _Backend) -> bool:
        backend.set_password(TRIAL_SERVICE, name, secret)
        try:
            return backend.get_password(TRIAL_SERVICE, name) == secret
        finally:
            backend.delete_password(TRIAL_SERVICE, name)

    try:
        return None if _asked(kept_and_read, seconds) else "it returns a different secret than it was given"
    except KeyringError as error:
        return str(error)


def read_secret(service: str, name: str, *, seconds: float = ANSWER_SECONDS) -> str | None:
    """Return a secret, or None if there is none of that name.

    Raises:
        KeyringError: there is no keyring, or it does not answer.
    """
    return _asked(lambda backend: backend.get_password(service, name), seconds)


def write_secret(service: str, name: str, secret: str, *, seconds: float = ANSWER_SECONDS) -> None:
    """Store a secret, replacing one of the same name.

    Raises:
        KeyringError: as for ``read_secret``.
    """
    _asked(lambda backend: backend.set_password(service, name, secret), seconds)


def delete_secret(service: str, name: str, *, seconds: float = ANSWER_SECONDS) -> bool:
    """Remove a secret. Return False if there is none of that name.

    Raises:
        KeyringError: as for ``read_secret``.
    """

    def removed(backend: _Backend) -> bool:
        if backend.get_password(service, name) is None:
            return False
        backend.delete_password(service, name)
        return True

    return _asked(removed, seconds)


def _asked(ask: Callable[[_Backend], T], seconds: float) -> T:
    """Call the keyring in a thread of its own."""
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(ask(_backend()))
        except Exception as error:  # noqa: BLE001  backends are anybody's, and so are their errors
            answer.set_exception(error)

    Thread(target=work, name="keyring", daemon=True).start()
    try:
        return answer.result(timeout=seconds)
    except TimeoutError as error:
        if not answer.done():
            raise KeyringError(f"it did not answer within {seconds:g} s") from error
        raise KeyringError(_problem(error)) from error
    except KeyringError:
        raise
    except Exception as error:
        raise KeyringError(_problem(error)) from error


def _backend() -> _Backend:
    """Return the backend that the keyring library chooses, or the best usable one if it chains several."""
    import keyring
    from keyring.backends.chainer import ChainerBackend

    chosen = keyring.get_keyring()
    backends = chosen.backends if isinstance(chosen, ChainerBackend) else (chosen,)
    for backend in cast("Iterable[_Backend]", backends):
        if not type(backend).__module__.startswith(_REFUSED):
            return backend
    raise KeyringError("there is none on this machine, or its service is not running")


def _problem(error: Exception) -> str:
    """Return a backend's error in a few words."""
    return one_line(f"{error}" or type(error).__name__, LONGEST_PROBLEM)
