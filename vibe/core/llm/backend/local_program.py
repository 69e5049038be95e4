"""A separate program (``python -I``) that serves one model file over HTTP on this machine until its input ends.

It imports nothing of ours. The first line of its input is JSON: ``model_path``, ``context``, ``threads`` and
``token``, which every request must carry. Its output is one line of JSON: the ``address`` or the ``problem``. Its
parent holds the other end of its input, so this program ends when the parent does, however that happens.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
import time
from typing import Any

LOG_SECONDS = 0.3
"""Seconds the engine has to log an error, which it does in a thread of its own."""


def main() -> None:
    """Serve until the input ends; never returns."""
    settings = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    try:
        engine: Any = importlib.import_module("xllamacpp")  # by name: it is an optional extra, and has no types
        server = engine.Server(_parameters(engine.CommonParams(), settings))
    except Exception as error:  # noqa: BLE001  the parent process reports it
        time.sleep(LOG_SECONDS)
        _send({"problem": f"{type(error).__name__}: {error}"})
        os._exit(1)
    _send({"address": server.listening_address})
    threading.Event().wait()


def _parameters(wanted: Any, settings: dict[str, Any]) -> Any:
    wanted.model.path = settings["model_path"]
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = 0
    wanted.api_keys = [settings["token"]]
    wanted.n_ctx = settings["context"]
    wanted.n_parallel = 1
    for one in (wanted.cpuparams, wanted.cpuparams_batch):
        one.n_threads = settings["threads"]
        one.poll = 0
    wanted.use_jinja = True
    wanted.offline = True
    wanted.warmup = False
    wanted.ui = False
    wanted.verbosity = 1
    return wanted


def _send(what: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _exit_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    main()
