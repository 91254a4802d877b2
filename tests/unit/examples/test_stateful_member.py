"""The reference member: its local database, and what its assignor does while no Bellwether leads."""

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription as KafkaSubscription

from bellwether_kafka.protocol.messages import (
    ConsumerProtocolSubscription,
    StatefulAssignment,
    StatefulSubscription,
    StatefulTaskState,
    Task,
)
from bellwether_kafka.protocol.primitives import ProcessId, TopicPartition
from tests.module_files import module_at
from tests.paths import ROOT

FILE = ROOT / "examples" / "stateful_member.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return module_at(FILE, "stateful_member")


def member(name: str, owned: tuple[int, ...] = (), positions: Mapping[int, int] | None = None) -> SimpleNamespace:
    """A member as kafka-python hands it to the assignor of a leader."""
    tasks = tuple(StatefulTaskState(Task(0, p), at) for p, at in (positions or {}).items())
    data = StatefulSubscription(ProcessId(0, len(name)), tasks=tasks).encode()
    partitions = tuple(TopicPartition("orders", p) for p in owned)
    return joined(name, ConsumerProtocolSubscription(3, ("orders",), data, partitions, 5).encode())


def joined(name: str, metadata: bytes) -> SimpleNamespace:
    return SimpleNamespace(member_id=name, metadata=KafkaSubscription.decode(metadata))


def given(example: ModuleType, *members: SimpleNamespace) -> dict[str, list[int]]:
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: {0, 1, 2, 3} if topic == "orders" else None)
    assignor = example.StatefulAssignor(SimpleNamespace())
    by_member: dict[str, Any] = assignor.assign(cluster, list(members))
    for assignment in by_member.values():
        active = [task.partition for task in StatefulAssignment.decode(bytes(assignment.user_data)).active]
        assert active == sorted(tp.partition for tp in assignment.partitions())
    return {name: sorted(tp.partition for tp in assignment.partitions()) for name, assignment in by_member.items()}


def test_tasks_stay_with_their_owners_and_orphans_go_where_their_state_is(example: ModuleType) -> None:
    assert given(example, member("a", (0, 1)), member("b", (), {2: 7, 3: 9}), member("c", (), {3: 8, 2: 8})) == {
        "a": [0, 1],
        "b": [3],
        "c": [2],
    }


def test_without_state_the_least_loaded_gets_the_next(example: ModuleType) -> None:
    assert given(example, member("a"), member("b")) == {"a": [0, 2], "b": [1, 3]}


def test_a_member_that_cannot_be_read_gets_nothing(example: ModuleType) -> None:
    own = joined("bellwether", ConsumerProtocolSubscription(0, ("orders",), b"").encode())
    assert given(example, own, member("a")) == {"a": [0, 1, 2, 3], "bellwether": []}


def test_state_and_process_id_outlive_the_process(example: ModuleType, tmp_path: Path) -> None:
    store = example.Store(tmp_path / "state")
    store.keep(1, {b"x": 3, b"y": 1}, 40, 44)
    store.keep(1, {b"x": 4}, 41, 45)
    store.close()
    again = example.Store(tmp_path / "state")
    assert again.process_id == store.process_id
    assert (again.position, again.next) == ({1: 41}, {1: 45})
    assert [again.count(1, key) for key in (b"x", b"y", b"z")] == [4, 1, 0]
    assert again.count(2, b"x") == 0
    again.close()
