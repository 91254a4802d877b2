"""The groups that the lead tests run: clients, assignors, topics, how a plan is judged, and who can be taken over."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import Forecasts, MembershipConfig, tables
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, TopicPartition, wait_settled, wait_until
from tests.interop.support.raw import GroupMember, RawError, describe
from tests.interop.support.rebalances import last_rebalance
from tests.kit.membership import BrokerTable

RACKS = ("az1", "az2", "az3")
# Clients that send client.rack.
RACKED = frozenset({"java", "confluent", "franz-go"})
# Clients that refuse to subscribe to a topic that does not exist yet.
IMPATIENT = frozenset({"aiokafka", "sarama"})
SESSION_MS = 6_000
# librdkafka and franz-go join with the topics that they have seen: how soon they see a new one is up to them.
METADATA_MS = "10000"
# For tests, which must hold on slow machines: ids come slowly there, and so do removed leaders.
PATIENT: Mapping[str, int] = {
    "session_timeout_ms": 30_000,
    "roll_ms_max": 10_000,
    "hold_ms_max": 10_000,
    "takeover_attempts_max": 20,
    "takeovers_in_vain_max": 20,
}
# Sessions of applications end early, and so does the time for all this; but one may try again.
PATIENT_WITH_APPLICATIONS = {name: PATIENT[name] for name in ("takeover_attempts_max", "takeovers_in_vain_max")}
CHANGES_MAX = 60  # members that are restarted until the leader is of the wished kind
SIZE_MAX = 2**31 - 1  # group.max.size by default


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A group of clients: member i is of kind `kinds[i % len(kinds)]` and, where it can be, in rack i % 3."""

    name: str
    kinds: tuple[str, ...]
    assignors: tuple[str, ...]

    @property
    def rack_aware(self) -> bool:
        return set(self.kinds) <= RACKED

    @property
    def takes_new_topics(self) -> bool:
        return IMPATIENT.isdisjoint(self.kinds)

    def member(
        self, flock: Flock, group: str, topics: tuple[str, ...], number: int, *, own_process: bool = False
    ) -> Member:
        kind = self.kinds[number % len(self.kinds)]
        rack = RACKS[number % len(RACKS)] if kind in RACKED else None
        return flock.member(
            kind,
            group,
            topics,
            self.assignors,
            rack=rack,
            session_ms=SESSION_MS,
            own_process=own_process,
            metadata_ms=METADATA_MS,
        )


GROUPS = (
    GroupKind("java-range", ("java",), ("range",)),
    GroupKind("java-cooperative", ("java",), ("cooperative-sticky",)),
    GroupKind("java-default", ("java",), ("range", "cooperative-sticky")),
    GroupKind("confluent-range", ("confluent",), ("range",)),
    GroupKind("confluent-cooperative", ("confluent",), ("cooperative-sticky",)),
    GroupKind("kafka-python-range", ("kafka-python",), ("range",)),
    GroupKind("kafka-python-cooperative", ("kafka-python",), ("cooperative-sticky",)),
    GroupKind("aiokafka", ("aiokafka",), ("roundrobin",)),
    GroupKind("franz-go", ("franz-go",), ("cooperative-sticky",)),
    GroupKind("sarama", ("sarama",), ("sticky",)),
    GroupKind("kafka-go", ("kafka-go",), ("range",)),
    GroupKind("mixed", ("java", "confluent", "sarama", "franz-go"), ("range",)),
)


def create_local_topic(cluster: KafkaCluster, name: str, partitions: int) -> None:
    """A topic whose partition p has one replica, in rack p % 3."""
    cluster.create_topic(name, assignment=[[p % len(RACKS) + 1] for p in range(partitions)])


def foreign(owners: Mapping[TopicPartition, Member]) -> list[TopicPartition]:
    """Partitions of local topics whose owner is in another rack."""
    return [tp for tp, owner in owners.items() if owner.fields.get("rack") != RACKS[tp[1] % len(RACKS)]]


def unpassed(kafka: KafkaCluster, group: str, leader_kind: str = "") -> list[GroupMember]:
    """`in_the_way` of a group as the broker describes it now."""
    return in_the_way(describe(kafka.bootstrap, group).members, last_rebalance(kafka, group).leader, leader_kind)


def in_the_way(listing: Sequence[GroupMember], leader: str, leader_kind: str = "") -> list[GroupMember]:
    """The members that keep Bellwether from a take-over, be it the first or that after an absence: those in the first
    slot of the broker's table, where no member id sorts first, and the leader where it is not of this kind. The present
    leader counts among the former, because Bellwether does not know it before it joins. All of them, if too few member
    ids would sort first (`forecast`). Bellwether's own is none of them.

    Member ids are the broker's, and one in sixteen is in that slot (see `succession`).
    """
    members = {m.member_id: m for m in listing if m.instance_id != INSTANCE}
    table = BrokerTable().grown(len(members) + 1)
    wrong = {leader} & members.keys() if leader_kind and f"-{leader_kind}-" not in leader else set()
    ahead = {*table.unavoidable(members)} | wrong
    if not ahead and not _can_be_taken_over([*members]):
        return [*members.values()]
    return [members[member_id] for member_id in ahead]


def _can_be_taken_over(member_ids: list[str]) -> bool:
    """Returns whether `doctor` says that a take-over with the default settings begins."""
    config = MembershipConfig("", instance_id=INSTANCE)
    possible = tables(member_ids)
    return (
        not possible
        or Forecasts().forecast(member_ids, possible, "", config.evictions_max, SIZE_MAX, config.tries_max()).begins
    )


def until_unrivalled(
    kafka: KafkaCluster,
    group: str,
    settle: Callable[[], object],
    restart: Callable[[GroupMember], object],
    leader_kind: str = "",
) -> None:
    """Restarts members until `unpassed` names none."""
    for _ in range(CHANGES_MAX):
        settle()
        ahead = unpassed(kafka, group, leader_kind)
        if not ahead:
            return
        for member in ahead:
            restart(member)
    raise AssertionError("no group with such a leader and without a rival")


def until_led(
    kafka: KafkaCluster,
    group: str,
    lead: Bellwether,
    restart: Callable[[GroupMember], object],
    limit_s: float = 60.0,
    led: Callable[[], bool] | None = None,
) -> None:
    """Waits until Bellwether has led the last rebalance, or for `led`. Whenever it reports that it is blocked, restarts
    what `unpassed` names, or any member: of 60 groups of two or three members one cannot be taken over
    (docs/guides/adoption.md#safeguards)."""
    reported = 0

    def led_last() -> bool:
        return last_rebalance(kafka, group).leader.startswith(f"{INSTANCE}-")

    def done() -> bool:
        nonlocal reported
        blocked = len(lead.log("role", group=group, reason="blocked"))
        if (led or led_last)():
            return True
        if blocked > reported:
            reported = blocked
            present = [m for m in describe(kafka.bootstrap, group).members if m.instance_id != INSTANCE]
            for member in unpassed(kafka, group) or present[:1]:
                restart(member)
        return False

    wait_until(done, limit_s, lambda: lead.log_of(group))


def wait_at_rest(kafka: KafkaCluster, group: str, count: int, limit_s: float = 60.0) -> None:
    """Waits until the broker has so many members besides Bellwether, and no rebalance. What members own does not show
    one that joins late, or hears of the rebalance at its next heartbeat only."""

    def at_rest() -> bool:
        try:
            description = describe(kafka.bootstrap, group)
        except RawError:  # its coordinator node is still loading it
            return False
        return description.state == "Stable" and sum(m.instance_id != INSTANCE for m in description.members) == count

    wait_until(at_rest, limit_s, lambda: f"{group}: {describe(kafka.bootstrap, group)}")


def without_members_in_the_way(
    kafka: KafkaCluster,
    members: Sequence[Member],
    group: str,
    expected: frozenset[TopicPartition],
    leader_kind: str = "",
) -> None:
    """`until_unrivalled` of plain consumers, which are at rest then."""
    named = {member.name: member for member in members}

    def settle() -> None:
        wait_at_rest(kafka, group, len(members))
        wait_settled(members, expected)

    def restart(member: GroupMember) -> None:
        named[member.client_id].stop()
        named[member.client_id].start()

    until_unrivalled(kafka, group, settle, restart, leader_kind)
