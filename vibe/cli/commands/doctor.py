"""``vibe doctor``: checks what runs depend on on this machine."""

from __future__ import annotations

from vibe.app.engine.settings import Settings
from vibe.app.inspect.diagnosis import CheckState, Finding, diagnose
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.system.plain_text import one_line

DETAIL_LENGTH = 600
MARKS = {CheckState.OK: "ok  ", CheckState.WARNING: "warn", CheckState.FAILED: "FAIL"}


def run(args: Arguments, env: CliEnvironment) -> int:
    """Print the findings; the exit code is 3 if one of them would make runs fail."""
    findings = [*diagnose(env, args.workdir, trust=args.trust, online=args.online)]
    if args.cluster:
        from vibe.app.cluster.address import check_installed

        check_installed()
        from vibe.app.inspect.cluster import cluster_findings  # noqa: PLC0415  imports Dask

        config = Settings(env, args.workdir, trust=args.trust).load().config
        findings += cluster_findings(config.cluster, config.sandbox.mode, env.environ)
    rows = [{"subject": f.subject, "state": f.state.value, "detail": f.detail} for f in findings]
    env.answer(args, {"findings": rows}, map(_line, findings))
    return ExitCode.ENVIRONMENT if any(f.state is CheckState.FAILED for f in findings) else ExitCode.DONE


def _line(finding: Finding) -> str:
    return f"{MARKS[finding.state]} {finding.subject:<8} {one_line(finding.detail, DETAIL_LENGTH)}"
