"""TrustFile: changes ``trusted_folders.toml`` when the user says so; comments in it stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from vibe.core.config.paths import VibePaths, shown
from vibe.core.config.toml_source import read_text
from vibe.core.config.trust import TrustStore
from vibe.core.config.writer import changing_alone, put_settings

TRUSTED, UNTRUSTED = "trusted", "untrusted"


class TrustFile:
    """The user's list of trusted folders.

    Every method raises ConfigError where the list that is there is not valid.
    """

    def __init__(self, home: Path, user_home: Path) -> None:
        self._path = VibePaths(home).trusted_file
        self._label = shown(self._path, user_home)
        self._user_home = user_home
        self._store = TrustStore(home, user_home=user_home)

    def folders(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The trusted and the untrusted entries, as they are written."""
        self._store.is_trusted(self._user_home)  # refuses a list that is not valid
        document = self._document()
        return tuple(map(str, document.get(TRUSTED, []))), tuple(map(str, document.get(UNTRUSTED, [])))

    def add(self, folder: Path) -> bool:
        """Trust a folder and what is below it; False if it was already trusted.

        Raises:
            ConfigWriteError: the file can't be written.
            ConfigBusyError: another process is changing it.
        """
        with changing_alone(self._path, self._label):
            if self._store.is_trusted(folder):
                return False
            document = self._document()
            self._drop(document, UNTRUSTED, folder)
            self._append(document, TRUSTED, folder)
            self._write(document)
        return True

    def remove(self, folder: Path) -> bool:
        """Trust a folder no longer, even where one above it is trusted; False if it was not trusted.

        Raises:
            ConfigWriteError: the file can't be written.
            ConfigBusyError: another process is changing it.
        """
        with changing_alone(self._path, self._label):
            if not self._store.is_trusted(folder):
                return False
            document = self._document()
            self._drop(document, TRUSTED, folder)
            self._write(document)
            if self._store.is_trusted(folder):
                self._append(document, UNTRUSTED, folder)
                self._write(document)
        return True

    def _document(self) -> Any:
        import tomlkit

        return tomlkit.parse(read_text(self._path, self._label) or "")

    def _append(self, document: Any, key: str, folder: Path) -> None:
        import tomlkit

        if key not in document:
            document[key] = tomlkit.array()
        cast("list[str]", document[key]).append(str(folder.resolve()))
        document[key].multiline(multiline=True)

    def _drop(self, document: Any, key: str, folder: Path) -> None:
        listed: list[Any] = document.get(key, [])
        wanted = folder.resolve()
        for index in reversed(range(len(listed))):
            text = str(listed[index])
            path = self._user_home / text[2:] if text.startswith("~/") else Path(text)
            if path.resolve() == wanted:
                del listed[index]

    def _write(self, document: Any) -> None:
        import tomlkit

        put_settings(self._path, self._label, tomlkit.dumps(document))
