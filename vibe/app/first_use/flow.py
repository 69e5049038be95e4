"""FirstUse: from nothing to a model that answers, step by step, without a front end.

A provider's key is kept in the keyring or in the user's ``.env``, and can be replaced or removed there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from anyio import to_thread
from msgspec import Struct, structs

from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.app.inspect.trial import Trial, ask_once
from vibe.core.config.dotenv import remove_variable, write_variable
from vibe.core.config.loader import ENVIRONMENT, KEYRING, SERVICE, LoadedConfig, key_place, with_keyring
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig, hint_for
from vibe.core.config.paths import VibePaths
from vibe.core.config.presets import PRESETS
from vibe.system.errors import UsageError
from vibe.system.keyring import KeyringError, delete_secret, write_secret

SHOWN_OF_KEY = 4
SHORTEST_SHOWN = 20
"""The length from which the end of a key is shown. Of shorter keys, nothing is."""
SHORTEST_HIDDEN = 8
"""The length from which a key is masked in texts. Masking shorter keys, as for local servers, would hit other words."""

ALSO_FOR_OTHERS = frozenset({"HF_TOKEN"})
"""Variables that people set for other purposes, such as downloads, so they don't show which provider is meant."""


class ProviderChoice(Struct, frozen=True, kw_only=True):
    """A provider to choose."""

    provider: ProviderConfig
    is_configured: bool
    key_place: str
    """The place where its key was found; empty if it was not."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.provider.name

    @property
    def variable(self) -> str:
        """The variable of its key; empty if it takes none."""
        return self.provider.api_key_env_var

    @property
    def lacks_key(self) -> bool:
        """True if it takes a key and none was found."""
        return bool(self.variable) and not self.key_place

    @property
    def has_own_key(self) -> bool:
        """True if a key was found that is meant for it: the provider is configured, or its key has no other use."""
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
    """Yield the configured providers, then the presets that are not configured.

    For the parameters see ``key_place``.
    """
    configured = loaded.config.providers
    known = {provider.name for provider in configured}
    for provider in (*configured, *(preset for preset in PRESETS.values() if preset.name not in known)):
        if provider.backend is BackendKind.SCRIPTED:
            continue
        variable = provider.api_key_env_var
        place = key_place(variable, loaded, given, env_file) if variable else ""
        yield ProviderChoice(provider=provider, is_configured=provider.name in known, key_place=place)


class BadKeyError(UsageError):
    """Raised for a text that can't be a key. The message does not repeat it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"that is not a key: {problem}; copy the key alone, and all of it")


def checked_key(text: str) -> str:
    """Return a key without surrounding blanks.

    Raises:
        BadKeyError: no provider would accept it.
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
    """Return a few characters by which its owner recognises a key."""
    return f"****{key[-SHOWN_OF_KEY:] if len(key) >= SHORTEST_SHOWN else ''}"


def hidden(text: str, key: str) -> str:
    """Return a text with the key masked, if it contains the key."""
    return text.replace(key, masked_key(key)) if len(key) >= SHORTEST_HIDDEN else text


ACTIVE_MODEL = "active_model"
THEME = "ui.theme"
KEYS_IN_KEYRING = "keys_in_keyring"
_REFUSED = frozenset({401, 403})


class KeyStore(StrEnum):
    """The place where a key is kept."""

    KEYRING = "keyring"
    FILE = "file"


class SetupSelection(Struct, frozen=True, kw_only=True):
    """The choices of a person. An empty ``key`` means the one that was found, or that none is needed."""

    choice: ProviderChoice
    model: str
    """The alias or name of a configured model, else a name at the provider."""
    key: str = ""
    store: KeyStore = KeyStore.FILE

    def __repr__(self) -> str:
        return f"SetupSelection(model={self.model!r})"  # leaves out the key


class ModelMenu(Struct, frozen=True, kw_only=True):
    """The models of a provider, the configured ones first.

    ``problem`` says why it could not be asked, and is empty if it was.
    """

    names: tuple[str, ...]
    problem: str = ""
    key_is_refused: bool = False

    def like(self, text: str) -> tuple[str, ...]:
        """Return the names that a text stands for: the exact name, else those that contain its words."""
        if text in self.names:
            return (text,)
        words = text.lower().split()
        return tuple(name for name in self.names if all(word in name.lower() for word in words))


class FirstUse:
    """The steps of one first use. All but ``try_out`` block. Nothing is changed before ``keep``."""

    def __init__(self, host: Host, workdir: Path) -> None:
        self._settings = Settings(host, workdir)
        self._loaded = loaded = self._settings.load()
        self._config = loaded.config
        self._given = host.environ
        self._env_path = VibePaths(host.home).env_file
        self.env_file = self._settings.label(self._env_path)
        """The file of keys, as it is shown to people."""
        self.choices = tuple(provider_choices(loaded, host.environ, self.env_file))
        """The providers to choose from."""

    @property
    def is_due(self) -> bool:
        """True if the model in use lacks its key. Another provider's key does not help it."""
        used = self._used
        return used is not None and used.lacks_key

    @property
    def likely(self) -> int:
        """The position of the provider to offer first: the one in use if it has its key, else another one that has."""
        used = self._used
        if used is not None and not used.lacks_key:
            return self.choices.index(used)
        return next((number for number, choice in enumerate(self.choices) if choice.has_own_key), 0)

    @property
    def _used(self) -> ProviderChoice | None:
        model = self._config.find_model(self._config.active_model)
        return next((choice for choice in self.choices if model and choice.name == model.provider), None)

    def choice(self, name: str) -> ProviderChoice:
        """Return the provider of that name.

        Raises:
            UsageError: there is no such provider to set up.
        """
        known = {choice.name: choice for choice in self.choices}
        if name not in known:
            hint = hint_for(name, known, f"choose from {', '.join(known)}, or add it to config.toml")
            raise UsageError(f"unknown provider {name!r}: {hint}")
        return known[name]

    def models(self, choice: ProviderChoice, key: str = "") -> ModelMenu:
        """Ask the provider for its models, and return them after the configured ones."""
        from vibe.app.inspect.model_listing import offer_of

        offer = offer_of(choice.provider, self._environ(choice, key))
        configured = [model for model in self._config.models if model.provider == choice.name]
        names = {model.name for model in configured}
        return ModelMenu(
            names=(*(model.key for model in configured), *(name for name in offer.models if name not in names)),
            problem=hidden(offer.problem or "", key),
            key_is_refused=offer.status in _REFUSED,
        )

    async def try_out(self, selection: SetupSelection) -> Trial:
        """Ask the model one short question, exactly as it will be asked once the selection is kept."""
        key = selection.key and checked_key(selection.key)
        environ = await to_thread.run_sync(self._environ, selection.choice, key)
        config, provider = self._config, selection.choice.provider
        others = tuple(one for one in config.providers if one.name != provider.name)
        config = config.model_copy(update={"providers": (provider, *others)})
        used = environ.get(selection.choice.variable, "").strip()
        trial = await ask_once(config, environ, _model_of(selection, config), masked_key(used) if used else "")
        return structs.replace(trial, sentence=hidden(trial.sentence, used))

    def keep_theme(self, name: str) -> None:
        """Write the screen's colour theme to the settings.

        Raises:
            EnvironmentFailure: the file can't be written.
        """
        self._settings.writer(project=False, key=THEME).set(THEME, name)

    def keep(self, selection: SetupSelection) -> tuple[str, ...]:
        """Save the selection, and return sentences about it: what is kept where, and what overrides it.

        Raises:
            ConfigError: the settings would be invalid with it.
            BadKeyError: the key is malformed.
            KeyringError: it was to be kept in the keyring, which can't be used; nothing was changed.
            EnvironmentFailure: a file can't be written.
        """
        key = selection.key and checked_key(selection.key)
        choice, config = selection.choice, self._config
        model = _model_of(selection, config)
        about_key = self._keep_key(choice.variable, key, selection.store) if key else ()
        if not choice.is_configured:
            self._add("providers", choice.provider.model_dump(mode="json", exclude_defaults=True))
        if model not in config.models:
            self._add("models", model.model_dump(mode="json", exclude_defaults=True))
        writer = self._settings.writer(project=False, key=ACTIVE_MODEL)
        writer.set(ACTIVE_MODEL, model.key)
        origin = self._settings.overruling(ACTIVE_MODEL, project=False)
        overruled = (f"{origin} sets {ACTIVE_MODEL} too, and wins here",) if origin else ()
        return (*about_key, f"{ACTIVE_MODEL} is {model.key!r} in {writer.label}", *overruled)

    def forget_key(self, choice: ProviderChoice) -> tuple[str, ...]:
        """Remove the key of a provider from wherever it is kept, and return sentences about it.

        Raises:
            UsageError: it is not kept anywhere.
            KeyringError: the keyring can't be reached.
            ConfigError, EnvironmentFailure: a file can't be changed.
        """
        variable, notes = choice.variable, list[str]()
        if variable and remove_variable(self._env_path, self.env_file, variable):
            notes.append(f"{variable} is removed from {self.env_file}")
        if variable in self._config.keys_in_keyring:
            self._drop_from_keyring(variable)
            notes.append(f"{variable} is removed from {KEYRING}")
        if variable and self._given.get(variable, "").strip():
            notes.append(f"{variable} is set in {ENVIRONMENT}: unset it there")
        if not notes:
            where = f"in {self.env_file} or {KEYRING}" if variable else "anywhere, since it takes none"
            raise UsageError(f"there is no key of {choice.name!r} {where}: nothing was removed")
        return tuple(notes)

    def _keep_key(self, variable: str, key: str, store: KeyStore) -> tuple[str, ...]:
        """Keep a key in one of the two places, and remove it from the other one."""
        if store is KeyStore.KEYRING:
            write_secret(SERVICE, variable, key)
            self._list_in_settings(*self._config.keys_in_keyring, variable)
            remove_variable(self._env_path, self.env_file, variable)
            notes = [f"the key {masked_key(key)} is kept in {KEYRING} as {variable}"]
        else:
            write_variable(self._env_path, self.env_file, variable, key)
            notes = [f"the key {masked_key(key)} is kept in {self.env_file} as {variable}", *self._drop_old(variable)]
        if self._given.get(variable, key) != key:
            notes.append(f"{variable} has another value in {ENVIRONMENT}, which wins: unset it there")
        return tuple(notes)

    def _drop_old(self, variable: str) -> tuple[str, ...]:
        """Remove from the keyring the key that the file has now. Return a sentence if that fails."""
        if variable not in self._config.keys_in_keyring:
            return ()
        try:
            self._drop_from_keyring(variable)
        except KeyringError as error:
            return (f"the old key is still in {KEYRING}: {error}",)
        return ()

    def _drop_from_keyring(self, variable: str) -> None:
        delete_secret(SERVICE, variable)
        self._list_in_settings(*(name for name in self._config.keys_in_keyring if name != variable))

    def _list_in_settings(self, *variables: str) -> None:
        """Record in the settings which keys the keyring has."""
        names = list(dict.fromkeys(variables))
        self._settings.writer(project=False, key=KEYS_IN_KEYRING).set(KEYS_IN_KEYRING, names)

    def _add(self, group: str, entry: dict[str, object]) -> None:
        self._settings.writer(project=False, key=group).add_entry(group, entry)

    def _environ(self, choice: ProviderChoice, key: str) -> dict[str, str]:
        """Return the variables as they will be with another key, or else with the one in the keyring. Blocks."""
        if not key and choice.key_place == KEYRING:
            self._loaded = with_keyring(self._loaded)
        return {**self._loaded.environ, **({choice.variable: key} if key and choice.variable else {})}


def _model_of(selection: SetupSelection, config: VibeConfig) -> ModelConfig:
    """Return the configured model that was chosen, or a new one under a name that no model has yet."""
    served = [model for model in config.models if model.provider == selection.choice.name]
    for model in (*(one for one in served if one.key == selection.model), *served):
        if selection.model in {model.key, model.name}:
            return model
    taken = config.find_model(selection.model) is not None
    alias = f"{selection.choice.name}/{selection.model}" if taken else ""
    return ModelConfig(name=selection.model, provider=selection.choice.name, alias=alias)
