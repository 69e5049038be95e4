import old_api


def weather():
    return old_api.fetch("Oslo", timeout=3)
