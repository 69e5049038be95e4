import old_api


def weather():
    return old_api.fetch("Lima", timeout=3)
