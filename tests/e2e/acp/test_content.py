"""Prompts that contain more than text.

Covers ``vibe.acp``.
"""

from __future__ import annotations

from pathlib import Path

from tests.e2e.acp.acp_scene import Scene, refusal


def test_half_a_surrogate_in_a_prompt_is_a_question_mark(scene: Scene, workdir: Path) -> None:
    scene.script({"text": "read"})
    session = scene.editing.new(workdir)
    assert scene.editing.ask(session, "half \ud83d of it").stop_reason == "end_turn"


DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def test_pictures_and_embedded_context_reach_the_conversation(scene: Scene, workdir: Path) -> None:
    from acp import embedded_text_resource, image_block, resource_block, resource_link_block  # noqa: PLC0415  slow to load, and few tests need it

    (workdir / "linked.txt").write_text("linked words\n")
    (workdir / "long.txt").write_text("".join(f"row {number}\n" for number in range(1, 10)))
    scene.script({"text": "seen"})
    session = scene.editing.new(workdir)

    ended = scene.editing.ask(
        session,
        "Look at ",
        resource_link_block("linked.txt", (workdir / "linked.txt").as_uri()),
        " and ",
        resource_link_block("long.txt", (workdir / "long.txt").as_uri() + "#L3-4"),
        resource_block(embedded_text_resource((workdir / "open.py").as_uri(), "embedded words")),
        image_block(DOT, "image/png"),
    )

    saved = "".join(path.read_text() for path in (scene.vibe.home / "logs/session").rglob(f"*{session}*/*.jsonl"))
    assert ended.stop_reason == "end_turn"
    assert "linked words" in saved
    assert "embedded words" in saved
    assert [f"row {number}" in saved for number in (2, 3, 4, 5)] == [False, True, True, False]
    assert DOT in saved
    assert "not base64" in refusal(scene.editing.ask, session, image_block("?", "image/png"))
