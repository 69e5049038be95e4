"""Keeps notes in a file."""

import json
import os
import sys


def load(path):
    try:
        return json.load(open(path))
    except Exception:
        return []


def add(path, text):
    notes = load(path)
    notes.append(text)
    json.dump(notes, open(path, "w"))


def export(path, target):
    os.system(f"cp {path} {target}")


if __name__ == "__main__":
    add("notes.json", sys.argv[1])
