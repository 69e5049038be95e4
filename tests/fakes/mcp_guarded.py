"""A real MCP server behind a real OAuth server: ``python mcp_guarded.py PORT RULES``.

``RULES`` is a JSON file that is read anew for each request: ``deny`` refuses the user, ``lifetime`` is that of a token
in seconds, ``epoch`` invalidates the tokens of every other epoch, and ``renew``, ``register`` and ``revoke`` may be
false. Each grant is appended to ``rules.log``, and ``left`` for each session that its client ends.
"""

from __future__ import annotations

import json
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    RegistrationError,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl

PORT = int(sys.argv[1])
RULES = Path(sys.argv[2])
HERE = f"http://127.0.0.1:{PORT}"


def rule(name: str, default: Any) -> Any:
    return json.loads(RULES.read_text()).get(name, default)


def log(line: str) -> None:
    with RULES.with_suffix(".log").open("a") as file:
        file.write(f"{line}\n")


class Guard(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Grants every request, unless the rules deny it. Each refresh token works once."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.renewing: dict[str, RefreshToken] = {}
        self.tokens: dict[str, tuple[AccessToken, int]] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        if client_id == "known" and client_id not in self.clients:
            redirect = f"http://127.0.0.1:{rule('port', 0)}/callback"
            self.clients[client_id] = OAuthClientInformationFull.model_validate({
                "client_id": "known",
                "redirect_uris": [redirect],
                "token_endpoint_auth_method": "none",
            })
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        if not rule("register", default=True):
            raise RegistrationError("invalid_client_metadata", "members only")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if rule("deny", default=False):
            denied = {"error": "access_denied", "error_description": "not you"}
            return construct_redirect_uri(str(params.redirect_uri), **denied, state=params.state)
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002  the interface
        authorization_code: str,
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._granted("authorization_code", client.client_id, authorization_code.resource)

    async def load_refresh_token(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002  the interface
        refresh_token: str,
    ) -> RefreshToken | None:
        return self.renewing.get(refresh_token)

    async def exchange_refresh_token(
        self,
        client: OAuthClientInformationFull,
        refresh_token: RefreshToken,
        scopes: list[str],  # noqa: ARG002  the interface
    ) -> OAuthToken:
        if not rule("renew", default=True):
            raise TokenError("invalid_grant", "signed out")
        del self.renewing[refresh_token.token]
        return self._granted("refresh_token", client.client_id, refresh_token.resource)

    def _granted(self, grant: str, client_id: str, resource: str | None) -> OAuthToken:
        token, renewing = f"token-{secrets.token_hex(16)}", f"renew-{secrets.token_hex(16)}"
        known = AccessToken(token=token, client_id=client_id, scopes=[], resource=resource)
        self.tokens[token] = (known, rule("epoch", 0))
        self.renewing[renewing] = RefreshToken(token=renewing, client_id=client_id, scopes=[], resource=resource)
        log(f"{grant} {resource}")
        return OAuthToken(access_token=token, refresh_token=renewing, expires_in=rule("lifetime", 3600))

    async def load_access_token(self, token: str) -> AccessToken | None:
        known, epoch = self.tokens.get(token, (None, -1))
        return known if epoch == rule("epoch", 0) else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        if not rule("revoke", default=True):
            raise RuntimeError("not today")
        log(f"revoked {token.token.partition('-')[0]}")
        self.tokens.pop(token.token, None)
        self.renewing.pop(token.token, None)


server = MCPServer(
    "guarded",
    auth_server_provider=Guard(),
    auth=AuthSettings(
        issuer_url=AnyHttpUrl(HERE),
        resource_server_url=AnyHttpUrl(f"{HERE}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True),
        revocation_options=RevocationOptions(enabled=rule("revocation", default=True)),
        validate_token_resource=True,
    ),
)


@server.tool()
def secret() -> str:
    """Tell what only those hear who are signed in."""
    return "forty-two"


async def logged(scope: Any, receive: Any, send: Any) -> None:
    if scope.get("method") == "DELETE":
        log("left")
    await application(scope, receive, send)


if __name__ == "__main__":
    application = server.streamable_http_app(host="127.0.0.1")
    uvicorn.run(logged, host="127.0.0.1", port=PORT, log_level="warning")
