"""A terminal as readers of the pages have one: an interactive bash on a pseudo-terminal, and what appeared on it."""

import os
import pty
import re
import signal
import subprocess
import termios
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.interop.support.members import wait_until

BASH = 'exec bash --norc --noprofile --noediting -i < "$0" > "$0" 2>&1'  # opened, so that it is what Ctrl-C reaches
QUIET = "PS1= PS2=; set -o pipefail"
ENDED = re.compile(r"<ended (\d+)>")
COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SIZE = (50, 200)  # lines and columns, so that no output is folded
LOCAL_MODES = 3  # where termios keeps them in its list
CTRL_C = b"\x03"
CLOSE_S = 30.0


class Terminal:
    """`close` ends what still runs. Standard output and standard error appear together."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, SIZE)
        modes = termios.tcgetattr(slave)
        modes[LOCAL_MODES] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, modes)
        self._process = subprocess.Popen(
            ["sh", "-c", BASH, os.ttyname(slave)],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._appeared = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.run(QUIET)
        os.close(slave)  # only now: without anything that has it open, reading would end

    def run(self, line: str, limit_s: float = 60.0) -> tuple[int, str]:
        """Types a command and waits for its end: its exit code and what has appeared meanwhile."""
        before = len(self.text())
        self.start(line)
        return self._code(before, limit_s), ENDED.split(self.text()[before:])[0]

    def start(self, line: str) -> None:
        """Types a command that goes on."""
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self, limit_s: float = 60.0) -> int:
        """Ctrl-C; the exit code of what ran."""
        os.write(self._master, CTRL_C)
        return self.wait(limit_s)

    def wait(self, limit_s: float = 60.0) -> int:
        """Until the command that runs has ended; its exit code."""
        wait_until(lambda: self.job is None, limit_s, self.text)
        return self._code(len(self.text()), limit_s)

    @property
    def job(self) -> int | None:
        """The process id of the command that runs, if one does."""
        foreground = os.tcgetpgrp(self._master)
        return None if foreground == self._process.pid else foreground

    def text(self) -> str:
        """Everything that has appeared, without colours."""
        return COLOUR.sub("", bytes(self._appeared).decode(errors="replace")).replace("\r\n", "\n")

    def close(self) -> None:
        if self._process.poll() is None:
            running = self.job
            if running is not None:
                os.killpg(running, signal.SIGTERM)
            self.start("exit")
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            if self.job is not None:
                os.killpg(self.job, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        self._reader.join(CLOSE_S)
        os.close(self._master)

    def _code(self, before: int, limit_s: float) -> int:
        self.start('echo "<ended $?>"')
        wait_until(lambda: ENDED.search(self.text(), before) is not None, limit_s, self.text)
        hit = ENDED.search(self.text(), before)
        assert hit is not None
        return int(hit[1])

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self._master, 65_536)
            except OSError:  # the last process that had it open has ended
                return
            self._appeared += part
