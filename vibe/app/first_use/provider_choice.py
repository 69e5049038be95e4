"""Providers that can be chosen at the first use, and where the key of each was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from vibe.core.config.loader import LoadedConfig, key_place
from vibe.core.config.models import BackendKind, ProviderConfig
from vibe.core.config.presets import PRESETS
from vibe.system.errors import UsageError

SHOWN_OF_KEY = 4
SHORTEST_SHOWN = 20
"""Of a shorter key nothing is shown."""
SHORTEST_HIDDEN = 8
"""Characters. Shorter keys, as for local servers, are not masked: masking would hide parts of other words."""

ALSO_FOR_OTHERS = frozenset({"HF_TOKEN"})
"""Variables that people have for other things, as to download: they say nothing of whom one would talk to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderChoice:
    """A provider to choose."""

    provider: ProviderConfig
    is_configured: bool
    key_place: str
    """The place where its key was found; blank: nowhere."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.provider.name

    @property
    def variable(self) -> str:
        """The variable of its key; blank: it takes none."""
        return self.provider.api_key_env_var

    @property
    def lacks_key(self) -> bool:
        """True if it takes a key and none was found."""
        return bool(self.variable) and not self.key_place

    @property
    def has_own_key(self) -> bool:
        """True if its key was found, and is there for it: one of a configured provider, or one with no other use."""
        return bool(self.key_place) and (self.is_configured or self.variable not in ALSO_FOR_OTHERS)

    @property
    def about(self) -> str:
        """Its address and the state of its key, in a few words."""
        if self.provider.backend is BackendKind.LOCAL:
            return "on this machine, needs no key"
        address = urlsplit(self.provider.api_base).netloc.rpartition("@")[2]
        if not self.variable:
            return f"{address}, needs no key"
        return f"{address}, {f'its key is in {self.key_place}' if self.key_place else 'needs a key'}"


def provider_choices(loaded: LoadedConfig, given: Mapping[str, str], env_file: str) -> Iterator[ProviderChoice]:
    """Yield the configured providers, then the presets that are not; the rest is as for ``key_place``."""
    configured = loaded.config.providers
    known = {provider.name for provider in configured}
    for provider in (*configured, *(preset for preset in PRESETS.values() if preset.name not in known)):
        if provider.backend is BackendKind.SCRIPTED:
            continue
        variable = provider.api_key_env_var
        place = key_place(variable, loaded, given, env_file) if variable else ""
        yield ProviderChoice(provider=provider, is_configured=provider.name in known, key_place=place)


class BadKeyError(UsageError):
    """A text can't be a key; it is not repeated."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"that is no key: {problem}; copy the key alone, and all of it")


def checked_key(text: str) -> str:
    """Return a key without the blanks around it.

    Raises:
        BadKeyError: no provider takes it.
    """
    key = text.strip()
    if not key:
        raise BadKeyError("it is empty")
    if not (key.isascii() and key.isprintable()):
        raise BadKeyError("it has characters that no key has")
    if " " in key:
        raise BadKeyError("there is a space in it")
    return key


def masked_key(key: str) -> str:
    """Return a few characters by which its owner knows a key."""
    return f"****{key[-SHOWN_OF_KEY:] if len(key) >= SHORTEST_SHOWN else ''}"


def hidden(text: str, key: str) -> str:
    """Return a text in which the key, if it is in it, is masked."""
    return text.replace(key, masked_key(key)) if len(key) >= SHORTEST_HIDDEN else text
