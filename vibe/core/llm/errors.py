"""Errors of a model, in one tree.

ModelError                     base; ``retryable`` says whether trying again can help
├── ModelTransportError        refused, DNS, TLS, timeouts, cut or silent streams      retryable
│   └── ModelTrustError        the server's certificate is not trusted
├── ModelOverloadedError       429, 500, 502, 503, 504, 529                             retryable, honours Retry-After
├── ModelProtocolError         an unusable answer: bad JSON, no SSE, no finish reason, empty    retryable
├── ModelRequestError          400, 404, 422: the request itself is wrong
├── ModelRefusalError          the model, or a filter of its provider, declines to answer
├── ContextTooLongError        the prompt does not fit into the model's context
└── ModelAccessError           401, 402, 403, exhausted quota: any other request would fail, too
    ├── ModelKeyError          the key is wrong
    └── ModelCreditError       credit or quota is used up, whatever the status says
"""

from __future__ import annotations

from vibe.system.errors import VibeError


class ModelError(VibeError):
    """A model call failed. ``provider`` is its configured name, ``status`` the HTTP status if there was one."""

    retryable = False
    halts = False
    """True if any other request to the provider would fail now, too."""
    unreachable = False
    """True if the address did not answer at all."""

    def __init__(
        self, message: str, *, provider: str = "", status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after = retry_after

    @property
    def is_spent(self) -> bool:
        """True if the provider's credit or quota is used up, which counts as a limit and not as a failure."""
        return self.status in {402, 429} or isinstance(self, ModelCreditError)


class ModelTransportError(ModelError):
    """The connection failed."""

    retryable = True


class ModelTrustError(ModelTransportError):
    """The server's certificate is not signed by a trusted authority, or a proxy wants another user or password."""

    retryable = False
    halts = True


class ModelOverloadedError(ModelError):
    """The provider is overloaded or limits the rate; ``retry_after`` is the wait it asks for in seconds, if any."""

    retryable = True


class ModelProtocolError(ModelError):
    """The answer can't be understood. It is worth exactly one more try."""

    retryable = True


class ModelRequestError(ModelError):
    """The provider refuses this request."""

    @property
    def is_about_model(self) -> bool:
        """True if the provider blames the model, by its own words without the advice that we add after them."""
        return self.status == 404 or "model" in str(self).rpartition(";")[0].lower()


class ModelRefusalError(ModelError):
    """The model, or a filter of its provider, declines to answer. Another model may answer."""


class ContextTooLongError(ModelError):
    """The prompt does not fit into the model's context."""


class ModelAccessError(ModelError):
    """The provider denies access: the key, the credit or the quota is at fault."""

    halts = True


class ModelKeyError(ModelAccessError):
    """The key is wrong, whatever the status says; credit and quota are not the problem."""


class ModelCreditError(ModelAccessError):
    """The credit or the quota is used up, whatever the status says."""
