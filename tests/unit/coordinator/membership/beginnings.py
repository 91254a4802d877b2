"""What scenarios of the membership begin with: a membership in each state, and what may then happen."""

from collections.abc import Callable
from typing import Any

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import State, Step
from tests.kit.membership import DRY_RUN, ME, Play, member
from tests.unit.coordinator.membership.takeover.takeover_scenes import (
    BAD,
    COOPERATIVE,
    FENCED,
    FIVE,
    GOOD,
    GROUP_MAX_SIZE_REACHED,
    LEADER,
    UNKNOWN,
    answered,
    client,
    dry_run_done,
    dynamic_until_named,
    evicted,
    given,
    growing,
    joins,
    paced,
    parked,
    stable,
    with_bellwether,
)

INVALID, LOADING, NOT_COORDINATOR, REBALANCE, UNEXPECTED = 24, 14, 16, 27, 99


UNSUPPORTED, MALFORMED = membership.Failure.UNSUPPORTED, membership.Failure.MALFORMED


STOP, LEAVE, PAUSE, NOTHING = (
    membership.StopRequested(),
    membership.OrdersInForce("an operator says so", ""),
    membership.OrdersInForce("", "paused"),
    membership.OrdersInForce("", ""),
)


STATIC: dict[str, Any] = {"instance_id": "bellwether"}


IMPATIENT: dict[str, Any] = {"unclear_ms_max": 0}


Begin = Callable[..., Play]


def standby(**settings: object) -> Play:
    """One of several instances, and the one that is to lead."""
    return Play(standby=True, **STATIC, **settings).send(membership.ActiveRoleChanged(active=True, reason=""))


def until(play: Play, kind: type[membership.Command]) -> Play:
    for _ in range(200):
        if any(isinstance(command, kind) for command in play.last):
            return play
        play.wake()
    raise AssertionError(f"no {kind.__name__}")


def heartbeat(play: Play, error: int) -> Play:
    return until(play, membership.Heartbeat).heartbeat(error)


def unsupported(play: Play) -> Play:
    return until(play, membership.Heartbeat).failed(membership.Heartbeat, UNSUPPORTED)


def searching(play: Play, lost: type[membership.Request] = membership.Heartbeat) -> Play:
    """The coordinator node is lost, and being found."""
    return until(until(play, lost).failed(lost), membership.FindCoordinator)


def syncing(play: Play) -> Play:
    return play.deciding().planned()


def rejoining(play: Play) -> Play:
    """JOINING, with a membership that heartbeats keep."""
    return play.stable().send(membership.RebalanceOrdered("an operator wants it"))


def coalescing(play: Play) -> Play:
    return heartbeat(play.stable_alone(), REBALANCE)


def stopping_while_deciding() -> Play:
    """The SyncGroup that the end waits for failed, and the rebalance after it is Bellwether's."""
    return stopping_while_joining().joined(member(ME), member("a"), generation=2)


def stopping_while_joining() -> Play:
    return until(syncing(Play()).send(STOP).synced(LOADING), membership.Join)


def stopping_while_deciding_late() -> Play:
    return stopping_while_joining().later(4).joined(member(ME), member("a"), generation=2)


def leaving(play: Play) -> Play:
    return play.stable().send(LEAVE)


def follower(play: Play) -> Play:
    """A take-over under an instance id, in a rebalance that named the old leader."""
    paced(stable(play.coordinator_found()).send(membership.ComparisonReady(DRY_RUN, worth_moving=False)))
    given(play, "blocker").wake().described("PreparingRebalance", *with_bellwether(GOOD))
    return answered(evicted(play), LEADER)


def removing(play: Play) -> Play:
    return evicted(follower(play).synced())


def replacing() -> tuple[Play, int]:
    """With the number of the JoinGroup that is being replaced."""
    play = parked()
    first = play.requests[membership.Join]
    return play.wake().described("PreparingRebalance", *with_bellwether(BAD)), first


def replaced() -> Play:
    play, first = replacing()
    return play.send(membership.JoinAnswer(first, FENCED, member_id=BAD))


def refused_temporary() -> Play:
    play = growing()
    return play.send(membership.JoinAnswer(joins(play)[0].request_id, GROUP_MAX_SIZE_REACHED))


def reopening(**settings: object) -> Play:
    """In a second rebalance that a barrier holds open."""
    play = answered(given(dry_run_done(COOPERATIVE, **settings), GOOD).later(0.7), LEADER, protocol=COOPERATIVE)
    again = next(command for command in play.last if isinstance(command, membership.Join))
    given(play, "blocker")
    play.requests[membership.Join] = again.request_id
    return play


def holding() -> Play:
    return reopening(members=FIVE).wake()


def returning() -> Play:
    back = (*FIVE[1:], client("m-new", "leader"))
    play = evicted(dynamic_until_named(members=FIVE))
    return play.described("PreparingRebalance", client(GOOD, "bw"), *back)


def instance_takeover() -> Play:
    return standby(adopt="take-over")


def search_refused(play: Play, lost: type[membership.Request] = membership.Heartbeat) -> Play:
    return searching(play, lost).coordinator_found(error=INVALID)


def heartbeats(begin: Callable[[Play], Play]) -> dict[State, Callable[[], Play]]:
    return {
        State.LEAVING: lambda: heartbeat(begin(Play(**IMPATIENT)), UNEXPECTED),
        State.WATCHING: lambda: heartbeat(begin(Play()), UNKNOWN),
        State.STOPPED: lambda: heartbeat(begin(Play()), FENCED),
    }


def named(begin: Begin, **settings: object) -> dict[Step, Callable[[], Play]]:
    """Another leads, and what is done about it goes by the protocol."""
    return {
        Step.HOLDING: lambda: answered(begin(**settings), LEADER, protocol="stream"),
        Step.REOPENING: lambda: answered(begin(**settings), LEADER, protocol=COOPERATIVE),
        Step.WORKING: lambda: answered(begin(**settings), LEADER),
    }
