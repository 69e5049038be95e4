"""Requests about the tokens of a sign-in: they are renewed, or revoked at its end. All of them block."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import httpx2  # noqa: TID253  whoever imports this has loaded it, or is about to use it
from pydantic import BaseModel, ValidationError

from vibe.core.plain_text import plain_line, shortened
from vibe.core.system.http import client_options
from vibe.core.tools.mcp.sign_ins import LOCAL_HOSTS, SignIn

REQUEST_SECONDS = 8.0
PROBLEM_LENGTH = 200
BAD_REQUEST = 400

logger = logging.getLogger(__name__)


class RenewedTokens(BaseModel):
    """A token endpoint's answer to a request for new tokens."""

    access_token: str
    refresh_token: str | None = None
    expires_in: float | None = None
    scope: str | None = None


def renewed_tokens(sign_in: SignIn) -> SignIn | None:
    """Have the tokens renewed; None if that is refused, or can't be done now."""
    if sign_in.refresh_token is None:
        return None
    form = {
        "grant_type": "refresh_token",
        "refresh_token": sign_in.refresh_token,
        **({"resource": sign_in.resource} if sign_in.resource else {}),
    }
    try:
        answer = _posted(sign_in.token_endpoint, sign_in, form)
        if answer.is_error:
            logger.warning("%s renews no token: HTTP %s", sign_in.token_endpoint, answer.status_code)
            return None
        tokens = RenewedTokens.model_validate_json(answer.content)
    except httpx2.HTTPError as error:
        logger.warning("%s can't be reached to renew a token: %s", sign_in.token_endpoint, error)
        return None
    except ValidationError:
        logger.warning("%s answered with no valid token", sign_in.token_endpoint)
        return None
    return sign_in.model_copy(
        update={
            "access_token": tokens.access_token,
            "refresh_token": tokens.refresh_token or sign_in.refresh_token,
            "expires_at": None if tokens.expires_in is None else time.time() + tokens.expires_in,
            "scope": tokens.scope or sign_in.scope,
        }
    )


def revocation_problem(sign_in: SignIn) -> str | None:
    """Have the server revoke the tokens (RFC 7009), and return why it did not; empty: it did, None: it never does."""
    endpoint = sign_in.revocation_endpoint
    if endpoint is None:
        return None
    parts = urlsplit(endpoint)
    if parts.scheme != "https" and parts.hostname not in LOCAL_HOSTS:
        return "the place to revoke them at is not https"
    tokens = {"refresh_token": sign_in.refresh_token, "access_token": sign_in.access_token}
    try:
        for kind, token in tokens.items():
            if token is None:
                continue
            form = {"token": token, "token_type_hint": kind}
            answer = _posted(endpoint, sign_in, form)
            if answer.status_code == BAD_REQUEST and not sign_in.client_secret:
                # Some servers want the secret of a client that has none; RFC 6749 lets it be empty.
                answer = _posted(endpoint, sign_in, {**form, "client_secret": ""})
            if answer.is_error:
                return f"its server answered HTTP {answer.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return (
            f"its server can't be reached ({shortened(plain_line(str(error)) or type(error).__name__, PROBLEM_LENGTH)})"
        )
    return ""


def _posted(endpoint: str, sign_in: SignIn, form: Mapping[str, str]) -> httpx2.Response:
    """Return the answer to a form that says which client sends it."""
    auth: httpx2.Auth = httpx2.Auth()
    said = {**form, "client_id": sign_in.client_id}
    if sign_in.client_secret and sign_in.client_auth == "client_secret_basic":
        auth = httpx2.BasicAuth(quote(sign_in.client_id, safe=""), quote(sign_in.client_secret, safe=""))
    elif sign_in.client_secret:
        said["client_secret"] = sign_in.client_secret
    with httpx2.Client(timeout=REQUEST_SECONDS, **client_options(httpx2, is_async=False)) as client:
        return client.post(endpoint, data=said, auth=auth)
