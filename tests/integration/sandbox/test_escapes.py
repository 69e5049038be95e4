from __future__ import annotations

import sys

import pytest

from tests.integration.sandbox.lab import tried

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there are sandboxes for Linux only")

MOUNTS = (
    "mount -o remount,bind,rw /; mount -o remount,bind,rw /mnt; echo changed > /mnt/outside",
    "umount /mnt/home/.vibe; umount -l /mnt/home; cat /mnt/home/.vibe/config.toml",
    "mount -t tmpfs none /mnt/work && mount --bind / /mnt/work",
    "mkdir -p up; unshare -Urm sh -c 'mount -o remount,bind,rw /mnt; umount -l /mnt/home/.vibe; echo changed > /mnt/outside'",
    "nsenter -t 1 -m sh -c 'echo changed > /mnt/outside'",
    "chroot /proc/1/root sh -c 'echo changed > /mnt/outside'",
    "python3 -c \"import os; os.chroot('/proc/1/root')\" && echo out",
    "mknod disk b 259 0",
    "chown 1 /mnt/outside; chmod 777 /mnt/outside; rm /mnt/outside",
    "hostname changed; ip link set lo down",
)


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_nobody_mounts_or_unmounts_a_way_out(backend: str, who: str) -> None:
    result = tried(backend, who, MOUNTS)
    assert "SECRET" not in "".join(result.outputs)
    assert result.files["outside"] == "as it was"


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_nobody_has_a_capability(backend: str, who: str) -> None:
    result = tried(backend, who, ["grep -E '^Cap(Prm|Eff|Bnd)' /proc/self/status"])
    assert set(result.outputs[0].split()[1::2]) == {"0000000000000000"}
