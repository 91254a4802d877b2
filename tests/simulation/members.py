"""Members that behave like Java's consumer or like librdkafka's: eager ones revoke all before they join, cooperative
ones keep what they own and rejoin after they have revoked (KIP-429). What they consume is `owned`.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Memory, RawGroup, RawMember
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Code
from bellwether_kafka.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_sticky_user_data,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import decided
from tests.simulation.brokers.broker import NODES, node
from tests.simulation.brokers.topics import Sizes

if TYPE_CHECKING:
    from tests.simulation.world import World

NO_GENERATION = -1
FIND_TIMEOUT_S, SYNC_TIMEOUT_S, HEARTBEAT_TIMEOUT_S = 5.0, 30.0, 5.0
RETRY_S = 0.1
METADATA_S = 5.0


@dataclass(frozen=True)
class Kind:
    """How members of one sort behave. `version` is of their subscription: below 2 they claim no generation."""

    protocols: tuple[str, ...]
    cooperative: bool
    version: int = 3
    java: bool = True  # with the userData of Java's assignors
    session_s: float = 10.0
    rebalance_s: float = 30.0
    heartbeat_s: float = 3.0

    @property
    def protocol(self) -> str:
        return self.protocols[0]


EAGER = Kind(("range",), cooperative=False)
STICKY = Kind(("sticky",), cooperative=False)
COOPERATIVE = Kind(("cooperative-sticky",), cooperative=True)
RDKAFKA = Kind(("range", "roundrobin"), cooperative=False, version=1, java=False)
RDKAFKA_COOPERATIVE = Kind(("cooperative-sticky",), cooperative=True, version=2, java=False)


class Member:
    """One consumer that can be started again and again; `process` counts its lives."""

    def __init__(self, world: "World", name: str, kind: Kind, instance_id: str | None) -> None:
        self.world, self.name, self.kind, self.instance_id = world, name, kind, instance_id
        self.process = 0
        self.running = False
        self.paused_until = 0.0
        self.topics: tuple[str, ...] = ()  # of its own, where it does not subscribe to those of all
        self._planned: Sizes = {}  # topics that its last plan was made with
        self._heartbeats = 0  # one series of heartbeats at a time
        self._forget()

    def _forget(self) -> None:
        self.member_id = ""
        self.generation = NO_GENERATION
        self.protocol = ""
        self.owned: set[TopicPartition] = set()
        self.history: tuple[TopicPartition, ...] = ()  # what "sticky" says of itself
        self.history_generation = NO_GENERATION
        self.state = "down"
        self._node: int | None = None
        self._leads = False
        self._rebalance = 0  # joins and syncs of earlier rebalances are not waited for

    @property
    def client(self) -> str:
        return f"{self.name}.{self.process}"

    def own(self, owned: set[TopicPartition]) -> None:
        if owned != self.owned:
            self.owned = owned
            self.world.committed = self.world.committed or bool(owned)
            self.world.checks.dirty = True

    # ---- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._forget()
        self.process += 1
        self.running = True
        self.world.log(f"{self.name} starts")
        if self.world.guards is not None:
            self.world.guards.started(self)
        self._join()

    def crash(self) -> None:
        self.world.log(f"{self.name} dies")
        self._end()

    def close(self) -> None:
        """A dynamic member leaves, a static one just goes."""
        self.world.log(f"{self.name} closes")
        if self.instance_id is None and self.member_id and self._node is not None:
            leave = membership.Leave(0, node(self._node), "g", 5_000, self.member_id, None, "closed")
            self.own(set())
            self.world.send(self.client, 1, self._node, leave, 5.0, lambda _: None, lambda _: None)
        self._end(drop=False)

    def _end(self, *, drop: bool = True) -> None:
        self.own(set())
        self.running = False
        if self.world.guards is not None:
            self.world.guards.ended(self)
        if drop:
            self.world.network.drop_client(self.client)
        self.process += 1  # nobody waits for answers any more
        self._forget()

    def pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.world.clock.now + seconds)

    # ---- asking ------------------------------------------------------------------------------------------------------

    def _alive(self, work: Callable[..., None]) -> Callable[..., None]:
        """Done by this life of the process only, and not while it is paused."""
        process = self.process

        def later(*values: Any) -> None:
            if self.process != process or not self.running:
                return
            if self.world.clock.now < self.paused_until:
                self.world.clock.at(self.paused_until, lambda: later(*values))
            else:
                work(*values)

        return later

    def _after(self, delay_s: float, work: Callable[[], None]) -> None:
        self.world.clock.after(delay_s, self._alive(work))

    def _of_rebalance(self, work: Callable[..., None]) -> Callable[..., None]:
        number = self._rebalance
        return self._alive(lambda *values: work(*values) if self._rebalance == number else None)

    def _find(self, then: Callable[[], None]) -> None:
        def coordinator_found(answer: membership.CoordinatorAnswer) -> None:
            if answer.node is None:
                self._after(RETRY_S, again)
            else:
                self._node = answer.node.node_id
                then()

        again = self._alive(lambda: self._find(then))
        asked = self.world.rng.choice(NODES)
        failed = self._alive(lambda _: self._after(RETRY_S, again))
        request = membership.FindCoordinator(0, "g", 5_000)
        self.world.send(self.client, 1, asked, request, FIND_TIMEOUT_S, self._alive(coordinator_found), failed)

    # ---- rebalances --------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        self._rebalance += 1
        self.state = "joining"
        lost = self.generation == NO_GENERATION or not self.member_id
        if lost or not self.kind.cooperative:
            self.own(set())
        if self._node is None:
            self._find(self._of_rebalance(self._join))
            return
        request = membership.Join(
            0,
            node(self._node),
            "g",
            0,
            self.member_id,
            self.instance_id,
            tuple((name, self._subscription(name)) for name in self.kind.protocols),
            "",
            int(self.kind.session_s * 1000),
            int(self.kind.rebalance_s * 1000),
        )
        failed = self._of_rebalance(self._join_failed)
        timeout_s = self.kind.rebalance_s + 5
        self.world.send(self.client, 0, self._node, request, timeout_s, self._of_rebalance(self._joined), failed)

    def _subscription(self, protocol: str) -> bytes:
        data: bytes | None = None
        if protocol == "cooperative-sticky" and self.kind.java:
            data = struct.pack(">i", self.generation)
        elif protocol == "sticky" and self.history:
            data = encode_sticky_user_data(list(self.history), self.history_generation)
        return ConsumerProtocolSubscription(
            self.kind.version,
            self.topics or self.world.subscribed,
            data,
            tuple(sorted(self.owned)),
            self.generation,
            None,
        ).encode()

    def _rejoin_soon(self) -> None:
        """Java rejoins in its next poll."""
        self.state = "joining"
        self._rebalance += 1
        self._after(self.world.rng.choice((0.0, 0.01, 0.1, 0.5)), self._of_rebalance(self._join))

    def _join_failed(self, _: membership.Failure) -> None:
        self._node = None
        self._after(RETRY_S, self._of_rebalance(self._join))

    def _joined(self, answer: membership.JoinAnswer) -> None:
        match answer.error:
            case 0:
                self._admitted(answer)
            case Code.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                self._join()
            case Code.INCONSISTENT_GROUP_PROTOCOL:
                self.world.violate(f"{self.name} is refused: INCONSISTENT_GROUP_PROTOCOL")
            case _:
                self._trouble(answer.error)
                self._after(RETRY_S, self._of_rebalance(self._join))

    def _trouble(self, error: int) -> None:
        if error in (Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE):
            self._node = None
        elif error in (Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID):
            self.member_id, self.generation = "", NO_GENERATION
            self.own(set())
        elif error == Code.ILLEGAL_GENERATION:
            self.generation = NO_GENERATION
            self.own(set())

    def _admitted(self, answer: membership.JoinAnswer) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation
        self.protocol = answer.protocol
        self.state = "syncing"
        self._heartbeat_later()
        self._leads = answer.leader == answer.member_id
        if answer.leader == answer.member_id and not answer.skip_assignment:
            delay_s = self.world.rng.uniform(0.001, 0.05)
            self._after(delay_s, self._of_rebalance(lambda: self._lead(answer)))
        else:
            self._sync(())

    def _lead(self, answer: membership.JoinAnswer) -> None:
        self._planned = self.world.topics.reported()
        self._sync(self._plan(answer))

    def _plan(self, answer: membership.JoinAnswer) -> tuple[tuple[str, bytes], ...]:
        """A Java leader knows what the members say, and nothing else."""
        members = tuple(RawMember(m.member_id, m.instance_id, m.metadata) for m in answer.members)
        raw = RawGroup("g", answer.generation, answer.protocol, members, frozenset())
        return decided(raw, self.world.topics.view(self._planned), Memory.empty(), Policy(), 0).assignments

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        if self._node is None:
            self._find(self._of_rebalance(self._join))
            return
        request = membership.Sync(
            0,
            node(self._node),
            "g",
            0,
            self.member_id,
            self.instance_id,
            self.generation,
            self.protocol,
            assignments,
        )
        self.world.send(
            self.client,
            0,
            self._node,
            request,
            SYNC_TIMEOUT_S,
            self._of_rebalance(self._synced),
            self._of_rebalance(self._join_failed),
        )

    def _synced(self, answer: membership.SyncAnswer) -> None:
        if answer.error:
            self._trouble(answer.error)
            self._rejoin_soon()
            return
        if not answer.assignment:
            self.world.violate(f"{self.name} gets zero bytes in generation {self.generation}")
            return
        self.state = "stable"
        given = self._given(answer.assignment)
        revoked = self.owned - given
        self.own(given)
        self.history, self.history_generation = tuple(sorted(given)), self.generation
        names = " ".join(f"{p.topic}{p.partition}" for p in sorted(given))
        self.world.log(f"{self.name} gets {names or 'nothing'} in generation {self.generation}")
        if revoked and self.kind.cooperative:
            self._rejoin_soon()
        elif self._leads:
            self._watch_metadata(self.generation)

    def _watch_metadata(self, generation: int) -> None:
        """A leader among the members rejoins when the topic is not what it has planned with."""

        def refresh() -> None:
            if self.state != "stable" or self.generation != generation:
                return
            if self.world.metadata and self._changed(self.world.topics.reported()):
                self.world.log(f"{self.name} sees that topics have changed")
                self._rejoin_soon()
            else:
                self._watch_metadata(generation)

        self._after(METADATA_S, refresh)

    def _changed(self, reported: Sizes) -> bool:
        return any(reported.get(topic) != self._planned.get(topic) for topic in self.world.subscribed)

    def _given(self, assignment: bytes) -> set[TopicPartition]:
        return set(ConsumerProtocolAssignment.decode(assignment).partitions)

    # ---- heartbeats --------------------------------------------------------------------------------------------------

    def _heartbeat_later(self) -> None:
        self._heartbeats += 1
        number = self._heartbeats
        self._after(self.kind.heartbeat_s, lambda: self._heartbeat() if self._heartbeats == number else None)

    def _heartbeat(self) -> None:
        if self.state not in ("stable", "syncing"):
            return
        self._heartbeat_later()
        if self._node is None:
            self._find(lambda: None)
            return
        request = membership.Heartbeat(0, node(self._node), "g", 0, self.member_id, self.instance_id, self.generation)
        sent = self.generation

        def answered(answer: membership.HeartbeatAnswer) -> None:
            if self.state == "stable" and self.generation == sent and answer.error:
                self._trouble(answer.error)
                if answer.error in (
                    Code.REBALANCE_IN_PROGRESS,
                    Code.UNKNOWN_MEMBER_ID,
                    Code.ILLEGAL_GENERATION,
                    Code.FENCED_INSTANCE_ID,
                ):
                    self._rejoin_soon()

        def failed(_: membership.Failure) -> None:
            self._node = None

        self.world.send(
            self.client, 1, self._node, request, HEARTBEAT_TIMEOUT_S, self._alive(answered), self._alive(failed)
        )
