from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.shell.policy import shell_lab
from tests.unit.shell.policy.shell_lab import ShellLab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> ShellLab:
    return shell_lab.build(tmp_path_factory.mktemp("lab") / "lab")


def test_no_capability_is_left_and_none_can_be_had(lab: ShellLab) -> None:
    capabilities = lab.run("grep -h ^Cap /proc/self/status").split()[1::2]
    assert capabilities
    assert set(capabilities) == {"0" * 16}
    assert "failed" in lab.run("unshare --user --map-root-user true")
    assert lab.run("grep NoNewPrivs /proc/self/status").split() == ["NoNewPrivs:", "1"]


@pytest.mark.parametrize("kind", ["mnt", "pid", "net", "uts", "ipc", "user", "cgroup"])
def test_every_namespace_is_its_own(kind: str, lab: ShellLab) -> None:
    inside = lab.run(f"readlink /proc/self/ns/{kind}").strip()
    assert inside.startswith(f"{kind}:[")
    assert inside != str(Path(f"/proc/self/ns/{kind}").readlink())


def test_nothing_of_this_machine_can_be_written_or_seen_but_its_programs(lab: ShellLab, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("theirs")
    lab.run(f"echo x > {tmp_path}/new; rm -rf {tmp_path}; touch /usr/x {os.path.realpath('/bin')}/x")
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert not Path("/usr/x").exists()
    assert lab.run(f"cat {tmp_path}/kept /etc/shadow /etc/hosts {Path(__file__)} 2>/dev/null") == ""
    assert (
        lab.run("find /dev -type b; ls -d /sys /run 2>/dev/null; mount --bind /tmp /usr 2>/dev/null && echo mounted")
        == ""
    )
    assert lab.run("ls -d /proc/[0-9]* | wc -l").strip() in {"2", "3", "4"}
    assert lab.run("cat /proc/net/route | wc -l").strip() in {"0", "1"}


def test_what_a_line_leaves_running_ends_with_it(lab: ShellLab) -> None:
    lab.run("setsid sh -c 'sleep 1000; touch late' > /dev/null 2>&1 &")
    assert "late" not in lab.run("ls; pgrep -x sleep && echo late")
