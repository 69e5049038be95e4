"""Sessions to go on with: shown, searched, chosen."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from textual.app import App
from textual.widgets import OptionList

from vibe.cli.textual_ui.screen_commands import SessionPicker, when
from vibe.core.session.folder import SavedSession, SessionFolder, SessionMeta


def rows(folder: Path) -> list[SavedSession]:
    said = {"aaaa1111": "about [red]trees\x1b[2J", "bbbb2222": "about rivers", "cccc3333": "elsewhere"}
    made: list[SavedSession] = []
    for number, (session_id, title) in enumerate(said.items()):
        kept = SessionFolder(folder / session_id)
        kept.path.mkdir(exist_ok=True)
        kept.transcript.write_text(json.dumps({"content": f'word{number} "Äpfel"'}, ensure_ascii=False) + "\n")
        workspace = "/other" if session_id.startswith("c") else "/here"
        meta = SessionMeta(version=1, session_id=session_id, title=title, workspace=workspace)
        made.append(SavedSession(folder=kept, meta=meta, updated=1000.0 - number))
    return made


class Picking(App[None]):
    chosen: str | None = "nothing yet"

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.picker = SessionPicker(lambda: rows(folder), "/here", clock=lambda: 4600.0)

    async def rest(self) -> None:
        """Wait until nothing works behind the picture."""
        await self.workers.wait_for_complete()  # pyright: ignore[reportUnknownMemberType]  Textual's has no type

    def on_mount(self) -> None:
        self.push_screen(self.picker, lambda chosen: setattr(self, "chosen", chosen))

    def shown(self) -> list[str]:
        options = self.picker.query_one(OptionList)
        return [str(options.get_option_at_index(index).prompt) for index in range(options.option_count)]


async def test_those_of_this_folder_come_first_and_all_on_a_key(tmp_path: Path) -> None:
    app = Picking(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.rest()
        here = app.shown()
        await pilot.press("ctrl+a")
        everywhere = app.shown()

    assert ["aaaa1111" in here[0], "bbbb2222" in here[1], len(here)] == [True, True, 2]
    assert here[0] == "       1 h  aaaa1111  about [red]trees"
    assert len(everywhere) == 3
    assert everywhere[2].endswith("cccc3333  elsewhere  /other")


async def test_a_title_or_what_was_said_finds_one_and_enter_chooses_it(tmp_path: Path) -> None:
    app = Picking(tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await app.rest()
        await pilot.press(*"river")
        await app.rest()
        by_title = app.shown()
        await pilot.press("ctrl+u", *'word0 "äpfel"')
        await app.rest()
        by_text = app.shown()
        await pilot.press("enter")
        await pilot.pause()

    assert [line.split()[2] for line in by_title] == ["bbbb2222"]
    assert [line.split()[2] for line in by_text] == ["aaaa1111"]
    assert app.chosen == "aaaa1111"


async def test_the_arrows_move_and_escape_chooses_none(tmp_path: Path) -> None:
    app = Picking(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await app.rest()
        await pilot.press("down")
        marked = app.picker.query_one(OptionList).highlighted
        await pilot.press("escape")
        await pilot.pause()

    assert marked == 1
    assert app.chosen is None


def test_an_age_is_said_in_the_largest_unit_and_after_a_week_as_a_date() -> None:
    now = datetime(2026, 11, 24, 12, tzinfo=UTC).timestamp()
    said = [when(now - ago, now) for ago in (5, 60, 7_300, 200_000, 8 * 86_400)]
    date = datetime.fromtimestamp(now - 8 * 86_400, tz=UTC).astimezone().date()
    assert said == ["now", "1 min", "2 h", "2 d", date.isoformat()]
