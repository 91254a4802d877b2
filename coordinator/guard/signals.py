"""Decides which processes get a signal that is meant for a command: the command itself, or the processes that a shell
has started and does not pass the signal on to. Each gets it once."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bellwether_kafka.coordinator.guard.proc import PROC, parent_of

SHELLS = frozenset({"sh", "ash", "bash", "dash", "ksh", "ksh93", "mksh", "yash", "zsh"})
MULTI_CALL = frozenset({"busybox", "toybox"})
# These also end a shell that has no handler, as when a terminal sends them to its whole group. Any other signal is
# meant only for the processes that the shell has started.
ENDING = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGQUIT})
NULL_DEVICE = "/dev/null"


@dataclass(frozen=True, slots=True)
class _Process:
    """A process. `caught` and `ignored` are its signal masks; `input` is the path of its standard input."""

    pid: int
    is_shell: bool
    caught: int
    ignored: int
    input: str

    def catches(self, number: int) -> bool:
        return bool(self.caught >> (number - 1) & 1)

    def is_background_of(self, shell: "_Process") -> bool:
        """Returns whether the shell goes on beside this process. A background process ignores SIGINT or has no input
        (POSIX, 2.11 and 2.9.3.1). While a shell waits for a foreground process, none of its handlers run."""
        no_input = self.input == NULL_DEVICE != shell.input
        return no_input or bool(self.ignored >> (signal.SIGINT - 1) & 1)


def receivers(pid: int, number: int) -> list[int]:
    """Returns the processes that get the signal, parents first, so that a shell runs no further command."""
    process = _process(pid)
    return _receivers(pid, number, _children()) if process is not None and process.is_shell else [pid]


def _receivers(pid: int, number: int, children: Mapping[int, list[int]]) -> list[int]:
    process = _process(pid)
    if process is None or not process.is_shell or not children.get(pid):
        return [pid]
    passes_on = process.catches(number)
    receiving = [pid] if passes_on or number in ENDING else []
    for child in children[pid]:
        seen = _process(child)
        if seen is not None and not (passes_on and seen.is_background_of(process)):
            receiving += _receivers(child, number, children)
    return receiving


def _children() -> dict[int, list[int]]:
    by_parent: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit() and (parent := parent_of(int(entry.name))):
            by_parent.setdefault(parent, []).append(int(entry.name))
    return by_parent


def _process(pid: int) -> _Process | None:
    """Reads a process from /proc; None if it has ended or cannot be read."""
    folder = PROC / str(pid)
    try:
        lines = (folder / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        program = (folder / "exe").readlink().name
        words = (folder / "cmdline").read_bytes().split(b"\0")
        masks = {name: int(mask, 16) for line in lines for name, _, mask in [line.partition(":\t")] if name in _MASKS}
        return _Process(pid, _is_shell(program, words), masks["SigCgt"], masks["SigIgn"], _input(folder))
    except (OSError, ValueError, KeyError):
        return None


_MASKS = ("SigCgt", "SigIgn")


def _is_shell(program: str, words: list[bytes]) -> bool:
    if program not in MULTI_CALL:
        return program in SHELLS
    names = [Path(word.decode(errors="replace").lstrip("-")).name for word in words[:2]]
    return names[0] in SHELLS or (names[0] in MULTI_CALL and names[-1] in SHELLS)


def _input(folder: Path) -> str:
    try:
        return str((folder / "fd" / "0").readlink())
    except OSError:
        return ""
