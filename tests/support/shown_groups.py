"""Commands over groups as a test states them: what brokers, the control topic and pages show, without any of these."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.coordinator import control, kafka
from bellwether_kafka.coordinator.control import Record
from bellwether_kafka.coordinator.kafka import GroupList, ListedGroup
from bellwether_kafka.coordinator.membership import DescribeAnswer, Failure, Node, Request, RequestFailed
from bellwether_kafka.coordinator.observation import GroupObserver, Observation, Shadow
from bellwether_kafka.coordinator.planning import Application
from tests.support.commands import bellwether
from tests.support.decided_groups import decided, member

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

        patch.setattr(kafka, "Transport", Brokers)
        patch.setattr(AdminClient, "describe_cluster", silent)
        for reader in ("ClusterReader", "OffsetReader", "SharedReader"):
            patch.setattr(kafka, reader, Readers)
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
