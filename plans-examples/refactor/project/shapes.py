"""Areas and outlines of shapes."""

import math


def circle_area(radius: float) -> float:
    return math.pi * radius**2


def circle_outline(radius: float) -> float:
    return 2 * math.pi * radius


# Rectangles with equal sides.


def square_area(side: float) -> float:
    return side**2


def square_outline(side: float) -> float:
    return 4 * side
