"""Orders without a control topic: who is heard, what is taken, and what is left when the process ends."""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.control import (
    Controller,
    ControlSettings,
    ControlTopicError,
    InstanceHeartbeat,
    LocalChannel,
    LocalOrders,
    Order,
    OrderKind,
    PlacementKind,
    PlacementOrder,
    Record,
    encode,
    local,
    local_processes,
    write_state,
)
from bellwether_kafka.coordinator.control.local import LocalProcess
from bellwether_kafka.coordinator.membership import OrdersInForce
from tests.kit.runtime import Group

LIMIT_S = 30.0
BOOTSTRAP = "local-1.test:9092,local-2.test:9092"


def order(kind: OrderKind = OrderKind.LEAVE) -> Order:
    now_ms = int(time.time() * 1000)
    return Order(kind, "orders", "eve", now_ms, now_ms + 600_000)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in other threads
            await asyncio.sleep(0.01)


@asynccontextmanager
async def running(group: Group, bootstrap: str = BOOTSTRAP) -> AsyncIterator[None]:
    """A process that leads `orders` without a control topic."""
    controller = Controller(LocalOrders(bootstrap), ControlSettings("", "pod-1"), {"orders": group}, heartbeat_s=0.05)
    task = asyncio.create_task(controller.run())
    try:
        yield
    finally:
        task.cancel()
        await controller.close()


async def processes_here(bootstrap: str = BOOTSTRAP) -> list[LocalProcess]:
    return await asyncio.to_thread(local_processes, bootstrap)


async def all_answers(reader: asyncio.StreamReader) -> bytes:
    """Until the other end hangs up, with or without having read what it was sent."""
    try:
        return await asyncio.wait_for(reader.read(), LIMIT_S)
    except ConnectionResetError:
        return b""


async def channel() -> LocalChannel:
    """To the process, once it can be asked and says what it looks after."""
    async with asyncio.timeout(LIMIT_S):
        while not (processes := [process for process in await processes_here() if process.serves("orders")]):  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)
    assert len(processes) == 1
    return LocalChannel(processes)


def leading() -> Group:
    group = Group(standby=False)
    group.lead()
    return group


async def test_an_order_reaches_the_process_is_in_force_there_and_can_be_withdrawn() -> None:
    group = leading()
    async with running(group):
        to = await channel()
        key, value = encode(given := order())
        await asyncio.to_thread(to.write, (key, value))
        await until(lambda: group.given() is not None)
        assert group.given() == OrdersInForce(given.sentence, "")
        records = await asyncio.to_thread(to.read)
        assert records[given.key] == given
        await asyncio.to_thread(to.write, (key, None))
        await until(lambda: group.given() == OrdersInForce("", ""))


async def test_what_is_carried_out_once_is_gone_then() -> None:
    group = leading()
    async with running(group):
        to = await channel()
        await asyncio.to_thread(to.write, encode(again := order(OrderKind.REBALANCE)))
        await until(lambda: group.ordered == [again.sentence])
        assert again.key not in await asyncio.to_thread(to.read)


async def test_the_heartbeat_of_the_process_says_what_it_leads_as_in_a_topic() -> None:
    async with running(leading()):
        (heartbeat,) = (await asyncio.to_thread((await channel()).read)).values()
        assert isinstance(heartbeat, InstanceHeartbeat)
        assert (heartbeat.instance, heartbeat.leads, heartbeat.policies) == (
            "pod-1",
            ("orders",),
            {"orders": "rack-first"},
        )


@pytest.mark.parametrize(
    "refused",
    [PlacementOrder(PlacementKind.PIN, "orders", "orders-1", "rack:az1", "eve", 1, 2), order(OrderKind.DRAIN)],
    ids=["pin", "drain"],
)
async def test_what_has_to_outlive_the_process_or_needs_others_is_refused(refused: Record) -> None:
    async with running(leading()):
        to = await channel()
        with pytest.raises(ControlTopicError, match="only leave, release, pause and rebalance"):
            await asyncio.to_thread(to.write, encode(refused))
        assert refused.key not in await asyncio.to_thread(to.read)


async def test_a_process_on_another_cluster_is_not_found_and_one_broker_in_common_is_enough() -> None:
    async with running(leading()):
        await channel()
        assert await processes_here("elsewhere.test:9092") == []
        assert len(await processes_here("local-3.test:9092, LOCAL-2.test:9092")) == 1


async def test_a_process_that_has_ended_is_not_found_and_one_that_ends_meanwhile_is_reported_to_be_gone() -> None:
    async with running(leading()):
        to = await channel()
    assert await processes_here() == []
    with pytest.raises(ControlTopicError, match="does not answer; see whether it runs"):
        await asyncio.to_thread(to.read)


async def test_another_user_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(leading()):
        (name,) = (await channel())._names
        monkeypatch.setattr(local, "is_same_user", lambda _: False)
        reader, writer = await asyncio.open_unix_connection(f"\0{name}")
        writer.write(b"{}\n")
        assert await all_answers(reader) == b""
        writer.close()
        assert await processes_here() == [], "nor is one that another user has made asked anything"


def test_the_kernel_says_who_is_at_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    near, other = socket.socketpair()
    with near, other:
        assert local.is_same_user(near)
        monkeypatch.setattr(local.os, "geteuid", lambda: 4711)
        assert not local.is_same_user(near)


@pytest.mark.parametrize(
    "line",
    [b"nonsense", b"[1]", b'"x"', b'{"key": 1, "value": {}}', b'{"key": "leave/orders", "value": []}', b"\xff"],
)
async def test_a_request_that_makes_no_sense_changes_nothing(line: bytes) -> None:
    group = leading()
    async with running(group):
        to = await channel()
        reader, writer = await asyncio.open_unix_connection(f"\0{to._names[0]}")
        writer.write(line + b"\n")
        answer = json.loads(await asyncio.wait_for(reader.readline(), LIMIT_S))
        writer.close()
        assert answer["error"]
        assert list(await asyncio.to_thread(to.read)) == ["beat/pod-1"]
        assert group.given() is None


async def test_a_line_that_is_longer_than_any_order_ends_the_connection() -> None:
    async with running(leading()):
        to = await channel()
        reader, writer = await asyncio.open_unix_connection(f"\0{to._names[0]}")
        writer.write(b"x" * 3 * local.REQUEST_BYTES_MAX)
        assert await all_answers(reader) == b""
        writer.close()
        assert await asyncio.to_thread(to.read)


def test_a_state_file_is_on_the_disk_before_it_replaces_the_last_one_and_so_is_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure the hand-back was gone, or its file empty."""
    synced: list[tuple[str, bool]] = []
    path = tmp_path / "handed-back.json"

    def fsync(descriptor: int) -> None:
        synced.append((Path(f"/proc/self/fd/{descriptor}").readlink().name, path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    write_state(path, "{}")
    assert path.read_text() == "{}"
    (aside, _), _ = synced
    assert (aside != path.name, synced) == (True, [(aside, False), (tmp_path.name, True)])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_processes_with_one_process_id_do_not_write_into_one_state_file(tmp_path: Path) -> None:
    """Each is process 1 of its container, and they share a volume: one failed, or the file had parts of both."""
    path, texts = tmp_path / "rhythms.json", [str(number) * 1_000_000 for number in range(4)]
    with ThreadPoolExecutor(len(texts)) as containers:
        for _ in range(5):
            list(containers.map(write_state, [path] * len(texts), texts))
            assert path.read_text() in texts
