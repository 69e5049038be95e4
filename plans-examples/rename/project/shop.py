"""What a customer is about to buy."""


def price(basket: dict[str, int]) -> int:
    """The price of a basket, in cents."""
    return sum(basket.values())
