"""``vibe permissions explain TOOL ARGS``: explains the decision about a call, and its rule."""

from __future__ import annotations

import json
from typing import Any, TextIO, cast

from vibe.app.engine.build import EngineRequest
from vibe.app.inspect.permissions import PermissionCheck, given_arguments
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.parser import CommandLineError
from vibe.core.tools.errors import ToolArgumentsError
from vibe.core.tools.permissions import PermissionDecision, Ruling
from vibe.front.listings import decision_line
from vibe.system.errors import error_as


def run_explain(args: Arguments, env: CliEnvironment) -> None:
    """Print the decision about the call, or one decision per line of stdin."""
    wanted, extra_roots = EngineRequest(**args.named_in(EngineRequest)), args.extra_roots
    check = PermissionCheck.of(args.tool, wanted, env, extra_roots=extra_roots, auto_approve=args.auto_approve)
    if args.arguments == "-":
        _answer_lines(check, env)
        return
    with error_as(ToolArgumentsError, lambda error: CommandLineError(str(error))):
        decision = check.decide(given_arguments(args.arguments))
    env.stdout.write(_as_json(decision) if args.json else f"{decision_line(decision)}\n")


def _answer_lines(check: PermissionCheck, env: CliEnvironment) -> None:
    """Answer each line before reading the next, for programs that wait for the answer."""
    lines: TextIO = env.stdin
    for line in iter(lines.readline, ""):
        if not line.strip():
            continue
        env.stdout.write(_as_json(_decide_line(check, line)))
        env.stdout.flush()


def _decide_line(check: PermissionCheck, line: str) -> PermissionDecision:
    problem = "the line is neither a JSON string nor an object"
    try:
        given: object = json.loads(line)
        if isinstance(given, str | dict):
            return check.decide(cast("str | dict[str, Any]", given))
    except (ValueError, RecursionError) as error:
        problem = f"the line is not JSON: {error}"
    except ToolArgumentsError as error:
        problem = str(error)
    return PermissionDecision(ruling=Ruling.DENY, rule="invalid", reason=problem)


def _as_json(decision: PermissionDecision) -> str:
    return json.dumps({"decision": decision.ruling.value, "rule": decision.rule, "reason": decision.reason}) + "\n"
