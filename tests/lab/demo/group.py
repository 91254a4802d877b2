"""One group of the demo: its consumers, each in a process of its own, and the plans that were made for it."""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy
from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.coordinator.membership import STOCK_PROTOCOLS, MembershipConfig
from bellwether_kafka.coordinator.planning import Planned

SESSION_MS = 3_000
HEARTBEAT_MS = 300

Owned = frozenset[tuple[str, int]]


@dataclass(slots=True)
class Member:
    """A consumer process as seen from here: its last report and when it came."""

    name: str
    process: asyncio.subprocess.Process
    member_id: str = ""
    owned: Owned = frozenset()
    received_at: float = 0.0
    listener: asyncio.Task[None] | None = None


@dataclass(slots=True)
class DemoGroup:
    """`names` is by member id, also of members that are gone; `shown` counts the plans that are on the screen.
    `plans_wanted`: the group is not settled before it has so many plans."""

    group_id: str
    protocol: str
    policy: Policy
    members: dict[str, Member] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    plans: list[Planned[PartitionPlan]] = field(default_factory=list)
    shown: int = 0
    plans_wanted: int = 1

    @property
    def membership(self) -> MembershipConfig:
        """Short times for the mock's sake; Bellwether lists first the protocol that the members list first."""
        return MembershipConfig(
            subscribes=True,
            group_id=self.group_id,
            instance_id="bellwether",
            protocols=(self.protocol, *(name for name in STOCK_PROTOCOLS if name != self.protocol)),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            decision_deadline_ms=1_500,
            sync_margin_ms=500,
            roll_ms_max=500,
            hold_ms_max=500,
            coalesce_ms=0,
            watch_interval_ms=200,
            rebalance_interval_ms_min=0,
        )

    @property
    def decisions(self) -> list[Decision[PartitionPlan]]:
        return [planned.decision for planned in self.plans]

    @property
    def owners(self) -> Counter[tuple[str, int]]:
        """How many members say that they own each partition."""
        return Counter(partition for member in self.members.values() for partition in member.owned)

    def name_of(self, member_id: str) -> str:
        return self.names.get(member_id, member_id)

    async def start_member(self, name: str, rack: str, bootstrap: str, topics: Iterable[str]) -> None:
        properties = {
            "bootstrap.servers": bootstrap,
            "group.id": self.group_id,
            "client.id": name,
            "client.rack": rack,
            "partition.assignment.strategy": self.protocol,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": 60_000,
            # librdkafka joins with the subscribed topics that exist; this is how soon it sees a new one (or 5 min).
            "topic.metadata.refresh.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        task = {"name": name, "topics": [*topics], "properties": properties}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.lab.demo.member",
            json.dumps(task),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        member = Member(name, process)
        member.listener = asyncio.create_task(self._listen(member))
        self.members[name] = member

    async def kill_member(self, name: str) -> None:
        """kill -9: the broker notices when the session expires."""
        member = self.members.pop(name)
        member.process.kill()
        await member.process.wait()

    async def close(self) -> None:
        """Ends every process that was started."""
        for member in self.members.values():
            if member.process.returncode is None:
                with suppress(ProcessLookupError):
                    member.process.kill()
        for member in self.members.values():
            await member.process.wait()
            if member.listener is not None:
                await member.listener

    def unsettled(self, topics: Mapping[str, int], since: float) -> str | None:
        """What keeps the group from being settled: the members' own words against the topics, not against the plan."""
        ended = [m.name for m in self.members.values() if m.process.returncode is not None]
        if ended:
            return f"{self.group_id}: {ended[0]} has ended by itself"
        if len(self.plans) < self.plans_wanted or not self._took_part(self.decisions[-1]):
            return f"{self.group_id}: waiting for a rebalance with exactly {', '.join(sorted(self.members))}"
        if self.decisions[-1].followup:
            return f"{self.group_id}: waiting for the next rebalance, which hands out what is pending"
        silent = [m.name for m in self.members.values() if m.received_at < since]
        if silent:
            return f"{self.group_id}: waiting for a report of {silent[0]}"
        owners = self.owners
        wanted = {(topic, p) for topic, count in topics.items() for p in range(count)}
        twice = sum(count > 1 for count in owners.values())
        if twice or owners.keys() != wanted:
            return f"{self.group_id}: {len(wanted - owners.keys())} partitions without an owner, {twice} with two"
        return None

    def _took_part(self, decision: Decision[PartitionPlan]) -> bool:
        """The decision was made for exactly the members that are alive."""
        ids = {member.member_id for member in decision.plan.group.members}
        return ids == {member.member_id for member in self.members.values()}

    async def _listen(self, member: Member) -> None:
        stream = member.process.stdout
        while stream is not None and (line := await stream.readline()):
            report = json.loads(line)
            member.member_id = report["member_id"]
            member.owned = frozenset((topic, partition) for topic, partition in report["owned"])
            member.received_at = time.monotonic()
            if member.member_id:
                self.names[member.member_id] = member.name
