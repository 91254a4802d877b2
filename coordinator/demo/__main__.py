"""`make demo`: three brokers in three racks inside this process, real consumers in processes of their own, Bellwether
leading both of their groups. A member joins, one is killed, a topic appears; every round is shown, and at the end the
members themselves are asked what they own.

The brokers are librdkafka's mock: what that changes is told in `embedded`. Above all a join round lasts the session
timeout less a second, hence the short sessions here.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, policy
from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.coordinator.cli import Caption, decision_panel
from bellwether_kafka.coordinator.demo.embedded_brokers import EmbeddedCluster, EmbeddedClusterError
from bellwether_kafka.coordinator.membership import STOCK_PROTOCOLS, MembershipConfig, State
from bellwether_kafka.coordinator.planning import PlannedRound
from bellwether_kafka.coordinator.runtime import Observers, Outcome, Service
from bellwether_kafka.coordinator.telemetry import configure_logs

SESSION_MS = 3_000
HEARTBEAT_MS = 300
SCENE_SECONDS = 25.0
TOTAL_SECONDS = 58.0
STEADY_SECONDS = 0.6
TICK_SECONDS = 0.1
WIDTH = 100
EXIT_INTERRUPTED = 130
TOPICS = {"clicks": 6, "orders": 6}
LATE_TOPIC = ("refunds", 4)
REPLICAS = 1

Owned = frozenset[tuple[str, int]]


class DemoError(Exception):
    """Something did not hold; the message is a sentence."""


@dataclass(slots=True)
class Member:
    """A consumer process as seen from here: its last report and when it came."""

    name: str
    rack: str
    process: asyncio.subprocess.Process
    member_id: str = ""
    owned: Owned = frozenset()
    heard_at: float = 0.0
    listener: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class Flock:
    """One group: its members by name, and every plan that was made for it."""

    group_id: str
    protocol: str
    policy: Policy
    members: dict[str, Member] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    plans: list[PlannedRound[PartitionPlan]] = field(default_factory=list)
    shown: int = 0

    @property
    def membership(self) -> MembershipConfig:
        """Short times for the mock's sake; the protocol that the members list first must be our first, too."""
        return MembershipConfig(
            group_id=self.group_id,
            instance_id="bellwether",
            protocols=(self.protocol, *(name for name in STOCK_PROTOCOLS if name != self.protocol)),
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            decision_deadline_ms=1_500,
            sync_margin_ms=500,
            coalesce_ms=0,
            watch_interval_ms=200,
            rebalance_interval_ms_min=0,
        )

    def name_of(self, member_id: str) -> str:
        return self.names.get(member_id, member_id)

    def took_part(self, decision: Decision[PartitionPlan]) -> bool:
        """The decision was made for exactly the members that are alive."""
        ids = {member.member_id for member in decision.plan.group.members}
        return ids == {member.member_id for member in self.members.values()}


class Stage:
    """The demo's props: brokers, groups, consumers, Bellwether and the screen."""

    def __init__(self, brokers: EmbeddedCluster, console: Console) -> None:
        self.brokers = brokers
        self.console = console
        self.topics: dict[str, int] = {}
        self.flocks = (
            Flock("billing", "range", Policy()),
            Flock("shipping", "cooperative-sticky", policy("rack-first")),
        )
        self.service = Service(
            brokers.properties,
            [flock.membership for flock in self.flocks],
            Policy(),
            policies={flock.group_id: flock.policy for flock in self.flocks},
            observers=Observers(on_consumer_decision=(self._planned,)),
            watch_interval_ms=1_000,
        )

    def create_topic(self, name: str, partitions: int) -> None:
        self.brokers.create_topic(name, partitions, REPLICAS)
        self.topics[name] = partitions

    async def start_member(self, flock: Flock, name: str, rack: str) -> None:
        properties = {
            "bootstrap.servers": self.brokers.bootstrap,
            "group.id": flock.group_id,
            "client.id": name,
            "client.rack": rack,
            "partition.assignment.strategy": flock.protocol,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "max.poll.interval.ms": 60_000,
            # librdkafka joins with the subscribed topics that exist; this is how soon it sees a new one (or 5 min).
            "topic.metadata.refresh.interval.ms": 500,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        task = {"name": name, "topics": [*TOPICS, LATE_TOPIC[0]], "properties": properties}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "bellwether_kafka.coordinator.demo.member",
            json.dumps(task),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        member = Member(name, rack, process)
        member.listener = asyncio.create_task(_listen(flock, member))
        flock.members[name] = member

    async def kill_member(self, flock: Flock, name: str) -> None:
        """kill -9: nothing is said to the broker, which finds out when the session expires."""
        member = flock.members.pop(name)
        member.process.kill()
        await member.process.wait()

    async def settled(self, what: str) -> None:
        """Waits until the members of each group own everything exactly once, then shows the rounds.

        Raises DemoError when that takes too long.
        """
        began = time.monotonic()
        self.console.print(Rule(f"[bold]{what}", align="left", style="cyan"))
        steady_since: float | None = None
        with self.console.status("") as status:
            while steady_since is None or time.monotonic() - steady_since < STEADY_SECONDS:
                waited = time.monotonic() - began
                trouble = next((t for flock in self.flocks if (t := self._trouble(flock, began))), None)
                steady_since = None if trouble else steady_since or time.monotonic()
                if waited > SCENE_SECONDS:
                    raise DemoError(f"After {waited:.0f} s ({what}) still: {trouble}.")
                status.update(f"[dim]{waited:4.1f} s  {trouble or 'settled, making sure'}")
                await asyncio.sleep(TICK_SECONDS)
        for flock in self.flocks:
            self._show(flock)
        self.console.print(f"[dim]settled in {time.monotonic() - began - STEADY_SECONDS:.1f} s\n")

    async def leading(self) -> None:
        """Waits until Bellwether leads both groups, which are still empty. Raises DemoError."""
        began = time.monotonic()
        with self.console.status("[dim]Bellwether joins both groups"):
            while not self._leads_all():
                if time.monotonic() - began > SCENE_SECONDS:
                    raise DemoError(f"After {SCENE_SECONDS:.0f} s Bellwether still leads not all groups.")
                await asyncio.sleep(TICK_SECONDS)

    def _leads_all(self) -> bool:
        runners = self.service.runners.values()
        return len(runners) == len(self.flocks) and all(r.membership.state is State.STABLE for r in runners)

    def _planned(self, planned: PlannedRound[PartitionPlan]) -> None:
        group = planned.chosen.decision.raw.group_id
        next(flock for flock in self.flocks if flock.group_id == group).plans.append(planned)

    def _trouble(self, flock: Flock, since: float) -> str | None:
        """What keeps the group from being settled: the members' own words against the topics, not against our plan."""
        group = flock.group_id
        ended = [m.name for m in flock.members.values() if m.process.returncode is not None]
        if ended:
            return f"{group}: {ended[0]} has ended by itself"
        if not flock.plans or not flock.took_part(flock.plans[-1].chosen.decision):
            return f"{group}: waiting for a round with exactly {', '.join(sorted(flock.members))}"
        if flock.plans[-1].chosen.decision.followup:
            return f"{group}: waiting for the next round, which hands out what was withheld"
        silent = [m.name for m in flock.members.values() if m.heard_at < since]
        if silent:
            return f"{group}: waiting to hear from {silent[0]}"
        owners = Counter(partition for m in flock.members.values() for partition in m.owned)
        wanted = {(topic, p) for topic, count in self.topics.items() for p in range(count)}
        twice = sum(count > 1 for count in owners.values())
        if twice or owners.keys() != wanted:
            return f"{group}: {len(wanted - owners.keys())} partitions without an owner, {twice} with two"
        return None

    def _show(self, flock: Flock) -> None:
        for at in range(flock.shown, len(flock.plans)):
            planned = flock.plans[at]
            decision = planned.chosen.decision
            previous = flock.plans[at - 1].chosen.decision if at else None
            title = (
                f"group [bold]{flock.group_id}[/] | protocol {decision.raw.protocol} | policy {decision.policy}"
                f" | generation {decision.raw.generation}"
            )
            caption = Caption(title, planned.timings.plan_s * 1000, flock.name_of)
            self.console.print(decision_panel(previous, decision, caption))
        flock.shown = len(flock.plans)

    def summary(self, began: float) -> None:
        table = Table(box=box.SIMPLE_HEAD, title="What the members say they own", title_justify="left")
        for heading in (
            "group",
            "members",
            "partitions",
            "owned once",
            "rounds led",
            "moved",
            "out of rack",
            "slowest plan",
        ):
            table.add_column(heading, justify="left" if heading == "group" else "right")
        for flock in self.flocks:
            decisions = [planned.chosen.decision for planned in flock.plans]
            owners = Counter(partition for m in flock.members.values() for partition in m.owned)
            table.add_row(
                flock.group_id,
                str(len(flock.members)),
                str(sum(self.topics.values())),
                str(sum(count == 1 for count in owners.values())),
                str(len(decisions)),
                str(sum(decision.moves.moved for decision in decisions)),
                str(decisions[-1].plan.score_after.cross_rack),
                f"{max(planned.timings.plan_s for planned in flock.plans) * 1000:.1f} ms",
            )
        self.console.print(table)
        took = time.monotonic() - began
        self.console.print(
            f"[bold green]Every partition is owned by exactly one member in both groups.[/] {took:.1f} s"
        )

    async def close(self) -> None:
        """Ends every process that was started."""
        members = [member for flock in self.flocks for member in flock.members.values()]
        for member in members:
            if member.process.returncode is None:
                with suppress(ProcessLookupError):
                    member.process.kill()
        for member in members:
            await member.process.wait()
            if member.listener is not None:
                await member.listener


async def _listen(flock: Flock, member: Member) -> None:
    stream = member.process.stdout
    while stream is not None and (line := await stream.readline()):
        report = json.loads(line)
        member.member_id = report["member_id"]
        member.owned = frozenset((topic, partition) for topic, partition in report["owned"])
        member.heard_at = time.monotonic()
        if member.member_id:
            flock.names[member.member_id] = member.name


async def play(stage: Stage) -> None:
    """The scenes, in order. Raises DemoError."""
    for name, partitions in TOPICS.items():
        stage.create_topic(name, partitions)
    await stage.leading()
    for flock in stage.flocks:
        for number, rack in enumerate(("az1", "az2", "az3"), 1):
            await stage.start_member(flock, f"c{number}", rack)
    await stage.settled("Three consumers in three racks start in each group")
    for flock in stage.flocks:
        await stage.start_member(flock, "c4", "az2")
    await stage.settled("A fourth consumer joins each group, in az2")
    for flock in stage.flocks:
        await stage.kill_member(flock, "c2")
    await stage.settled("c2 is killed in each group (kill -9: its session must expire first)")
    stage.create_topic(*LATE_TOPIC)
    await stage.settled(f"The topic {LATE_TOPIC[0]}, long subscribed to, is created with {LATE_TOPIC[1]} partitions")


async def perform(console: Console) -> int:
    """Runs the whole demo. Returns the exit code."""
    began = time.monotonic()
    with EmbeddedCluster() as brokers:
        stage = Stage(brokers, console)
        console.print(
            "Three brokers in the racks az1, az2, az3 (librdkafka's mock), two groups of real consumers, "
            "[bold]Bellwether[/] leads both.\n"
        )
        service = asyncio.create_task(stage.service.run(handle_signals=False))
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                await _unless_ended(play(stage), service)
        except TimeoutError:
            console.print(f"[bold red]The demo was not over after {TOTAL_SECONDS:.0f} s; is the machine very busy?")
            return 1
        except DemoError as error:
            console.print(f"[bold red]{error}")
            return 1
        else:
            stage.summary(began)
            return 0
        finally:
            await stage.close()
            stage.service.stop()
            await service


async def _unless_ended(scenes: Coroutine[Any, Any, None], service: "asyncio.Task[Outcome]") -> None:
    """Plays the scenes; raises DemoError at once when Bellwether ends meanwhile."""
    playing = asyncio.create_task(scenes)
    try:
        await asyncio.wait({playing, service}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            raise DemoError(f"Bellwether has ended: {' '.join(service.result().messages) or 'nobody knows why'}")
        playing.result()
    finally:
        playing.cancel()


def main() -> int:
    """The entry point of `python -m bellwether_kafka.coordinator.demo`."""
    configure_logs("error", "console")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    try:
        return asyncio.run(perform(console))
    except EmbeddedClusterError as error:
        console.print(f"[bold red]{error}")
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
