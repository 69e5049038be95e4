"""KeyKeeper: keeps the key of a provider in the keyring or in the user's ``.env``, replaces it and removes it."""

from __future__ import annotations

from enum import StrEnum

from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.app.first_use.provider_choice import ProviderChoice, masked_key
from vibe.core.config.dotenv import remove_variable, write_variable
from vibe.core.config.loader import ENVIRONMENT, KEYRING, SERVICE, LoadedConfig
from vibe.core.config.paths import VibePaths
from vibe.core.errors import UsageError
from vibe.core.system.keyring import KeyringError, delete_secret, write_secret

KEYS_IN_KEYRING = "keys_in_keyring"


class KeyStore(StrEnum):
    """The place where a key is kept."""

    KEYRING = "keyring"
    FILE = "file"


class NoKeyError(UsageError):
    """There is no key to remove."""

    def __init__(self, choice: ProviderChoice, env_file: str) -> None:
        where = f"in {env_file} or {KEYRING}" if choice.variable else "anywhere, since it takes none"
        super().__init__(f"there is no key of {choice.name!r} {where}: nothing was removed")


class KeyKeeper:
    """Keeps keys in one of two places; what was in the other one is removed. Blocks."""

    def __init__(self, settings: Settings, loaded: LoadedConfig, host: Host) -> None:
        self._settings = settings
        self._listed = loaded.config.keys_in_keyring
        self._given = host.environ
        self._env_path = VibePaths(host.home).env_file
        self.env_file = settings.label(self._env_path)
        """The user's file of keys, as it is shown."""

    def keep(self, variable: str, key: str, store: KeyStore) -> tuple[str, ...]:
        """Keep a key, in place of the one of that variable, and return sentences about it.

        Raises:
            KeyringError: it was to be in the keyring, which can't be used; nothing was changed.
            ConfigError, ConfigWriteError, ConfigBusyError: a file can't be changed.
        """
        if store is KeyStore.KEYRING:
            write_secret(SERVICE, variable, key)
            self._list(*self._listed, variable)
            remove_variable(self._env_path, self.env_file, variable)
            told = [f"the key {masked_key(key)} is kept in {KEYRING} as {variable}"]
        else:
            write_variable(self._env_path, self.env_file, variable, key)
            told = [f"the key {masked_key(key)} is kept in {self.env_file} as {variable}", *self._dropped(variable)]
        if self._given.get(variable, key) != key:
            told.append(f"{variable} has another value in {ENVIRONMENT}, which wins: unset it there")
        return tuple(told)

    def forget(self, choice: ProviderChoice) -> tuple[str, ...]:
        """Remove the key of a provider from wherever it is kept, and return sentences about it.

        Raises:
            NoKeyError: it is kept nowhere.
            KeyringError: the keyring can't be asked.
            ConfigError, ConfigWriteError, ConfigBusyError: a file can't be changed.
        """
        variable, told = choice.variable, list[str]()
        if variable and remove_variable(self._env_path, self.env_file, variable):
            told.append(f"{variable} is removed from {self.env_file}")
        if variable in self._listed:
            self._drop(variable)
            told.append(f"{variable} is removed from {KEYRING}")
        if variable and self._given.get(variable, "").strip():
            told.append(f"{variable} is set in {ENVIRONMENT}: unset it there")
        if not told:
            raise NoKeyError(choice, self.env_file)
        return tuple(told)

    def _dropped(self, variable: str) -> tuple[str, ...]:
        """Remove from the keyring the key that the file has now; return a sentence where that fails."""
        if variable not in self._listed:
            return ()
        try:
            self._drop(variable)
        except KeyringError as error:
            return (f"the old key is still in {KEYRING}: {error}",)
        return ()

    def _drop(self, variable: str) -> None:
        delete_secret(SERVICE, variable)
        self._list(*(name for name in self._listed if name != variable))

    def _list(self, *variables: str) -> None:
        """Note in the settings which keys the keyring has."""
        names = list(dict.fromkeys(variables))
        self._settings.writer(project=False, key=KEYS_IN_KEYRING).set(KEYS_IN_KEYRING, names)
