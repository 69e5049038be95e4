"""What is in the store."""


def left(stored: dict[str, int], sold: dict[str, int]) -> dict[str, int]:
    """What is left of each thing; what was never stored is not listed."""
    return {name: stored[name] - count for name, count in sold.items() if name in stored}
