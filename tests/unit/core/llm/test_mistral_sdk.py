"""Mistral's SDK is imported without the parts that this program does not use."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

UNUSED = ("opentelemetry", "cryptography", "mistralai.client._hooks.registration")


def probed(code: str) -> dict[str, object]:
    probe = (
        "import json, sys\nfrom vibe.core.llm.backend import mistral\n"
        f"{code}\nsdk = mistral.import_sdk()(api_key='k', server_url='http://127.0.0.1:1')\n"
        "hooks = sdk.sdk_configuration.__dict__['_hooks'].before_request_hooks\n"
        f"loaded = [name for name in {UNUSED!r} if name in sys.modules]\n"
        "print(json.dumps({'chat': type(sdk.chat).__name__, 'hooks': len(hooks), 'loaded': loaded}))"
    )
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, timeout=120)
    return json.loads(done.stdout)


@pytest.mark.parametrize("before", ["", "mistral.import_sdk()"])
def test_the_sdk_comes_without_its_hooks(before: str) -> None:
    assert probed(before) == {"chat": "Chat", "hooks": 0, "loaded": []}


def test_an_sdk_that_is_laid_out_otherwise_comes_with_all_it_has() -> None:
    found = probed("mistral.HOOKS = 'mistralai.client._hooks.types'")

    assert found["chat"] == "Chat"
    assert found["hooks"]
    assert found["loaded"] == list(UNUSED)
