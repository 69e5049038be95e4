"""The blocks of code in a Markdown text, as they are to be copied."""

from __future__ import annotations


def code_blocks(text: str) -> list[str]:
    """Return the code in each fence, also in lists and quotes, in their order."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  slow to import, and seldom needed

    return [token.content.rstrip("\n") for token in MarkdownIt().parse(text) if token.type in {"fence", "code_block"}]
