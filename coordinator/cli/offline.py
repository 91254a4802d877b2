"""The command `bellwether debug decode` and the version, which need neither settings nor brokers."""

import importlib.metadata
import sys
from typing import Annotated

import typer
import yaml

from bellwether_kafka.bounded import read_stream
from bellwether_kafka.coordinator.cli.output import As, Output, echo_lines, fail, print_document
from bellwether_kafka.protocol import blob_to_json
from bellwether_kafka.protocol.primitives import LocalProtocolError, RemoteProtocolError

HEX_BYTES_MAX = 200_000_000  # the longest message that Kafka accepts, as hex digits
DISTRIBUTION = "bellwether-kafka"
# Common names of what a consumer sends when it joins, and of what it receives.
SHORT = {"subscription": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"}


def installed_version() -> str:
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return "unknown (not installed)"


def decode(
    kind: Annotated[
        str, typer.Argument(help="subscription or assignment, or a message's own name (a wrong one lists all).")
    ],
    data: Annotated[str, typer.Argument(metavar="HEX", help='Hex digits, or "-" to read them from standard input.')],
    output: As = Output.JSON,
) -> None:
    try:
        text = read_stream(sys.stdin.buffer, HEX_BYTES_MAX).decode() if data == "-" else data
        blob = bytes.fromhex(text.strip().removeprefix("0x").replace(":", ""))
    except OSError as error:
        fail(f"Standard input cannot be read ({error.strerror}).")
    except ValueError:
        fail("HEX is not an even number of hex digits (0-9, a-f).")
    kind = SHORT.get(kind, kind)
    try:
        decoded = blob_to_json(kind, blob)
    except LocalProtocolError as error:
        fail(_as_sentence(str(error)))
    except RemoteProtocolError as error:
        fail(f"These {len(blob)} bytes are no {kind}: {str(error).rstrip('.')}.")
    if output.is_document:
        print_document(decoded)
    else:
        echo_lines(yaml.safe_dump(decoded, sort_keys=False, allow_unicode=True), nl=False)


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
