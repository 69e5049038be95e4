"""Headless Chromium, driven over its DevTools protocol: pages as a person sees them."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
"""The path of Chromium, or None if it is not installed."""
OTHER_NAME = "vibe.test"
"""A name that the browser resolves to this machine. It does not treat plain HTTP from there as secure."""
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--force-prefers-reduced-motion",  # spinners are painted sixty times a second
    f"--host-resolver-rules=MAP {OTHER_NAME} 127.0.0.1",
    "--remote-debugging-port=0",
)
SECONDS = 15.0
MOST_MISSED = 20
AIMING = (
    "window.aimed === undefined && ['mousedown', 'mouseup', 'click'].forEach((kind) => addEventListener(kind,"
    "(event) => { if (!window.aimed || aimed.contains(event.target)) return; window.isMissed = true;"
    "event.stopImmediatePropagation(); event.preventDefault() }, true))"
)
"""A script that keeps a click from whatever is not the element it is meant for, which may move as one clicks."""
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), " ": ("Space", 32, " "), "Tab": ("Tab", 9, "")}


class PageGone(AssertionError):
    """The page that was asked is gone: it was reloaded or closed."""


class Page:
    """A page of a browser. ``said`` lists its console messages, including errors and policy reports."""

    def __init__(self, connection: ClientConnection, session: str) -> None:
        self.said: list[str] = []
        self._connection = connection
        self._session = session
        self._number = 0
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": arguments, "sessionId": self._session}
        self._connection.send(json.dumps(message))
        while True:
            heard = json.loads(self._connection.recv(2 * SECONDS))
            if heard.get("sessionId") != self._session:
                continue
            if heard.get("id") == self._number:
                if "error" in heard:
                    is_gone = "navigated" in heard["error"]["message"]
                    raise (PageGone if is_gone else AssertionError)(method, heard["error"])
                return heard["result"]
            self._note(heard.get("method", ""), heard.get("params", {}))

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Runtime.consoleAPICalled":
            self.said.append(" ".join(str(one.get("value", one.get("description"))) for one in told["args"]))
        elif method == "Runtime.exceptionThrown":
            details = told["exceptionDetails"]
            self.said.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.said.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """Return the value of an expression, awaited if it is a promise."""
        told = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in told, (script, told["exceptionDetails"])
        return told["result"].get("value")

    def wait(self, script: str, seconds: float = SECONDS) -> Any:
        """Wait until an expression is true, checking every 15 ms, and return its value."""
        waits = (
            "new Promise((done) => { const look = () => { let found; try { found = " + script + " } catch { }"
            "if (found || performance.now() > {end}) done(found instanceof Node || found);"
            "else setTimeout(look, 15) }; look() })"
        )
        try:
            found = self.run(waits.replace("{end}", f"{self.run('performance.now()') + seconds * 1000}"))
        except PageGone:
            return self.wait(script, seconds)
        assert found, f"never was: {script}\n{self.said}\n{self.run('document.body.innerText')[:4000]}"
        return found

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        for key in keys:
            code, number, text = KEYS.get(key, (f"Key{key.upper()}", ord(key[0].upper()), key if len(key) == 1 else ""))
            told = {"key": key, "code": code, "windowsVirtualKeyCode": number, "text": text}
            self.call("Input.dispatchKeyEvent", type="keyDown", **told)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=code)

    def type(self, text: str) -> None:
        """Type a text by its keys into the focused element."""
        self.press(*text)

    def click(self, selector: str, *, shift: bool = False) -> None:
        """Click in the middle of the first visible, enabled element, again if it moved away meanwhile."""
        self.run(AIMING)
        for _ in range(MOST_MISSED):
            found = self.wait(
                f"(() => {{ const one = [...document.querySelectorAll({json.dumps(selector)})].find((one) =>"
                "one.getClientRects().length && !one.disabled); if (!one) return null;"
                "one.scrollIntoView({ block: 'nearest', behavior: 'instant' }); const at = one.getBoundingClientRect();"
                "window.aimed = one; window.isMissed = false; return [at.x + at.width / 2, at.y + at.height / 2] })()"
            )
            told = {"x": found[0], "y": found[1], "button": "left", "clickCount": 1, "modifiers": 8 if shift else 0}
            self.call("Input.dispatchMouseEvent", type="mousePressed", **told)
            self.call("Input.dispatchMouseEvent", type="mouseReleased", **told)
            try:
                if not self.run("(window.aimed = null, window.isMissed)"):
                    return
            except PageGone:
                return
        raise AssertionError(f"something else lies over {selector}, or it never stands still")

    def look(self, width: int, height: int, *, dark: bool = False, motion: bool = False) -> None:
        """Set the window's size, its colour scheme and its motion."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        """Write a screenshot to a PNG file."""
        told = self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(told["data"]))


class Browser:
    """A running Chromium."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def page(self, url: str = "about:blank") -> Page:
        """Open a page."""
        page = self._attached(self._call("Target.createTarget", url="about:blank")["targetId"])
        if url != "about:blank":
            page.open(url)
        return page

    def opened(self, part: str, kind: str = "page") -> Page:
        """Return the page, or the ``iframe``, whose address contains ``part``, waiting until it was opened."""
        for _ in range(int(SECONDS * 20)):
            for one in self._call("Target.getTargets")["targetInfos"]:
                if one["type"] == kind and part in one["url"]:
                    return self._attached(one["targetId"])
        raise AssertionError(f"no page was opened at {part}")

    def _attached(self, target: str) -> Page:
        return Page(self._connection, self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])

    def _call(self, method: str, **arguments: Any) -> dict[str, Any]:
        self._connection.send(json.dumps({"id": 0, "method": method, "params": arguments}))
        while True:
            heard = json.loads(self._connection.recv(2 * SECONDS))
            if heard.get("id") == 0 and "sessionId" not in heard:
                return heard["result"]


@contextmanager
def chromium(folder: Path) -> Generator[Browser]:
    """Run a Chromium that keeps its files in a folder."""
    assert PROGRAM is not None
    command = [PROGRAM, *FLAGS, f"--user-data-dir={folder}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stderr is not None
            told = next(line for line in process.stderr if line.startswith("DevTools listening on "))
            with connect(told.split()[-1], max_size=None, compression=None) as connection:
                yield Browser(connection)
        finally:
            process.terminate()
