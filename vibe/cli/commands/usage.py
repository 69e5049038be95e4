"""``vibe usage``: sums up the tokens and money that conversations and plans have used."""

from __future__ import annotations

import time

from vibe.app.inspect.usage import usage_summary
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.core.messages import Spending
from vibe.system.plain_text import counted, one_line

DAY_SECONDS = 86_400.0
KEY_LENGTH = 60


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print a line for each model, project, day or plan, and the total."""
    found = usage_summary(env.home, args.by, time.time() - args.days * DAY_SECONDS)
    named = [(one_line(key, KEY_LENGTH) if key else f"(no {args.by})", spent) for key, spent in found.rows]
    named.append(("total", found.total))
    width = max(len(key) for key, _ in named)
    lines = [f"{key:<{width}}  {_figures(spent)}" for key, spent in named]
    none = f"nothing was used in the last {args.days} days, as far as is kept"
    env.answer(args, found.as_document(), lines if found.rows else [none])
    for note in found.notes:
        env.tell(one_line(note, 1_000))


def _figures(spent: Spending) -> str:
    usage = spent.usage
    cost = "cost unknown" if spent.cost_usd is None else f"${spent.cost_usd:,.4f}"
    tokens = f"{usage.prompt_tokens:,} in ({usage.cached_tokens:,} cached), {usage.completion_tokens:,} out"
    return f"{counted(usage.calls, 'call')}  {tokens}  {cost}"
