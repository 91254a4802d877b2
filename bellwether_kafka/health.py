"""The health check of the image: `python3 -m bellwether_kafka.health` ends with 0 if the container's process is healthy.

It asks the HTTP server where the settings of that process put it. A process without one (http_address = "", or another
command than `run`) is healthy as long as it runs, which the engine sees itself. It imports nothing but the standard
library, because an engine runs it every few seconds.
"""

import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.request import urlopen

ADDRESS = "127.0.0.1:9790"  # the default of http_address
VARIABLE, CONFIG_VARIABLE, CONFIG_OPTION = "BELLWETHER_HTTP_ADDRESS", "BELLWETHER_CONFIG", "--config"
WITH_SERVER = "run"
MODULE = "bellwether_kafka"
TIMEOUT_S = 5
MAIN_PROCESS = Path("/proc/1/cmdline")  # of the container


def address(arguments: Sequence[str], environ: Mapping[str, str]) -> str:
    """Returns where the process with this command line answers /livez; "" if it has no HTTP server. A configuration
    that cannot be read has the default: the process itself says what is wrong with it."""
    if arguments and WITH_SERVER not in arguments:
        return ""
    if VARIABLE in environ:
        return environ[VARIABLE]
    config = _option(arguments, CONFIG_OPTION) or environ.get(CONFIG_VARIABLE, "")
    try:
        given = tomllib.loads(Path(config).read_text(encoding="utf-8")) if config else {}
    except (OSError, ValueError):
        given = {}
    return str(given.get("http_address", ADDRESS))


def _option(arguments: Sequence[str], name: str) -> str:
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if argument == name:
            return following
        if argument.startswith(f"{name}="):
            return argument.removeprefix(f"{name}=")
    return ""


def main_arguments(line: bytes) -> list[str]:
    """Returns the arguments of Bellwether's command line, none if it is another program's."""
    words = line.decode(errors="replace").split("\0")
    at = next((n for n, word in enumerate(words) if word == MODULE or word.endswith("/bellwether")), None)
    return [] if at is None else [word for word in words[at + 1 :] if word]


def main() -> int:
    where = address(main_arguments(MAIN_PROCESS.read_bytes()), os.environ)
    if not where:
        return 0
    try:
        with urlopen(f"http://{where}/livez", timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme is written here
            return 0 if answer.status == 200 else 1
    except OSError as error:
        print(f"http://{where}/livez: {error}", file=sys.stderr)  # noqa: T201 - an engine shows it
        return 1


if __name__ == "__main__":
    sys.exit(main())
