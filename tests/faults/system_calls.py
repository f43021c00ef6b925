"""The file-system calls of a process, as the kernel sees them, each of which can be made to go wrong.

A process asks the kernel (seccomp's user notification) to hold each of its calls that change files until its parent has
looked at it. So whatever makes the call is seen: Python, Arrow, safetensors, FFmpeg, the C library, other threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import struct
from dataclasses import dataclass
from pathlib import Path

# Numbers of x86-64 and where the arguments are: (folder's descriptor or None, path), or the descriptor of an open file.
BY_PATH: dict[int, tuple[str, int | None, int]] = {
    2: ("open", None, 0),
    85: ("open", None, 0),  # creat
    257: ("open", 0, 1),
    82: ("rename", None, 0),
    264: ("rename", 0, 1),
    316: ("rename", 0, 1),
    86: ("link", None, 1),
    265: ("link", 2, 3),
    88: ("symlink", None, 1),
    266: ("symlink", 1, 2),
    83: ("mkdir", None, 0),
    258: ("mkdir", 0, 1),
    84: ("rmdir", None, 0),
    87: ("unlink", None, 0),
    263: ("unlink", 0, 1),
    76: ("truncate", None, 0),
}
BY_DESCRIPTOR: dict[int, str] = {
    1: "write",
    18: "write",  # pwrite64
    20: "write",  # writev
    296: "write",  # pwritev
    40: "copy",  # sendfile
    77: "truncate",
    285: "allocate",
    74: "sync",
    75: "sync",
}
COPY_FILE_RANGE = 326
NUMBERS = (*BY_PATH, *BY_DESCRIPTOR, COPY_FILE_RANGE)
FLAGS_ARGUMENT = {2: 1, 257: 2}
CREATING = ("open", "rename", "link", "symlink", "mkdir", "truncate", "write", "copy", "allocate", "sync")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
AT_CURRENT_FOLDER = -100

_SECCOMP, _SET_FILTER, _NEW_LISTENER = 317, 1, 8
_GET_DESCRIPTOR, _OPEN_PROCESS = 438, 434
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_NOTICE, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
_CONTINUE = 1
_LOAD, _JUMP, _IF_EQUAL, _IF_ANY, _RETURN = 0x20, 0x05, 0x15, 0x45, 0x06  # instructions of the kernel's filters
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Call:
    """One call of the watched process."""

    event: str
    path: str
    size: int = 0  # of what is written

    @property
    def faults(self) -> tuple[str, ...]:
        """How it can go wrong: the process is killed before it, the disk is full, or it is killed half-way."""
        full = ("full",) if self.event in CREATING else ()
        return ("kill", *full, *(("torn",) if self.size > 1 else ()))


def watch_this_process() -> int:
    """Have every later call of this process and its children wait for an answer; the descriptor that is asked there."""
    program = _filter()
    code = ctypes.create_string_buffer(b"".join(program))
    description = struct.pack("=HxxxxxxQ", len(program), ctypes.addressof(code))
    _libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS, without which only root may
    descriptor = int(_libc.syscall(_SECCOMP, _SET_FILTER, _NEW_LISTENER, description))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "the kernel does not let its calls be watched (seccomp)")
    return descriptor


def _filter() -> list[bytes]:
    """The kernel's program: ask for these calls, but for opening only where something could be written."""
    go_on, ask = 0x7FFF0000, 0x7FC00000
    end = 1 + len(NUMBERS)  # where the comparisons end
    targets = dict.fromkeys(NUMBERS, end + 1) | {2: end + 2, 257: end + 4}
    program = [_instruction(_LOAD, 0, 0, 0)]  # the call's number
    program += [_instruction(_IF_EQUAL, targets[n] - place, 0, n) for place, n in enumerate(NUMBERS, start=2)]
    program += [_instruction(_RETURN, 0, 0, go_on), _instruction(_RETURN, 0, 0, ask)]
    program += [_instruction(_LOAD, 0, 0, 16 + 8 * FLAGS_ARGUMENT[2]), _instruction(_JUMP, 0, 0, 1)]
    program += [_instruction(_LOAD, 0, 0, 16 + 8 * FLAGS_ARGUMENT[257]), _instruction(_IF_ANY, 1, 0, WRITING)]
    return [*program, _instruction(_RETURN, 0, 0, go_on), _instruction(_RETURN, 0, 0, ask)]


def _instruction(code: int, if_true: int, if_false: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


class Supervisor:
    """Answers the calls of a watched process: notes those below ``root``, and strikes at one of them."""

    def __init__(self, root: str, number: int | None = None, fault: str = "") -> None:
        self.root, self.number, self.fault = root, number, fault
        self.calls: list[Call] = []

    def serve(self, listener: int) -> None:
        """Until no process is left that could ask."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while not any(event & select.POLLHUP for _, event in poll.poll()):
            notice = bytearray(_NOTICE.size)
            with contextlib.suppress(FileNotFoundError):  # the process died meanwhile
                fcntl.ioctl(listener, _RECEIVE, notice)
                token, process, _, number, _, _, *arguments = _NOTICE.unpack(notice)
                error = self._look(_Request(process, number, tuple(arguments)))
                flags = 0 if error else _CONTINUE
                fcntl.ioctl(listener, _SEND, _ANSWER.pack(token, 0, -error, flags))
        os.close(listener)

    def _look(self, request: _Request) -> int:
        """Zero to let the call happen, otherwise its error."""
        if self.number is not None and len(self.calls) > self.number:
            return 0  # struck already
        call = request.call()
        if call is None or not call.path.startswith(self.root):
            return 0
        self.calls.append(call)
        if len(self.calls) - 1 != self.number:
            return 0
        if self.fault == "full":
            return errno.ENOSPC
        if self.fault == "torn" and call.size > 1:  # logs that go by the clock may have moved the call's number
            request.write_half()
        os.kill(request.process, signal.SIGKILL)
        return errno.EINTR


@dataclass(frozen=True)
class _Request:
    """A call that waits."""

    process: int
    number: int
    arguments: tuple[int, ...]

    def call(self) -> Call | None:
        """What it would change; None if it changes nothing."""
        if self.number in BY_PATH:
            event, folder, path = BY_PATH[self.number]
            flags = FLAGS_ARGUMENT.get(self.number)
            if flags is not None and not self.arguments[flags] & WRITING:
                return None
            return Call(event, self._path(folder, path))
        if self.number == COPY_FILE_RANGE:
            return Call("copy", self._link(f"fd/{self.arguments[2]}"))
        event = BY_DESCRIPTOR[self.number]
        size = self.arguments[2] if self.number in (1, 18) else 0
        return Call(event, self._link(f"fd/{self.arguments[0]}"), size)

    def _path(self, folder: int | None, path: int) -> str:
        descriptor = AT_CURRENT_FOLDER if folder is None else ctypes.c_int(self.arguments[folder] & 0xFFFFFFFF).value
        base = "cwd" if descriptor == AT_CURRENT_FOLDER else f"fd/{descriptor}"
        name = os.fsdecode(self._memory(self.arguments[path], 4096).split(b"\0")[0])
        return name if name.startswith("/") else f"{self._link(base)}/{name}"

    def _link(self, name: str) -> str:
        try:
            return str(Path(f"/proc/{self.process}/{name}").readlink())
        except FileNotFoundError:
            return ""

    def _memory(self, address: int, size: int) -> bytes:
        """As much as can be read: the end of a page may be the end of what there is."""
        with Path(f"/proc/{self.process}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            head = memory.read(min(size, 4096 - address % 4096))
            with contextlib.suppress(OSError):
                while len(head) < size:
                    memory.seek(address + len(head))
                    head += memory.read(min(size - len(head), 4096)) or b"\0" * (size - len(head))
        return head

    def write_half(self) -> None:
        """Write the first half of the bytes into the very file that the process has open."""
        process = _libc.syscall(_OPEN_PROCESS, self._process_of_thread(), 0)
        descriptor = _libc.syscall(_GET_DESCRIPTOR, process, int(self.arguments[0]), 0)
        half = self._memory(self.arguments[1], self.arguments[2] // 2)
        if self.number == 18:
            os.pwrite(descriptor, half, self.arguments[3])
        else:
            os.write(descriptor, half)
        os.close(descriptor)
        os.close(process)

    def _process_of_thread(self) -> int:
        with Path(f"/proc/{self.process}/status").open() as status:
            return next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
