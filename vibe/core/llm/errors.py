"""Errors of a model, in one tree.

ModelError                     base; ``retryable`` says whether trying again can help
├── ModelTransportError        refused, DNS, TLS, timeouts, cut or silent streams      retryable
│   └── ModelTrustError        the server's certificate is not trusted
├── ModelOverloadedError       429, 500, 502, 503, 504, 529                             retryable, honours Retry-After
├── ModelProtocolError         an answer that is none: bad JSON, no SSE, no finish reason, empty
├── ModelRequestError          400, 404, 422: the request itself is wrong
├── ContextTooLongError        the prompt does not fit the model
└── ModelAccessError           401, 402, 403, exhausted quota: no other request would fare better
"""

from __future__ import annotations

from vibe.system.errors import VibeError


class ModelError(VibeError):
    """A model call failed. ``provider`` is its configured name, ``status`` the HTTP status if there was one."""

    retryable = False
    halts = False
    """True if no other request to the provider would fare better now."""

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after = retry_after

    @property
    def is_spent(self) -> bool:
        """True if the provider's credit or quota is used up: a limit, not a fault."""
        return self.status in {402, 429} or (self.status == 400 and type(self) is ModelAccessError)


class ModelTransportError(ModelError):
    """The wire failed. ``unreachable``: the address did not answer at all."""

    retryable = True
    unreachable = False


class ModelTrustError(ModelTransportError):
    """Nobody who is trusted vouches for the server's certificate."""

    retryable = False
    halts = True


class ModelOverloadedError(ModelError):
    """The provider asks to wait; ``retry_after`` in seconds if it said how long."""

    retryable = True


class ModelProtocolError(ModelError):
    """The answer cannot be understood. Worth exactly one more try."""

    retryable = True


class ModelRequestError(ModelError):
    """The provider refuses this request."""


class ContextTooLongError(ModelError):
    """The prompt is longer than the model takes."""


class ModelAccessError(ModelError):
    """Key, credit or quota."""

    halts = True


class ModelKeyError(ModelAccessError):
    """The key is wrong, whatever the status; it is not the credit."""
