"""Greets people."""


def greeting(name: str, family: str = "") -> str:
    """A greeting, formal where a family name is given."""
    return f"Good day, {family}." if family else f"Hello, {name}!"
