"""``vibe plan review``: shows what the steps of a plan changed, takes comments on it, and gives files back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

import anyio

from ipc.events import ReviewComment
from vibe.app.plan.review import ChangedFile, FileState, PlanReview
from vibe.app.plan.review_commands import Rejection, carry_out
from vibe.cli.commands.plan_control import write_command_report
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.front.review import author, diff_of
from vibe.system.plain_text import counted, one_line, plain

PATH_LENGTH = 300
_PLACE = re.compile(r"(.+):(\d+)(?:-(\d+))?")


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print the changes, or give files back and send comments."""
    review = PlanReview(env, args.plan)
    step_id: str = args.step or ""
    if args.comment or args.reject:
        if args.file or args.diff:
            raise CommandLineError("FILE and --diff only show changes: leave them out, and repeat --reject for a file")
        comments = [_comment(review, place, text, step_id) for place, text in args.comment]
        rejected = [Rejection(review.of(path, step_id), args.force) for path in args.reject]
        host = env.as_writer()
        write_command_report(anyio.run(partial(carry_out, host, review, rejected, comments, tell=env.tell)), args, env)
        return
    shown = [one for one in review.changes if args.file in (None, one.name) and step_id in ("", one.step_id)]
    if not shown and (args.file or step_id):
        review.of(args.file or "", step_id)
    with_diffs = args.diff or args.file is not None
    document = {"plan_id": review.plan_id, "changes": [_plain(one, with_diff=with_diffs) for one in shown]}
    env.answer(args, document, _diffs(shown) if with_diffs else _listed(review, shown))


def _comment(review: PlanReview, place: str, text: str, step_id: str) -> tuple[str, ReviewComment]:
    found = _PLACE.fullmatch(place)
    if found is None:
        raise CommandLineError(f"--comment {place}: give FILE:LINE, or FILE:LINE-LINE")
    change = review.of(found[1], step_id)
    first = int(found[2])
    return change.step_id, review.comment(change, (first, int(found[3] or first)), text)


def _plain(change: ChangedFile, *, with_diff: bool) -> dict[str, object]:
    diff = {"diff": change.diff.text} if with_diff else {}
    counts = {"added": change.diff.added, "removed": change.diff.removed}
    return {
        "step": change.step_id,
        "attempt": change.attempt,
        "file": change.name,
        **counts,
        "status": change.standing.value,
        **diff,
    }


def _diffs(shown: Sequence[ChangedFile]) -> Iterator[str]:
    for one in shown:
        yield "  ".join(("#", one_line(one.name, PATH_LENGTH), f"by {author(one)}", *_facts(one)))
        yield plain(diff_of(one))


def _listed(review: PlanReview, shown: Sequence[ChangedFile]) -> Iterator[str]:
    yield f"plan {review.plan_id}: {one_line(review.goal, PATH_LENGTH)}"
    width, step_id = max((len(one_line(one.name, PATH_LENGTH)) for one in shown), default=0), ""
    for one in shown:
        if author(one) != step_id:
            step_id = author(one)
            yield step_id
        yield "  ".join(("", one_line(one.name, PATH_LENGTH).ljust(width), *_facts(one)))
    added, removed = sum(one.diff.added for one in shown), sum(one.diff.removed for one in shown)
    files = counted(len({one.path for one in shown}), "file")
    yield f"{files}, +{added} -{removed}" if shown else "no recorded step changed a file"


def _facts(change: ChangedFile) -> Iterator[str]:
    yield f"+{change.diff.added} -{change.diff.removed}"
    if change.standing is not FileState.OPEN:
        yield change.standing.value
