def miles(kilometres: float) -> float:
    return round(kilometres / 1.609344, 2)


def feet(metres: float) -> float:
    return round(metres / 0.3048, 2)
