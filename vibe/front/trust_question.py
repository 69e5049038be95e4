"""Asks whether to trust a folder whose files instruct agents or run programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from anyio import to_thread

from vibe.app.engine.host import Host
from vibe.core.config.paths import project_lineage, shown
from vibe.core.config.trust import TrustStore, powers
from vibe.core.tools.questions import Choice, Question, UserInput
from vibe.system.errors import ConfigError, VibeError
from vibe.system.own_places import user_home_of

_TRUSTED: Final = "it instructs the agent and can run programs, now and later"


async def ask_for_trust(host: Host, workdir: Path, ask: UserInput, refuse: Callable[[str], object]) -> bool:
    """Ask once whether to load the project's own settings and instructions; return True if the answer is yes.

    Nothing is asked if this is already decided. ``refuse`` is called with the reason if the answer could not be saved.
    """
    user_home = user_home_of(host.environ)
    try:
        found = await to_thread.run_sync(TrustStore(host.home, user_home=user_home).undecided, workdir)
    except ConfigError:
        return False  # opening the conversation reports this
    lineage = project_lineage(workdir, user_home)
    if not found or not lineage:
        return False
    here, root = lineage[0], lineage[-1]
    names = [str(path.relative_to(here)) if path.is_relative_to(here) else shown(path, user_home) for path in found]
    trusts = {f"trust {shown(folder, user_home)}": folder for folder in dict.fromkeys((here, root))}
    options = [Choice(label=label, description=_TRUSTED) for label in trusts]
    taken = "; ".join(await to_thread.run_sync(powers, lineage, user_home))
    granting = f" With its settings, {taken}." if taken else ""
    question = Question(
        question=f"This project brings {', '.join(names)}.{granting} Load {'it' if len(names) == 1 else 'them'}?",
        header="Trust",
        options=[*options, Choice(label="no", description="work without; `vibe trust add` changes that")],
    )
    answers = await ask([question])
    if not answers or answers[0].is_other:
        return False  # the question comes again next time
    file, trusted = TrustStore(host.home, user_home=user_home), trusts.get(answers[0].answer)
    try:
        if trusted is not None:
            await to_thread.run_sync(file.add, trusted)
        if trusted != root:
            await to_thread.run_sync(file.refuse, root)
    except VibeError as error:
        refuse(f"{error}")
        return False
    return trusted is not None
