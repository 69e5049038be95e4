from __future__ import annotations

import shlex
import sys

import pytest

from tests.integration.shell.sandbox.lab import tried

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


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_nobody_can_write_a_setting_of_the_machine(backend: str, who: str) -> None:
    settings = "$(find /proc/sys /proc/irq /proc/sysrq-trigger -type f -perm /u=w 2>/dev/null)"
    line = f"{{ for f in {settings}; do : >> $f && echo $f; done; }} 2>/dev/null | head -3; echo tried"
    assert tried(backend, who, [line]).outputs == ["tried\n"]


@pytest.mark.parametrize("who", ["user", "root"])
def test_a_process_can_still_set_what_is_its_own(who: str) -> None:
    line = "cat /proc/self/oom_score_adj > /proc/self/oom_score_adj && echo set"
    assert tried("bubblewrap", who, [line]).outputs == ["set\n"]


CONNECT = "python3 -I -c \"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{}'); print('REA' + 'CHED')\""
LISTEN = (
    "import os, socket, sys\nfor path in sys.argv[1:]:\n os.makedirs(os.path.dirname(path), exist_ok=True)\n"
    " s = socket.socket(socket.AF_UNIX); s.bind(path); s.listen(); os.dup(s.fileno())\n"
    "if os.fork(): os._exit(0)\nos.setsid(); os.close(1); os.close(2)\nimport time; time.sleep(600)"
)
SOCKETS = ("/mnt/home/.password agent/s", "/mnt/home/.local/share/engine.sock", "/mnt/opt/daemon/sock", "/mnt/tmp/x")


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_a_socket_that_somebody_listens_at_is_out_of_reach(backend: str) -> None:
    before = f"python3 -I -c {shlex.quote(LISTEN)} {shlex.join(SOCKETS)} </dev/null"
    result = tried(backend, "user", [CONNECT.format(path) for path in SOCKETS], before=before)
    assert "REACHED" not in "".join(result.outputs)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_the_terminals_of_others_are_out_of_reach(backend: str) -> None:
    before = 'python3 -I -c \'import os, pty; pid, fd = pty.fork(); pid or os.execlp("sleep", "sleep", "600"); os.fork() and os._exit(0); __import__("time").sleep(600)\' >/dev/null 2>&1 </dev/null'
    lines = [
        "for t in /dev/pts/[0-9]*; do echo x > $t && echo REACHED; cat < $t & done; :",
        "ls /dev/pts /proc/*/fd 2>&1 | wc -l",
    ]
    result = tried(backend, "user", lines, before=before)
    assert "REACHED" not in result.outputs[0]


def test_a_command_is_bounded() -> None:
    settings = '{"max_processes": 30, "max_memory_mb": 200, "max_file_mb": 1}'
    lines = [
        "for i in $(seq 60); do sleep 5 & done; jobs | wc -l; kill $(jobs -p)",
        'python3 -I -c "x = bytearray(400_000_000)"',
        "head -c 3M /dev/zero > large",
    ]
    result = tried("bubblewrap", "user", lines, settings=settings)
    assert "fork" in result.outputs[0]
    assert result.codes[1:] != [0, 0]
    assert 0 not in result.codes[1:]
    assert len(result.files["work/large"]) <= 1024 * 1024


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_secrets_in_a_folder_that_may_be_written_stay_out_of_reach(backend: str, who: str) -> None:
    lines = [
        "cat /mnt/home/.vibe/config.toml /mnt/home/.ssh/id /mnt/home/.netrc",
        "echo changed > /mnt/home/.vibe/config.toml; echo changed > /mnt/home/.ssh/authorized_keys; echo changed > /mnt/home/.netrc",
        "mv /mnt/home/.vibe /mnt/home/v; mv /mnt/home/.ssh /mnt/home/code/s; ln /mnt/home/.netrc /mnt/home/code/n; cat /mnt/home/code/n",
        "rm -rf /mnt/home/.vibe /mnt/home/.ssh /mnt/home/.netrc",
        "echo mine > /mnt/home/code/new && cat /mnt/home/code/new",
    ]
    before = "cd ../home; mkdir code; echo SECRET > .ssh/id; echo SECRET > .netrc"
    result = tried(backend, who, lines, before=before, settings='{"writable": ["/mnt/home"]}')
    assert "SECRET" not in "".join(result.outputs)
    kept = {
        name: text.strip() for name, text in result.files.items() if name.startswith("home/.") and "/kept/" not in name
    }
    assert kept == dict.fromkeys(["home/.vibe/config.toml", "home/.ssh/id", "home/.netrc"], "SECRET")
    assert result.outputs[-1] == "mine\n"


DATAGRAMS = (
    "import os, socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.bind('/mnt/home/log')\n"
    "a = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); a.bind('\\0log')\n"
    "if os.fork(): os._exit(0)\nos.setsid(); os.close(1); os.close(2)\n"
    "import select\n"
    "while True:\n for one in select.select([s, a], [], [])[0]: open('/mnt/got', 'ab').write(one.recv(99))"
)
SEND = (
    "import socket\nfor kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):\n for to in ('/mnt/home/log', '\\0log'):\n"
    "  try: socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b'x', to); print('REA' + 'CHED', kind, to)\n"
    "  except OSError as error: print(error)"
)


@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_half_of_a_pair_of_sockets_reaches_nobody_else(backend: str) -> None:
    before = f"python3 -I -c {shlex.quote(DATAGRAMS)} </dev/null"
    lines = [
        f"python3 -I -c {shlex.quote(SEND)}",
        "python3 -I -c 'import socket; a, b = socket.socketpair(); a.send(b\"fine\"); print(b.recv(9))'",
    ]
    result = tried(backend, "user", lines, before=before)
    assert "REACHED" not in result.outputs[0]
    assert "got" not in result.files
    assert result.outputs[1] == "b'fine'\n"


OTHERS = (
    (  # the numbers of x86_64's second table: a socket, and ptrace
        "python3 -I -c 'import ctypes; c = ctypes.CDLL(None, use_errno=True); "
        'print("REA" + "CHED" if c.syscall(0x40000029, 1, 1, 0) >= 0 or c.syscall(0x40000209, 0, 0, 0, 0) >= 0 else "")\''
    ),
    "for p in $(pgrep -x sleep); do kill -9 $p && echo REACHED; done",
    "for p in /proc/[0-9]*; do n=${p#/proc/}; [ $n = $$ ] || { grep -qz MARKED=1 $p/environ && cat $p/environ; }; done; :",
    (
        "for p in $(pgrep -x sleep); do echo x > /proc/$p/root/mnt/outside; echo x > /proc/$p/cwd/../outside; "
        "echo x > /proc/$p/mem; echo 1 > /proc/$p/oom_score_adj && echo REACHED; cat /proc/$p/maps && echo REACHED; done"
    ),
    "ls -l /proc/self/fd | grep -v -e pipe -e /dev/null -e /proc -e '/tmp/' -e total -e socket",
    "ln ../outside hard && echo changed > hard; ln -s ../outside soft && echo changed > soft; mv ../outside here",
    "echo changed > given; rm -f given; mv -f sub ../moved; ls ../moved",
    'python3 -I -c \'import fcntl, termios; [fcntl.ioctl(0, termios.TIOCSTI, b) for b in [b"x"]]; print("REA" + "CHED")\'',
)


@pytest.mark.parametrize("who", ["root", "user"])
@pytest.mark.parametrize("backend", ["bubblewrap", "landlock"])
def test_others_and_what_is_theirs_are_out_of_reach(backend: str, who: str) -> None:
    before = "mkdir sub; MARKED=1 setsid sleep 600 </dev/null >/dev/null 2>&1 & sleep 0"
    result = tried(backend, who, OTHERS, before=before)
    assert "REACHED" not in "".join(result.outputs)
    assert "MARKED=1" not in result.outputs[2]
    assert result.files["outside"] == "as it was"
    assert "moved" not in result.files
