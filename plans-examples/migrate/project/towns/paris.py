import old_api


def weather():
    return old_api.fetch("Paris", timeout=3)
