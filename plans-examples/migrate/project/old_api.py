def fetch(name, timeout):
    return f"{name}: sunny"
