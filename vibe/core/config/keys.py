"""Places of providers' keys: the environment, the user's ``.env``, and the keyring, in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from vibe.core.config.loader import LoadedConfig

ENVIRONMENT = "the environment"
KEYRING = "the keyring"
SERVICE = "vibe-orchestrator"
"""The name that our keys have in the keyring, each under its variable."""


def key_place(variable: str, loaded: LoadedConfig, given: Mapping[str, str], env_file: str) -> str:
    """Return where the key of a variable is; blank: nowhere. The keyring itself is not asked.

    ``given`` is the environment, ``env_file`` the user's file as it is shown.
    """
    if given.get(variable, "").strip():
        return ENVIRONMENT
    if loaded.environ.get(variable, "").strip():
        return KEYRING if variable in loaded.from_keyring else env_file
    return KEYRING if variable in loaded.config.keys_in_keyring else ""


def with_keyring(loaded: LoadedConfig) -> LoadedConfig:
    """Return the same with the keys that the keyring holds by ``keys_in_keyring`` and that are nowhere else.

    Blocks; a keyring that can't be used is a warning. Where no key is missing it is not even loaded.
    """
    missing = [name for name in loaded.config.keys_in_keyring if not loaded.environ.get(name, "").strip()]
    if not missing:
        return loaded
    from vibe.core.system.keyring import KeyringError, read_secret  # noqa: PLC0415  a start with its keys does without

    found: dict[str, str] = {}
    warnings: list[str] = []
    for name in missing:
        try:
            key = read_secret(SERVICE, name)
        except KeyringError as error:
            warnings.append(f"{name} is missing: {error}; unlock it, or set {name} in the environment")
            break  # one that is not there or never answers is not waited for again
        if key is None:
            warnings.append(f"{name} is missing: it is no longer in {KEYRING}; store it again with `vibe setup`")
        else:
            found[name] = key
    return replace(
        loaded,
        environ=MappingProxyType({**loaded.environ, **found}),
        from_keyring=frozenset(found),
        warnings=(*loaded.warnings, *warnings),
    )
