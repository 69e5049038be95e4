"""The token of a sign-in on the requests to its server, renewed when it is about to end or is refused."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator

import httpx2  # noqa: TID253  whoever imports this has loaded it: it is a base class here
from anyio import to_thread

from vibe.core.errors import VibeError
from vibe.core.tools.mcp.sign_ins import SignIn, SignInStore
from vibe.core.tools.mcp.token_requests import renewed_tokens

SPARE_SECONDS = 30.0
"""A token that ends sooner is renewed before it is used."""
UNAUTHORIZED = 401

logger = logging.getLogger(__name__)


class TokenAuth(httpx2.Auth):
    """Signs the requests to ``url``, and no others, if the user has signed in there."""

    def __init__(self, url: str, store: SignInStore) -> None:
        self._url = httpx2.URL(url)
        self._key = url
        self._store = store

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token; with a new one a refused request is made once more."""
        if not self._is_ours(request.url):
            yield request
            return
        sign_in = await to_thread.run_sync(self._found)
        if sign_in is not None and _ends_soon(sign_in):
            sign_in = await self._renewed(sign_in.access_token) or sign_in
        if sign_in is None:
            yield request
            return
        _sign(request, sign_in)
        response = yield request
        if response.status_code == UNAUTHORIZED:
            renewed = await self._renewed(sign_in.access_token)
            if renewed is not None:
                _sign(request, renewed)
                yield request

    def _is_ours(self, url: httpx2.URL) -> bool:
        ours = self._url
        return (url.scheme, url.host, url.port) == (ours.scheme, ours.host, ours.port)

    def _found(self) -> SignIn | None:
        try:
            return self._store.find(self._key)
        except VibeError as error:
            logger.warning("%s", error)
            return None

    async def _renewed(self, used: str) -> SignIn | None:
        """Return a sign-in whose token is another than ``used``; None if there is none to be had."""
        # Whoever no longer waits leaves it to its thread, so that the new tokens are kept: the old ones are spent.
        return await to_thread.run_sync(self._renew, used, abandon_on_cancel=True)

    def _renew(self, used: str) -> SignIn | None:
        try:
            return self._store.renewed(self._key, used, renewed_tokens)
        except VibeError as error:
            logger.warning("%s", error)
            return None


def _sign(request: httpx2.Request, sign_in: SignIn) -> None:
    request.headers["Authorization"] = f"Bearer {sign_in.access_token}"


def _ends_soon(sign_in: SignIn) -> bool:
    return sign_in.expires_at is not None and time.time() > sign_in.expires_at - SPARE_SECONDS
