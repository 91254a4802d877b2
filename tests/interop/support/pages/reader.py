"""A reader who follows a page of docs/get-started: the page's own blocks, in its order, in two terminals.

Commands come from the page alone. A test names each block by a few words of it, so that a block that is new, gone or
moved ends the test, and none is left out without a reason.
"""

import json
import os
import re
import sys
import time
import urllib.request
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tests.get_started_pages import FOLDER, Block, fenced
from tests.interop.support.bellwether import HIDDEN, clean_environment
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import wait_until
from tests.interop.support.pages.terminal import Terminal
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.paths import ROOT

BROKERS = "broker-1:9092"
ADDRESS = "127.0.0.1:9790"
TEN_MINUTES_S = 600.0
COMMAND = f'#!/bin/sh\nexec "{sys.executable}" -m bellwether_kafka "$@"\n'
# The same, where `run` has constants of a membership that no user can set.
PATIENT_COMMAND = f"""#!/bin/sh
exec "{sys.executable}" -c '
import sys
from bellwether_kafka.coordinator.cli import main
from tests.watched_process import set_constants
if sys.argv[1] == "run":
    set_constants(CONSTANTS)
main()' "$@"
"""
UNFINISHED = re.compile(r"(?<!\\)\n")  # a line ends here, unless it goes on behind a backslash


def executable(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


class Reader:
    """`first` and `second` are the page's terminals, in the folder of the files that it has the reader write."""

    def __init__(self, text: str, first: Terminal, second: Terminal, folder: Path, address: str) -> None:
        self.first, self.second, self.folder = first, second, folder
        self._text, self._address = text, address
        blocks = fenced(text)
        self._left = deque(block for block in blocks if block.language in ("sh", "toml"))
        self._outputs = [block.text for block in blocks if block.language == "text"]
        self._pasted: list[str] = []

    def paste(self, words: str, *, into: Terminal | None = None, limit_s: float = 120.0) -> str:
        """Pastes the next block, which has these words, line by line: each must end with 0. What appeared."""
        self._pasted.append(self._next("sh", words))
        return self._paste(self._pasted[-1], into or self.first, limit_s)

    def paste_in_both(self, words: str) -> None:
        self.paste(words)
        self.paste_again(words, into=self.second)

    def paste_again(self, words: str, *, into: Terminal, limit_s: float = 120.0) -> str:
        """The last block with these words that has been pasted before."""
        return self._paste(next(text for text in reversed(self._pasted) if words in text), into, limit_s)

    def start(self, words: str) -> None:
        """Types the next block, one command that goes on, into the first terminal."""
        (line,) = self._next("sh", words).splitlines()
        self.first.start(line)

    def start_inline(self, command: str) -> None:
        """A command that goes on and that the page has in a sentence."""
        assert f"`{command}`" in self._text, f"`{command}` is not in the page"
        self.first.start(command)

    def write(self, file: str, words: str, more: Mapping[str, int] | None = None) -> None:
        """Writes the next block of settings, which has these words, to the file that the page names. `more` are
        settings for the last table of the block, or constants."""
        assert f"`{file}`" in self._text
        constants = {name: value for name, value in (more or {}).items() if name in HIDDEN}
        if constants:
            executable(self.folder / "bin" / "bellwether", PATIENT_COMMAND.replace("CONSTANTS", json.dumps(constants)))
        added = "".join(f"{name} = {value}\n" for name, value in (more or {}).items() if name not in HIDDEN)
        (self.folder / file).write_text(self._next("toml", words) + added)

    def leave_out(self, words: str, reason: str) -> None:
        """Goes past the next block, which has these words."""
        print(f"not run here: {self._next('sh', words).strip()!r}, {reason}")

    def leave_out_rest(self, reason: str) -> None:
        print(f"not run here: the following {len(self._left)} blocks, {reason}")
        self._left.clear()

    def shown(self, words: str) -> str:
        """The output with these words that the page shows, with single spaces."""
        (output,) = (text for text in self._outputs if words in text)
        return " ".join(output.split())

    def appears(self, pattern: str, *, limit_s: float = 30.0) -> None:
        """Waits until the first terminal shows it. Raises AssertionError."""
        wait_until(lambda: re.search(pattern, self.first.text()) is not None, limit_s, self.first.text)

    def serves(self, path: str, words: str, *, limit_s: float = 30.0) -> None:
        """Waits until Bellwether's HTTP server has these words under this path. Raises AssertionError."""

        def served() -> bool:
            try:
                with urllib.request.urlopen(f"http://{self._address}{path}", timeout=10) as answer:
                    return words in answer.read().decode()
            except OSError:
                return False

        wait_until(served, limit_s, self.first.text)

    def finish(self) -> None:
        assert not self._left, f"blocks that nothing has run: {list(self._left)}"

    def _next(self, language: str, words: str) -> str:
        assert self._left, f"the page has no more blocks, so none with {words!r}"
        block: Block = self._left.popleft()
        assert block.language == language, f"the next block is not {language}: {block}"
        assert words in block.text, f"{words!r} is not in the next block: {block}"
        return block.text

    def _paste(self, text: str, terminal: Terminal, limit_s: float) -> str:
        appeared = []
        for line in UNFINISHED.split(text.rstrip("\n")):
            code, shown = terminal.run(line, limit_s)
            assert code == 0, f"{line} has ended with {code}:\n{shown}"
            appeared.append(shown)
        return "".join(appeared)


def with_examples_replaced(page: str, here: Mapping[str, str]) -> str:
    """The text of a page with what is here in place of its examples. Raises AssertionError where it has one no more."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    for example, instead in here.items():
        assert example in text, f"{page} does not have the example {example!r} any more"
        text = text.replace(example, instead)
    return text


def environment_of(folder: Path, address: str) -> dict[str, str]:
    """With the command `bellwether` of this checkout."""
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    executable(binaries / "bellwether", COMMAND)
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    return clean_environment({"PATH": path, "PYTHONPATH": str(ROOT), "BELLWETHER_HTTP_ADDRESS": address})


@contextmanager
def leased_port() -> Iterator[int]:
    lease = PortLease()
    try:
        yield lease.port
    finally:
        lease.release()


@contextmanager
def following(
    kafka: KafkaCluster, page: str, folder: Path, replaced: Mapping[str, str] | None = None
) -> Iterator[Reader]:
    """`replaced`: examples of the page besides its brokers and Bellwether's address, each with what is here instead."""
    began = time.monotonic()
    with leased_port() as port, ExitStack() as stack:
        address = f"{LOOPBACK}:{port}"
        here = {BROKERS: kafka.bootstrap, **(replaced or {})}
        text = with_examples_replaced(page, here).replace(ADDRESS, address)
        environment = environment_of(folder, address)
        first, second = (stack.enter_context(closing(Terminal(folder, environment))) for _ in range(2))
        reader = Reader(text, first, second, folder, address)
        try:
            yield reader
        except AssertionError as error:
            raise AssertionError(f"{error}\nfirst terminal:\n{first.text()}\nsecond:\n{second.text()}") from error
        reader.finish()
    took_s = time.monotonic() - began
    print(f"{page}: {took_s:.0f} s")
    assert took_s < TEN_MINUTES_S
