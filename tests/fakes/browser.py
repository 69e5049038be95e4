"""A stand-in for a browser that opens an address and follows all redirects: ``python browser.py ADDRESS``."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request


def visited(address: str) -> tuple[int, str]:
    """Return the status and text of the page that an address leads to."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(address, timeout=30) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


if __name__ == "__main__":
    visited(sys.argv[1])
