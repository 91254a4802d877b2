"""What the scenes of the demo play on: brokers, two groups, Bellwether, and waiting until all is settled."""

import asyncio
import time
from collections.abc import Callable, Mapping

from rich.console import Console
from rich.rule import Rule

from bellwether_kafka.assignors.consumer import PartitionPlan, policy
from bellwether_kafka.assignors.shared import Decision
from bellwether_kafka.coordinator.membership import State
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.runtime import GroupsConfig, Observers, Outside, Service
from tests.kit.brokers import EmbeddedCluster, EmbeddedTransport
from tests.lab.demo.group import DemoGroup
from tests.lab.demo.hot_partition import HOT, HOT_TIMES, HotPartition
from tests.lab.demo.repair_picture import Repair
from tests.lab.demo.screen import show_rebalances

SCENE_SECONDS = 25.0
STEADY_SECONDS = 0.6
TICK_SECONDS = 0.1


class DemoError(Exception):
    """Something did not hold; the message is a sentence."""


class Stage:
    """Brokers, groups, Bellwether and the screen."""

    def __init__(self, brokers: EmbeddedCluster, console: Console) -> None:
        self.brokers = brokers
        self.console = console
        self.topics: dict[str, int] = {}
        self.billing = DemoGroup("billing", "range", policy("load-aware"))
        self.shipping = DemoGroup("shipping", "cooperative-sticky", policy("rack-first"))
        self.groups = self.billing, self.shipping
        self.hot = HotPartition(brokers.bootstrap, "billing", lambda: self.topics)
        config = GroupsConfig(
            properties=brokers.properties,
            groups=[group.membership for group in self.groups],
            policies={group.group_id: group.policy for group in self.groups},
            weights=self.hot.weights,
            watch_interval_ms=1_000,
        )
        observers = Observers(on_consumer_decision=(self._planned,), beside=(self.hot.beside,))
        self.service = Service(config, Outside(transport=EmbeddedTransport), observers=observers)

    def create_topic(self, name: str, partitions: int) -> None:
        self.brokers.create_topic(name, partitions)
        self.topics[name] = partitions

    async def settled(self, what: str) -> None:
        """Waits until the members of each group own everything exactly once, then shows the rebalances.

        Raises DemoError when that takes too long.
        """
        began = time.monotonic()
        self.console.print(Rule(f"[bold]{what}", align="left", style="cyan"))
        steady_since: float | None = None
        with self.console.status("") as status:
            while steady_since is None or time.monotonic() - steady_since < STEADY_SECONDS:
                waited = time.monotonic() - began
                trouble = next((t for group in self.groups if (t := group.unsettled(self.topics, began))), None)
                steady_since = None if trouble else steady_since or time.monotonic()
                if waited > SCENE_SECONDS:
                    raise DemoError(f"After {waited:.0f} s ({what}) still: {trouble}.")
                status.update(f"[dim]{waited:4.1f} s  {trouble or 'settled, making sure'}")
                await asyncio.sleep(TICK_SECONDS)
        for group in self.groups:
            show_rebalances(self.console, group)
        self.console.print(f"[dim]settled in {time.monotonic() - began - STEADY_SECONDS:.1f} s\n")

    async def leading(self) -> None:
        """Waits until Bellwether leads both groups, which are still empty. Raises DemoError."""
        await self._until(self._leads_all, "Bellwether joins both groups", "Bellwether still leads not all groups")

    async def load_counts(self) -> None:
        """Waits until the rates of partitions are known, so that Bellwether rebalances by them. Raises DemoError."""
        missing = "it is not known how much is written to partitions"
        await self._until(
            lambda: bool(self.hot.measured().of), "reading how much is written to each partition", missing
        )
        self.hot.counts_for_plans = True
        self.billing.plans_wanted = len(self.billing.plans) + 1

    def repairs(self, before: Mapping[str, Decision[PartitionPlan]]) -> list[Repair]:
        """Returns what has become of the groups since these decisions."""
        (topic, partition), times = HOT, HOT_TIMES
        return [
            Repair(
                title=f"billing, load-aware: {topic}-{partition} is written to {times} times as much as the others",
                before=before["billing"],
                after=self.billing.decisions[-1],
                weights=self.hot.measured(),
                name=self.billing.name_of,
            ),
            Repair(
                title="shipping, rack-first: az2 had lost its only consumer",
                before=before["shipping"],
                after=self.shipping.decisions[-1],
                name=self.shipping.name_of,
            ),
        ]

    async def close(self) -> None:
        for group in self.groups:
            await group.close()

    async def _until(self, holds: Callable[[], bool], doing: str, failure: str) -> None:
        began = time.monotonic()
        with self.console.status(f"[dim]{doing}"):
            while not holds():
                if time.monotonic() - began > SCENE_SECONDS:
                    raise DemoError(f"After {SCENE_SECONDS:.0f} s {failure}.")
                await asyncio.sleep(TICK_SECONDS)

    def _leads_all(self) -> bool:
        runners = self.service.runners.values()
        return len(runners) == len(self.groups) and all(r.membership.state is State.STABLE for r in runners)

    def _planned(self, planned: Planned[PartitionPlan]) -> None:
        group_id = planned.decision.raw.group_id
        next(group for group in self.groups if group.group_id == group_id).plans.append(planned)
