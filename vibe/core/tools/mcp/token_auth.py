"""Adds a sign-in's token to the requests to its server, renews it when it expires or is refused, and revokes it."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from urllib.parse import quote

import httpx2  # noqa: TID253  loaded by every importer anyway: it is a base class here
from anyio import to_thread
from pydantic import ValidationError

from vibe.core.tools.mcp.sign_ins import FORM, IN_CLEAR, UNAUTHORIZED, SignIn, SignInStore, is_in_clear
from vibe.system.errors import VibeError
from vibe.system.http import answer_to
from vibe.system.plain_text import one_line

SPARE_SECONDS = 30.0
"""A token that expires within this many seconds is renewed before it is used."""
BAD_REQUEST = 400
REFUSALS = frozenset({BAD_REQUEST, UNAUTHORIZED, 403})
"""HTTP statuses by which a server refuses to renew a token, so that only a new sign-in helps."""
REQUEST_SECONDS = 8.0
"""The timeout of requests for tokens, in seconds."""

logger = logging.getLogger(__name__)


class TokenAuth(httpx2.Auth):
    """Signs the requests to ``url``, and no others, if the user has signed in there.

    ``tell`` receives why a sign-in can't be renewed now, and an empty string with the next request.
    """

    def __init__(self, url: str, store: SignInStore, tell: Callable[[str], object]) -> None:
        self._key = url
        self._store = store
        self._tell = tell

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Add the token. If the request is refused, repeat it once with a renewed token."""
        sign_in, asked, ours = None, request.url, httpx2.URL(self._key)
        if (asked.scheme, asked.netloc) == (ours.scheme, ours.netloc):
            self._tell("")
            sign_in = await to_thread.run_sync(_sign_in_or_warning, self._store.find, self._key)
        if sign_in and sign_in.expires_at is not None and time.time() > sign_in.expires_at - SPARE_SECONDS:
            sign_in = await self._renewed(sign_in.access_token) or sign_in
        if sign_in is not None:
            _sign(request, sign_in)
        response = yield request
        if sign_in and response.status_code == UNAUTHORIZED and (renewed := await self._renewed(sign_in.access_token)):
            _sign(request, renewed)
            yield request

    async def _renewed(self, used: str) -> SignIn | None:
        """Return a sign-in whose token differs from ``used``, or None if there is none."""
        # On cancellation the thread goes on, so that the new tokens are stored: the old ones no longer work.
        renewal = (self._store.renew, self._key, used, partial(renew_tokens, tell=self._tell))
        return await to_thread.run_sync(_sign_in_or_warning, *renewal, abandon_on_cancel=True)


def _sign_in_or_warning(ask: Callable[..., SignIn | None], *given: object) -> SignIn | None:
    """Return the sign-in from the store. If it can't be used, log a warning and return None."""
    try:
        return ask(*given)
    except VibeError as error:
        logger.warning("%s", error)
        return None


def _sign(request: httpx2.Request, sign_in: SignIn) -> None:
    request.headers["Authorization"] = f"Bearer {sign_in.access_token}"


def renew_tokens(sign_in: SignIn, tell: Callable[[str], object] = str) -> SignIn | None:
    """Renew the tokens. Return None if that is refused, or not possible now, in which case ``tell`` receives why."""
    from mcp.shared.auth import OAuthToken

    if sign_in.refresh_token is None:
        return None
    form = {"grant_type": "refresh_token", "refresh_token": sign_in.refresh_token}
    if sign_in.resource:
        form["resource"] = sign_in.resource
    try:
        answer = _post(sign_in.token_endpoint, sign_in, form)
        if answer.status_code in REFUSALS:
            return None
        if not answer.is_error:
            return sign_in.with_tokens(OAuthToken.model_validate_json(answer.content))
        why = f"it answered HTTP {answer.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        why = one_line(str(error) or type(error).__name__)
    except ValidationError:
        why = "what it sent is no token"
    tell(f"{sign_in.token_endpoint} renews no token now ({why})")
    return None


def revocation_problem(sign_in: SignIn) -> str | None:
    """Have the server revoke the tokens (RFC 7009), and return why it did not.

    The result is empty if it did, and None if it has no endpoint for that.
    """
    if (endpoint := sign_in.revocation_endpoint) is None:
        return None
    tokens = {"refresh_token": sign_in.refresh_token, "access_token": sign_in.access_token}
    try:
        for kind, token in tokens.items():
            if token is None:
                continue
            form = {"token": token, "token_type_hint": kind}
            answer = _post(endpoint, sign_in, form)
            if answer.status_code == BAD_REQUEST and not sign_in.client_secret:
                # Some servers require a secret even of a client that has none. RFC 6749 allows it to be empty.
                answer = _post(endpoint, sign_in, {**form, "client_secret": ""})
            if answer.is_error:
                return f"its server answered HTTP {answer.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return f"its server can't be reached ({one_line(str(error) or type(error).__name__)})"
    return ""


def _post(endpoint: str, sign_in: SignIn, form: Mapping[str, str]) -> httpx2.Response:
    """Post a form that identifies the client, and return the answer.

    Raises:
        httpx2.HTTPError, httpx2.InvalidURL: there is none, or the form could be read on its way.
    """
    if is_in_clear(endpoint):
        raise httpx2.UnsupportedProtocol(f"{endpoint} {IN_CLEAR}")
    auth: httpx2.Auth = httpx2.Auth()
    fields = {**form, "client_id": sign_in.client_id}
    if sign_in.client_secret and sign_in.client_auth == "client_secret_basic":
        auth = httpx2.BasicAuth(quote(sign_in.client_id, safe=""), quote(sign_in.client_secret, safe=""))
    elif sign_in.client_secret:
        fields["client_secret"] = sign_in.client_secret
    return answer_to("POST", endpoint, REQUEST_SECONDS, data=fields, auth=auth, headers={"Accept": FORM})
