"""Basics of the HTTP backends: timeouts, keys and headers."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from vibe import __version__
from vibe.core.config.models import ProviderConfig
from vibe.core.llm.port import ModelRequest
from vibe.system.errors import EnvironmentFailure, MissingKeyError

USER_AGENT: Final = f"vibe/{__version__}"
CONNECT_SECONDS: Final = 30.0
"""The longest a connection may take, however patient the provider's ``timeout_seconds`` is."""

_END: Final = re.compile(r"/(?:chat/completions|completions|responses|messages|models)$")
"""The paths of the calls themselves, as documentation shows them."""
_VERSION: Final = re.compile(r"/v\d+\w*$")
_REFERENCE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def filled_headers(provider: ProviderConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return a provider's own headers, with variables in place of their names.

    Raises:
        EnvironmentFailure: a variable is not set.
    """

    def value(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise EnvironmentFailure(
                f"provider {provider.name!r} needs the environment variable {match[1]} for extra_headers: set it"
            )
        return environ[match[1]]

    return {name: _REFERENCE.sub(value, text).strip() for name, text in provider.extra_headers.items()}


def key_of(provider: ProviderConfig, environ: Mapping[str, str], keys_in_keyring: Container[str] = ()) -> str | None:
    """Return a provider's key; None: it takes none. ``keys_in_keyring`` are variables whose keys are kept there.

    Raises:
        EnvironmentFailure: it is not set, or what is set can't be a key; it is not repeated.
    """
    variable = provider.api_key_env_var
    if not variable:
        return None
    key = environ.get(variable, "").strip()
    if not key:
        raise MissingKeyError(provider.name, variable, in_keyring=variable in keys_in_keyring)
    if not (key.isascii() and key.isprintable()):
        raise EnvironmentFailure(
            f"the API key in {variable} for provider {provider.name!r} contains characters that no key has: "
            "set it again"
        )
    return key


def address(api_base: str, *path: str) -> str:
    """Return the address of ``path`` below ``api_base``, which people also paste with a path of its own and a query."""
    parts = urlsplit(api_base.strip())
    base = _END.sub("", parts.path.rstrip("/"))
    return urlunsplit(parts._replace(path="/".join((base, *path)), fragment=""))


def versioned(api_base: str) -> str:
    """Return ``api_base`` with its version path, which every server of the Messages API has."""
    return address(api_base, *([] if _VERSION.search(urlsplit(address(api_base)).path) else ["v1"]))


def headers_of(provider: ProviderConfig, request: ModelRequest) -> dict[str, str]:
    """Return a request's headers besides those of the protocol; names in lower case, the user's win."""
    own = {"user-agent": USER_AGENT, **request.extra_headers}
    return own | {name.lower(): value for name, value in provider.extra_headers.items()}
