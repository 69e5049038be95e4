"""What a cart costs, in cents."""


def total(prices: list[int], discount_percent: int = 0) -> int:
    """The sum, less a discount, rounded to the cent in the buyer's favour."""
    return sum(prices) - sum(prices) * discount_percent // 100


def in_words(cents: int) -> str:
    """An amount as a person reads it."""
    return f"${cents // 100}.{cents % 100}"
