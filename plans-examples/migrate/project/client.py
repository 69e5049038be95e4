def get(name):
    return {"text": f"{name}: sunny"}
