"""The first use: a provider, its key, a model, a first answer; the same steps whatever asks for them."""

from __future__ import annotations
