from __future__ import annotations

import pytest

from vibe.core.tools.mcp.remote import RemotePrompt, given_arguments
from vibe.system.errors import UsageError

REVIEW = RemotePrompt(name="review", about="", arguments=("place", "tone"), required=frozenset({"place"}))
PLAIN = RemotePrompt(name="plain", about="")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("src", {"place": "src"}),
        ("src frank", {"place": "src", "tone": "frank"}),
        ("'my src' very frank indeed", {"place": "my src", "tone": "very frank indeed"}),
        ("tone=frank src", {"tone": "frank", "place": "src"}),
        ("x=1 don't", {"place": "x=1", "tone": "don't"}),
    ],
)
def test_arguments_come_in_their_order_or_by_name(text: str, expected: dict[str, str]) -> None:
    assert given_arguments(REVIEW, text) == expected


@pytest.mark.parametrize(
    ("prompt", "text", "said"), [(REVIEW, "", "needs place: type PLACE [TONE]"), (PLAIN, "more", "takes no arguments")]
)
def test_what_is_missing_or_too_much_is_told(prompt: RemotePrompt, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        given_arguments(prompt, text)

    assert said in str(raised.value)
