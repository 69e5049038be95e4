"""``vibe models``: lists the configured models, and the models that their providers offer."""

from __future__ import annotations

from msgspec import to_builtins

from vibe.app.inspect.model_listing import ConfiguredModel, ModelListing, ModelOffer, list_models
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.system.plain_text import one_line

LONGEST = 400


def run(args: Arguments, env: CliEnvironment) -> int:
    """List the models; the exit code is 3 if a provider could not be asked."""
    listing = list_models(env, args.workdir, trust=args.trust, online=args.online, only=args.provider or "")
    document = {"configured": to_builtins(listing.configured), "offers": to_builtins(listing.offers)}
    env.answer(args, document, _lines(listing))
    env.warn(listing.warnings)
    return ExitCode.ENVIRONMENT if any(offer.problem for offer in listing.offers) else ExitCode.DONE


def _lines(listing: ModelListing) -> list[str]:
    width = max((len(entry.alias) for entry in listing.configured), default=0)
    lines = [_configured_line(entry, width) for entry in listing.configured]
    for offer in listing.offers:
        lines += [""] * bool(lines) + _offer_lines(offer)
    return lines


def _configured_line(entry: ConfiguredModel, width: int) -> str:
    named = "" if entry.name == entry.alias else f" as {entry.name}"
    missing = f"  ({entry.missing})" if entry.missing else ""
    about = one_line(f"{entry.provider}{named}{missing}", LONGEST)
    return f"{'*' if entry.active else ' '} {one_line(entry.alias, LONGEST):<{width}}  {about}"


def _offer_lines(offer: ModelOffer) -> list[str]:
    if offer.problem:
        return [one_line(f"{offer.provider}: {offer.problem}", LONGEST)]
    if not offer.models:
        return [one_line(f"{offer.provider} offers no model", LONGEST)]
    return [f"{one_line(offer.provider, LONGEST)} offers:", *(f"  {one_line(name, LONGEST)}" for name in offer.models)]
