"""A group that another member leads, and a membership on its way into it: what the scenarios of take-overs begin
with."""

from itertools import islice

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import SizeLimit, State
from tests.kit.membership import DRY_RUN, BrokerTable, Play, member, spread_hash

PACE_ID = "bellwether-measures-the-pace"  # under which no member has ever joined
REQUIRED, UNKNOWN, FENCED, IN_PROGRESS = 79, 25, 82, 27
GROUP_MAX_SIZE_REACHED = 81


def ids(bucket: int, count: int, *, prefix: str = "m") -> list[str]:
    """Ids in this bucket of any table of up to 256, whatever the order: their hashes are small and positive."""
    candidates = (f"{prefix}-{i}" for i in range(100_000) if spread_hash(f"{prefix}-{i}") & 255 == bucket)
    return list(islice(candidates, count))


GOOD, (BAD, ALSO_BAD, WORSE) = ids(0, 1, prefix="bellwether")[0], ids(15, 3, prefix="bellwether")
LEADER, OTHER, THIRD, FOURTH, FIFTH = (ids(bucket, 1)[0] for bucket in (5, 7, 11, 13, 14))
FRONT = ids(16, 1)[0]  # in the first bucket of a table of 16 buckets, and of none that is larger
ALWAYS_FRONT = ids(0, 1)[0]


def client(member_id: str, name: str, instance: str | None = None) -> membership.DescribedMember:
    return membership.DescribedMember(member_id, instance, b"m", b"a", name, "/127.0.0.1")


GROUP = (client(LEADER, "leader"), client(OTHER, "other"), client(THIRD, "third"))
FIVE = (*GROUP, client(FOURTH, "fourth"), client(FIFTH, "fifth"))
FOUR = (client(FRONT, "front"), *GROUP)

COOPERATIVE = "cooperative-sticky"


def stable(play: Play, *members: membership.DescribedMember, protocol: str = "range") -> Play:
    return play.described("Stable", *(members or GROUP), protocol=protocol)


def seeing(
    protocol: str = "range", members: tuple[membership.DescribedMember, ...] = GROUP, **settings: object
) -> Play:
    return stable(Play(adopt="take-over", **settings).coordinator_found(), *members, protocol=protocol)


def pacing(
    protocol: str = "range", members: tuple[membership.DescribedMember, ...] = GROUP, **settings: object
) -> Play:
    """After the dry run: under an instance id it measures how fast ids can be tried."""
    return seeing(protocol, members, **settings).send(membership.ComparisonReady(DRY_RUN, worth_moving=False))


def paced(
    play: Play,
    members: tuple[membership.DescribedMember, ...] = GROUP,
    answer_s: float = 0.001,
    *,
    described_first: bool = False,
) -> Play:
    """Each answer takes this long; a try has two."""
    while play.state is State.APPROACHING and asks_for_pace(play):
        play.later(answer_s)
        if described_first:
            stable(play, *members).refused(UNKNOWN)
        else:
            stable(play.refused(UNKNOWN), *members)
    return play


def asks_for_pace(play: Play) -> bool:
    return any(isinstance(command, membership.Join) and command.member_id == PACE_ID for command in play.last)


def dry_run_done(
    protocol: str = "range", members: tuple[membership.DescribedMember, ...] = GROUP, **settings: object
) -> Play:
    play = pacing(protocol, members, **settings)
    return paced(play, members) if settings.get("instance_id") else play


def gathering(**settings: object) -> Play:
    """One of four members comes before any new id in a table of 16 buckets: nine temporary members make 32 of it."""
    return dry_run_done(members=FOUR, size_limit=SizeLimit(1_000), **settings)


def joins(play: Play) -> list[membership.Join]:
    return [command for command in play.last if isinstance(command, membership.Join)]


def gathered(**settings: object) -> Play:
    """All temporary members have ids, "t-1" and so on."""
    play = gathering(**settings)
    for number, join in enumerate(joins(play), 1):
        play.send(membership.JoinAnswer(join.request_id, REQUIRED, member_id=f"t-{number}"))
    return play


def growing(**settings: object) -> Play:
    """The temporary members are on their way into the rebalance, which Bellwether's own pending id holds open."""
    play = gathered(**settings)
    return given(play, "blocker" if "instance_id" in settings else GOOD)


def in_order(*members: membership.DescribedMember, buckets: int = 32) -> tuple[membership.DescribedMember, ...]:
    """As Kafka 4 lists them."""
    return tuple(sorted(members, key=lambda m: spread_hash(m.member_id) & (buckets - 1)))


def shrinking(**settings: object) -> Play:
    """They have been seen, and have been sent away."""
    play = growing(**settings).wake()
    temporary = (client(f"t-{number}", "bw") for number in range(1, 10))
    return play.described("PreparingRebalance", *in_order(*FOUR, *temporary))


def evicted(play: Play, error: int = 0) -> Play:
    return play.send(membership.LeaveAnswer(play.requests[membership.Evict], error))


def given(play: Play, member_id: str) -> Play:
    return play.refused(REQUIRED, member_id=member_id)


def answered(play: Play, leader: str, member_id: str = GOOD, generation: int = 5, protocol: str = "range") -> Play:
    members = [member(member_id), member(OTHER)] if leader == member_id else []
    return play.joined(*members, generation=generation, leader=leader, member_id=member_id, protocol=protocol)


def dynamic_until_named(members: tuple[membership.DescribedMember, ...] = GROUP, **settings: object) -> Play:
    """Parked with a good id when the rebalance ends and names the old leader, whose assignment is then in force."""
    return answered(given(dry_run_done(members=members, **settings), GOOD), LEADER).synced()


def evictions(play: Play) -> list[tuple[tuple[str, ...], int | None]]:
    """Who is removed by the last answer, and on which lane."""
    return [(command.member_ids, command.lane) for command in play.last if isinstance(command, membership.Evict)]


def parked(**settings: object) -> Play:
    """With a barrier, the first static id in the rebalance of cooperative members, and an id to open the next with."""
    play = dry_run_done(COOPERATIVE, instance_id="bellwether", **settings)
    assert play.sent(membership.Join).instance_id is None
    own, opener = (command for command in given(play, "blocker").last if isinstance(command, membership.Join))
    assert (own.instance_id, own.lane, opener.instance_id, opener.lane) == ("bellwether", 0, None, 1)
    given(play, "opener")
    play.requests[membership.Join] = own.request_id  # the other one has been answered
    return play


def with_bellwether(member_id: str) -> tuple[membership.DescribedMember, ...]:
    bellwether = client(member_id, "bw", "bellwether")
    return (bellwether, *GROUP) if member_id == GOOD else (*GROUP, bellwether)


def waiting(play: Play) -> Play:
    return play.described("PreparingRebalance", *GROUP)


def has_waited(play: Play) -> Play:
    """A rebalance that has been open for longer than ordinary ones."""
    for _ in range(6):
        waiting(play)
        if play.kinds():
            return play
        play.wake()
    raise AssertionError("it never tried")


def before_removal(**settings: object) -> Play:
    """The leader is proven to be dead, and is to be removed once Bellwether is in front."""
    answer = membership.DescribeAnswer(0, 0, "PreparingRebalance", "consumer", members=GROUP)
    return stable(Play(**settings).coordinator_found()).send(membership.DeathsProven(answer, (LEADER,)))


MEMBERS = 40


TABLE = BrokerTable(buckets=64)


def crowd() -> tuple[membership.DescribedMember, ...]:
    """Many members, none in the first slot, as the broker lists them."""
    names = (f"consumer-{number}" for number in range(10 * MEMBERS))
    chosen = [name for name in names if not TABLE.unavoidable([name])][:MEMBERS]
    return in_order(*(client(name, name) for name in chosen), buckets=TABLE.buckets)


CROWD = crowd()
