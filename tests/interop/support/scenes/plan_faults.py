"""A Bellwether from which brokers get no usable plan for a while: killed, stopped, slow, or with wrong answers."""

import json
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.interop.support.assignors.assignor import serving
from tests.interop.support.bellwether import Bellwether, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import TopicPartition
from tests.interop.support.scenes.served import TOPIC, address_in, started
from tests.interop.support.scenes.settling import SettlingGroup

Change = Callable[[bytes], bytes]
SLOW_S, REBALANCES = 0.1, 5


def _late(sent: bytes) -> bytes:
    time.sleep(SLOW_S)
    return sent


def _passed(sent: bytes) -> bytes:
    return sent


WRONG: dict[str, Change] = {
    "slow": _late,
    "nonsense": lambda sent: struct.pack(">i", 202) + b"\x01\x00" + bytes(range(200)),
    "another version": lambda sent: sent[:4] + b"\x02" + sent[5:],
}
GONE = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
FAULTS = (*GONE, *WRONG)


class Faulty:
    """Brokers ask the socket in this folder. There either Bellwether itself listens, or (`relayed`) what passes its
    answers on and may change them. A context manager."""

    def __init__(self, cluster: KafkaCluster, folder: Path, groups: list[str], *, relayed: bool) -> None:
        self._change: Change = _passed
        self._behind = str(folder / "behind.sock")
        self._address, self._relayed = address_in(folder), relayed
        address = f"unix:{self._behind}" if relayed else self._address
        options = {"mode": "observe", "policy": "rack-first"}
        self.bellwether = Bellwether(cluster, groups, options=options, assignor_address=address)
        self._local = threading.local()

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            if not self._relayed:
                started(self.bellwether)
                yield
                return
            with serving(self._address, self._answer):
                started(self.bellwether)
                yield
        finally:
            self.bellwether.stop()

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """From its beginning to its end no plan is usable."""
        if name in WRONG:
            self._change = WRONG[name]
            yield
            self._change = _passed
        elif name == "killed":
            self.bellwether.kill()
            yield
            self.bellwether.start(wait=False)
        else:
            os.kill(self.bellwether.pid, signal.SIGSTOP)
            yield
            os.kill(self.bellwether.pid, signal.SIGCONT)

    def _answer(self, data: bytes) -> tuple[bytes, Callable[[bool], None]]:
        """Called by the thread of a broker's connection, which has its own to Bellwether."""
        connection: socket.socket | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = socket.socket(socket.AF_UNIX)
            connection.connect(self._behind)
        connection.sendall(struct.pack(">i", len(data)) + data)
        head = connection.recv(4, socket.MSG_WAITALL)
        (size,) = struct.unpack(">i", head)
        return self._change(head + connection.recv(size, socket.MSG_WAITALL)), lambda _: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """What a fault has caused in one group. `moved` counts partitions that a member which stayed has lost meanwhile,
    `plans` the plans that were used. `used_s`: from the end of the fault to the first plan; `settled_s`: until members
    had what it says. `differing`: partitions that are elsewhere than `bellwether plan` showed before."""

    fault: str
    group: str
    rebalances: int
    moved: int
    plans: int
    errors: int
    used_s: float = 0.0
    settled_s: float = 0.0
    differing: int = 0


def disturb(group: SettlingGroup, fault: str) -> Disturbed:
    """Members join and leave during a fault. The last one joins, so that a plan differs from what there is."""
    before = len(group.calls())
    changes = [group.disturb(number) for number in range(REBALANCES)]
    return Disturbed(
        fault=fault,
        group=group.name,
        rebalances=REBALANCES,
        moved=sum(change.moved for change in changes),
        plans=sum(call.plans for call in group.calls()[before:]),
        errors=sum(len(member.errors) for member in group.members),
    )


def shown(group: SettlingGroup, folder: Path) -> dict[TopicPartition, str]:
    """Returns the name of the member that each partition has by `bellwether plan`."""
    config, file = folder / f"{group.name}.toml", folder / f"{group.name}.json"
    entry = {"name": group.name, "mode": "observe", "policy": "rack-first"}
    config.write_text(toml({"bootstrap.servers": group.cluster.bootstrap}, [entry]))
    ended = run_to_end(["plan", group.name, "--config", str(config), "--out", str(file)])
    assert ended.code == 0, ended.text
    plan = json.loads(file.read_text())
    names = {member["member_id"]: member["client_id"] for member in plan["before"]["members"]}
    return {(TOPIC, int(item.rsplit("-", 1)[1])): names[owner] for item, owner in plan["owners"].items()}


def recovered(group: SettlingGroup, during: Disturbed, planned: dict[TopicPartition, str], at_ms: int) -> Disturbed:
    """Waits until plans are used again, which nothing but Bellwether itself causes."""
    after = [number for number, call in enumerate(group.calls()) if call.t_ms > at_ms]
    group.settle(calls_before=after[0] if after else len(group.calls()))
    first = next(call.t_ms for call in group.calls() if call.plans and call.t_ms > at_ms)
    now = group.owners()
    events = [event.t_ms for member in group.members for event in list(member.events) if event.kind == "assigned"]
    return replace(
        during,
        used_s=(first - at_ms) / 1000,
        settled_s=(max(events) - at_ms) / 1000,
        differing=sum(now[partition] != owner for partition, owner in planned.items()),
    )
