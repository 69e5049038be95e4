"""SlashPalette: slash commands in the command palette; choosing one begins its line."""

from __future__ import annotations

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from vibe.cli.textual_ui.chat_screen import ChatScreen


class SlashPalette(Provider):
    """Finds slash commands by their name or by what they are for."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for line, about in self._lines():
            yield DiscoveryHit(line, partial(self._begin, line), help=about)

    async def search(self, query: str) -> Hits:
        """Those that fit what is typed."""
        matcher = self.matcher(query)
        for line, about in self._lines():
            score = max(matcher.match(line), matcher.match(about) / 2)
            if score > 0:
                yield Hit(score, matcher.highlight(line), partial(self._begin, line), help=about)

    def _lines(self) -> list[tuple[str, str]]:
        chat = self.screen
        commands = chat.commands.values() if isinstance(chat, ChatScreen) else ()
        return [(command.line, command.about) for command in commands]

    def _begin(self, line: str) -> None:
        chat = self.screen
        if isinstance(chat, ChatScreen):
            chat.prompt.set_text(f"{line.partition(' ')[0]} ")
            chat.prompt.focus()
