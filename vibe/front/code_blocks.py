"""Finds the code blocks in a Markdown text, ready to be copied."""

from __future__ import annotations


def code_blocks(text: str) -> list[str]:
    """Return the code of each block in order, including blocks inside lists and quotes."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  slow to import and rarely needed

    return [token.content.rstrip("\n") for token in MarkdownIt().parse(text) if token.type in {"fence", "code_block"}]
