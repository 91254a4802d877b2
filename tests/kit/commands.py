"""The command `bellwether` in this process (starting one takes a second, what the command does takes none), the groups
that it shows, and the published schemas that it keeps."""

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any
from unittest import mock

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from jsonschema import Draft202012Validator

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli import main
from bellwether_kafka.coordinator.control import Record
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.kafka.wire import BrokerGroup, BrokerMember, GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import (
    DescribeAnswer,
    DescribedMember,
    Failure,
    Node,
    Request,
    RequestFailed,
)
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, Shadow
from bellwether_kafka.coordinator.planning import Application
from bellwether_kafka.coordinator.settings import Settings, SettingsError, load
from bellwether_kafka.protocol.messages import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.brokers import EmbeddedTransport
from tests.kit.membership import own_subscription
from tests.kit.plans import decided, member
from tests.paths import DOCS

ORDER_COMMANDS = frozenset(kind.value for kind in control.ORDERS)
SCHEMAS = DOCS / "reference" / "schemas"


@cache
def validator(name: str) -> Draft202012Validator:
    """Returns the validator of a schema, which besides refuses fields that the schema does not name. Raises
    FileNotFoundError if there is no such schema."""
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(closed(schema))


def closed(schema: Any) -> Any:
    """Returns the schema without fields that it does not name, at every depth."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: closed(part) for name, part in schema.items()}
    return parts | ({"additionalProperties": False} if isinstance(schema.get("properties"), dict) else {})


def undocumented(name: str, document: Any) -> list[str]:
    """Returns where the document differs from its schema, one sentence for each place."""
    return [f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(document)]


def check_page(path: str, document: Any) -> None:
    """Raises AssertionError if an answer of the page differs from the schema of its address."""
    name = "-".join(("api", path.split("/")[2], *(["name"] if path.count("/") > 2 else [])))
    differences = undocumented(name, document)
    assert not differences, f"{path}: {differences}; see docs/generate_schemas.py"


def as_json(arguments: Sequence[str]) -> bool:
    """Returns whether these arguments ask for JSON."""
    pairs = pairwise(arguments)
    return any(option in ("-o", "--output") and value == "json" for option, value in pairs)


def documents(text: str) -> list[Any]:
    """Returns the documents in the output of a command: one of many lines, or one on each line."""
    decoder, at, parsed = json.JSONDecoder(), 0, []
    text = text.strip()
    while at < len(text):
        document, at = decoder.raw_decode(text, at)
        parsed.append(document)
        at += len(text[at:]) - len(text[at:].lstrip())
    return parsed


def check_answer(arguments: Sequence[str], printed: str) -> None:
    """Raises AssertionError if a command has printed JSON that differs from its schema, FileNotFoundError if it has
    none."""
    if not as_json(arguments):
        return
    words = arguments[: 2 if arguments[0] in ("topology", "debug") else 1]
    name = "-".join(("command", *(("order",) if words[0] in ORDER_COMMANDS else words)))
    for document in documents(printed):
        differences = undocumented(name, document)
        assert not differences, f"{name}: {differences}; see docs/generate_schemas.py"


# kafka-python cannot read what they answer to ApiVersions.
VERSION_OF_EMBEDDED_BROKERS = {"BELLWETHER_KAFKA_BELLWETHER_API_VERSION": "2.3"}


def bellwether(
    *arguments: str, text: str = "", version: Mapping[str, str] = VERSION_OF_EMBEDDED_BROKERS, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Returns how the command ends, and what it prints, which agrees with the published schema if it is JSON. An error
    that it does not expect goes through to the test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")}
    clean = kept | dict(version) | environ
    code: object = 0
    printed, complained = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, clean, clear=True),
        mock.patch.object(sys, "argv", ["bellwether", *arguments]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()))),
        redirect_stdout(printed),
        redirect_stderr(complained),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int), code
    check_answer(arguments, printed.getvalue())
    return subprocess.CompletedProcess(arguments, code, printed.getvalue(), complained.getvalue())


on_real_brokers = partial(bellwether, version={})  # which answer requests of any version


BROKER = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092"}


def from_toml(folder: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    file = folder / "bellwether.toml"
    file.write_text(text)
    return load(file, environ=environ or {})


def complaint(folder: Path, text: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        from_toml(folder, text, environ)
    return str(caught.value)


SUBSCRIPTION = ConsumerProtocolSubscription(version=1, topics=("orders",)).encode()
ASSIGNMENT = ConsumerProtocolAssignment(0, tuple(TopicPartition("orders", p) for p in range(3))).encode()
MISSING = DescribeAnswer(0, 69)
GROUPS = {
    "stable": DescribeAnswer(
        0, 0, "Stable", "consumer", "range", (DescribedMember("m1", None, SUBSCRIPTION, ASSIGNMENT, "app", "/h"),)
    ),
    "rebalancing": DescribeAnswer(
        0, 0, "PreparingRebalance", "consumer", "", (DescribedMember("m1", None, client_id="app", client_host="/h"),)
    ),
    "missing": MISSING,
    "converted": DescribeAnswer(0, 0, "Dead"),
}
CONVERTED = BrokerGroup(
    "converted",
    "consumer",
    0,
    state="Stable",
    epoch=3,
    assignor="uniform",
    members=(BrokerMember("m1", None, "az1", "app", "/h", ("orders",), (("orders", (0, 1, 2)),)),),
)


class Described(EmbeddedTransport):
    """Answers of DescribeGroups and ListGroups, which embedded brokers do not have."""

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return GROUPS[group_id]

    async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
        return {group_id: await self.describe_group(group_id) for group_id in group_ids}

    async def ask(self, request: Any) -> Any:
        """What several groups share one request for."""
        if isinstance(request, wire.DescribeMany):
            return await self.describe_groups(request.node, request.group_ids)
        if isinstance(request, wire.DescribeManyByBroker):
            return {
                group_id: await self.describe_by_broker(group_id, request.protocol) for group_id in request.group_ids
            }
        return await super().ask(request)

    async def describe_by_broker(self, group_id: str, protocol: wire.BrokerProtocol) -> BrokerGroup:
        exists = group_id == "converted" and protocol == "consumer"
        return CONVERTED if exists else BrokerGroup(group_id, protocol, 69)

    async def list_groups(self, _node: Node) -> GroupList:
        listed = (
            ListedGroup(name, "consumer", answer.state, "consumer" if name == "converted" else "classic")
            for name, answer in GROUPS.items()
            if answer is not MISSING
        )
        return GroupList(0, tuple(listed))


FIRST_ID, SECOND_ID = "app-0af1c2d3-1111-4222-8333-444455556666", "app-0bc2c2d3-1111-4222-8333-444455556666"
SHOWN_INSTANCE = DescribedMember("bellwether-1", "bellwether", own_subscription("orders"), b"", "bellwether", "/h")
OTHERS = {
    "empty": DescribeAnswer(0, 0, "Empty", "consumer"),
    "led": DescribeAnswer(0, 0, "Stable", "consumer", "range", (*GROUPS["stable"].members, SHOWN_INSTANCE)),
    "connect": DescribeAnswer(0, 0, "Stable", "connect", "sessioned"),
}


class AllKinds(Described):
    async def describe_group(self, group_id: str) -> DescribeAnswer:
        return OTHERS[group_id] if group_id in OTHERS else await super().describe_group(group_id)

    async def list_groups(self, node: Node) -> GroupList:
        others = (ListedGroup(name, group.protocol_type, group.state, "classic") for name, group in OTHERS.items())
        return GroupList(0, (*(await super().list_groups(node)).groups, *others))


class Uneven(AllKinds):
    """A group whose first member has everything, and whose second one has just come."""

    async def describe_group(self, group_id: str) -> DescribeAnswer:
        (first,) = GROUPS["stable"].members
        named = replace(first, member_id=FIRST_ID)
        return replace(GROUPS["stable"], members=(named, replace(named, member_id=SECOND_ID, assignment=b"")))


NOWHERE, CONTROL_TOPIC = "127.0.0.1:1", "bellwether-control"
NODE = Node(1, "127.0.0.1", 1)


class _Brokers:
    """In the place of the transport and the readers."""

    admin = None

    def __init__(self, *_: object) -> None:
        self.transport = self

    async def start(self, _timeout_ms: int) -> None:
        """Brokers that are not asked need no connection."""

    async def nodes(self) -> list[Node]:
        return [NODE]


class ShownGroups:
    """Each group is seen as the next of its observations, and then always as the last one. `records` are those of the
    control topic, None if there is none; what commands write there is `written`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: dict[str, list[Observation]] = {}
        self.listed: list[ListedGroup] = []
        self.records: dict[str, Record] | None = None
        self.policies: dict[str, Policy] = {}  # by which groups were planned
        self.applications: dict[str, Application | None] = {}
        self.described: dict[str, DescribeAnswer] = {}  # what `groups` asks of those with members
        self.written: list[tuple[bytes, bytes | None]] = []
        self._replace_brokers(patch)
        self._replace_observers(patch)

    def _replace_brokers(self, patch: pytest.MonkeyPatch) -> None:
        shown = self

        class Brokers(_Brokers):
            async def list_groups(self, _node: Node) -> GroupList:
                return GroupList(0, tuple(shown.listed))

            async def describe_groups(self, _node: Node, group_ids: Sequence[str]) -> dict[str, DescribeAnswer]:
                return {group: shown.described[group] for group in group_ids}

            async def request(self, command: Request) -> RequestFailed:
                return RequestFailed(command.request_id, Failure.TIMED_OUT)

            async def close(self) -> None:
                """The transport is closed by a coroutine, readers are not."""

        class Readers(_Brokers):
            def close(self) -> None:
                """As above."""

        def read(self: Any) -> Mapping[str, Record]:
            if shown.records is None or self.topic != CONTROL_TOPIC:
                raise control.NoControlTopicError(f"There is no control topic '{self.topic}'.")
            return shown.records

        def silent(*_: object, **__: object) -> None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

        patch.setattr(wire, "Transport", Brokers)
        patch.setattr(AdminClient, "describe_cluster", silent)
        for reader in ("ClusterReader", "OffsetReader", "SharedReader"):
            patch.setattr(client, reader, Readers)
        patch.setattr(control.TopicChannel, "read", read)
        patch.setattr(control.TopicChannel, "write", lambda _, *records: self.written.extend(records))

    def _replace_observers(self, patch: pytest.MonkeyPatch) -> None:
        shown = self

        def observer(self: Any, membership: Any, _sources: object, policy: Any, application: Any, **_: object) -> None:
            self.group_name = membership.group_id
            shown.policies[self.group_name], shown.applications[self.group_name] = policy, application

        async def observe(self: Any) -> Observation:
            seen = shown.seen[self.group_name]
            return seen.pop(0) if len(seen) > 1 else seen[0]

        patch.setattr(GroupObserver, "__init__", observer)
        patch.setattr(GroupObserver, "observe", observe)

    def show(self, *seen: Observation) -> None:
        for each in seen:
            self.seen.setdefault(each.group_id, []).append(each)
        self.listed = [ListedGroup(group, "consumer", of[0].state, of[0].kind) for group, of in self.seen.items()]

    def run(self, *arguments: str, columns: int = 250) -> CompletedProcess[str]:
        return bellwether(*arguments, "--bootstrap", NOWHERE, COLUMNS=str(columns))

    def says(self, *arguments: str, columns: int = 250) -> str:
        """Standard output of a command that ends well."""
        ended = self.run(*arguments, columns=columns)
        assert ended.returncode == 0, ended
        return ended.stdout


@contextmanager
def page(*texts: str) -> Iterator[str]:
    """The address of a page that answers every request with the next of these texts, and then always with the last."""
    left = list(texts)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write((left.pop(0) if len(left) > 1 else left[0]).encode())

        def log_request(self, *_: object) -> None:
            """Not on standard error, which tests read."""

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


SEEN = Observation("g", "classic", "Stable", "range", 0)


def consumers(*owner: int, name: str = "g") -> Observation:
    shadow = Shadow.of(decided(member("a-1", None), member("b-1", None)), np.array(owner, dtype=np.int32))
    return replace(SEEN, group_id=name, shadow=shadow)
