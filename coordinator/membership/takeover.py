"""The take-over of a running group: a state machine without I/O for one attempt.

When a group's leader leaves, the broker elects the first member in the order of its hash table. So an attempt:

-  With an instance id, where members wait for step 1: first measures how fast ids can be tried, and ends there if too
   few could be tried in time. Members of a stable group do not notice that.
0. Makes the table grow if existing members would sort before any new id (`table_growth`). Temporary members reserve
   their ids while the group is stable. When a pending id of Bellwether's holds the rebalance open (step 1), they join
   it and leave at once.
1. Gets a member id that sorts first. Without an instance id: requests ids, which members of a stable group do not
   notice, and gives unsuitable ones back once it has a good one. With one: reserves a pending id that holds the
   rebalance open (the blocker), joins, and joins again under the same instance id until the id is good; each id
   replaces the one before. Then releases the blocker.
2. Reads from the answer to that JoinGroup which member leads. If it is Bellwether: done. If Bellwether may not remove
   another member: leaves.
3. Removes the leader by LeaveGroup, and with it the members that would lead before Bellwether, but never while a
   SyncGroup of theirs may be parked: the broker answers a removed member's parked JoinGroup (UNKNOWN_MEMBER_ID), but
   forgets its parked SyncGroup, so that the client waits for its request timeout. To disturb as few as possible:
   - Cooperative members keep their partitions in a rebalance. A second rebalance, opened before the first is assigned,
     answers every SyncGroup with REBALANCE_IN_PROGRESS. To open it, another reserved id (the opener) joins the first
     one, and its LeaveGroup is queued behind its JoinGroup on one connection. So the broker reads it as soon as that
     rebalance has ended, before most leaders can have planned. The blocker is released when both have been sent. The
     leader is removed when members have had as long as they needed for the first rebalance. The second one ends when
     Bellwether joins it, once the leader is back under another id. Without an id for the opener, Bellwether opens it
     by joining with a changed list of protocols.
   - Streams: if only the leader has to go, it is removed at once, because Java's leaders take longer to plan. The
     rebalance that this opens ends when Bellwether joins it, once the leader is back.
   - Eager members stop for a rebalance. For them, and for Streams if another member has to go too, the leader's
     assignment takes effect first, so that all members work in between; then the leader is removed. The rebalance that
     this opens ends when Bellwether joins it, once the leader is back. (One stop instead of two was tried and took
     longer than both: librdkafka joins at most once a second.)
4. Checks the answer. If it names another leader, removes that too if the limit allows it; otherwise the attempt failed.

`takeover_search` has the measurement and steps 0 and 1, this module the others. `transitions` declares the steps and
edges. The caller must give back the pending ids in `ids_to_give_back` as soon as a rebalance waits for them, but not in
a stable group, where that begins one (4.3).

Call `takeover_search.begin`, then pass answers to `answered`, and call `wake` at `due`, until one of them returns an
outcome.
"""

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership import takeover_search as search
from bellwether_kafka.coordinator.membership.config import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.role import Code
from bellwether_kafka.coordinator.membership.takeover_attempt import (
    COOPERATIVE,
    LANES,
    Attempt,
    Failed,
    Outcome,
    TakenOver,
    refused,
)
from bellwether_kafka.coordinator.membership.transitions import Step

EVICTED = "another member takes the lead"


def answered(a: Attempt, kind: Kind, event: events.Answer, now: float) -> Outcome:
    a.now = now
    a.position.trigger = type(event)
    match event:
        case events.JoinAnswer() if kind is Kind.TEMPORARY:
            return search.temporary_answered(a, event)
        case events.JoinAnswer() if kind is Kind.BLOCKER:
            return search.blocker_answered(a, event)
        case events.JoinAnswer():
            return _joined(a, kind, event)
        case events.SyncAnswer():
            return _synced(a, event)
        case events.LeaveAnswer():
            return _left(a, kind, event)
        case events.DescribeAnswer():
            return _described(a, event)
    return None


def wake(a: Attempt, now: float) -> Outcome:
    a.now = now
    a.position.trigger = Timer.TAKEOVER
    a.due = None
    match a.step:
        case Step.GATHERING:
            return Failed("the broker did not give ids to all temporary members in time")
        case Step.REOPENING if not (a.next_is_open or a.blocker):
            a.describe_later()
        case Step.REOPENING:  # members have had as long as they needed for the first rebalance
            _evict(a)
        case Step.WORKING:
            # The leader still plans: its SyncGroup will arrive after its removal, while those of others are parked, so
            # those members are removed after it.
            a.requests.abandon(Kind.SYNC)
            a.behind = a.ahead
            _evict(a)
        case _:
            a.requests.describe()
    return None


def _joined(a: Attempt, kind: Kind, answer: events.JoinAnswer) -> Outcome:
    match answer.error:
        case Code.NONE:
            return _named(a, answer)
        case Code.UNKNOWN_MEMBER_ID if a.step is Step.PACING and a.plan.foreseen is not None:
            return search.paced(a, a.plan.foreseen)
        case Code.MEMBER_ID_REQUIRED if a.step is Step.ROLLING:
            return search.id_given(a, answer.member_id)
        case Code.FENCED_INSTANCE_ID if kind is not LANES[a.lane]:
            search.replaced(a)
            return None
    return refused("JOIN", answer.error)


def _described(a: Attempt, answer: events.DescribeAnswer) -> Outcome:
    if answer.error:
        return refused("DESCRIBE", answer.error)
    match a.step:
        case Step.PACING if a.plan.foreseen is not None:
            return search.pace_described(a, a.plan.foreseen, answer)
        case Step.GROWING:
            search.growth_described(a, answer.members)
        case Step.PARKING | Step.REPLACING:
            return search.own_described(a, answer.members)
        case Step.HOLDING:
            _hold(a, answer.members)
    return None


def _left(a: Attempt, kind: Kind, answer: events.LeaveAnswer) -> Outcome:
    match kind:
        case Kind.OPEN:
            a.opener = ""
        case Kind.GIVE_BACK if a.step is Step.CLEARING:
            search.cleared(a)
        case Kind.GIVE_BACK:
            a.released = ""
        case Kind.SHRINK:
            return search.shrunk(a)
        case _ if answer.error not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
            return refused(f"LEAVE of {a.leader}", answer.error)
        case _ if a.behind:
            a.requests.evict(a.behind, EVICTED)
            a.behind = ()
        case _:
            a.requests.describe()
    return None


# ---- removing the leader -------------------------------------------------------------------------------------------


def _named(a: Attempt, answer: events.JoinAnswer) -> Outcome:
    """Handles the answer that ends a rebalance and names its leader."""
    a.alive_at = a.now
    a.forget()
    a.requests.admitted(answer)
    if answer.leader == answer.member_id and not answer.skip_assignment:
        return TakenOver(answer)
    a.leader = answer.leader
    if not answer.leader or not a.evictions:
        return Failed(f"{answer.leader or 'no member'} leads the group")
    a.ahead = a.listing.ahead(answer.member_id, answer.leader, another_comes=a.opens_next)
    if len(a.ahead) >= a.evictions:
        return Failed(f"{answer.leader} leads the group, and {a.ahead[0]} would be next")
    if answer.protocol == STREAMS_PROTOCOL and not a.ahead:
        _evict(a)
    elif answer.protocol == COOPERATIVE:
        _reopen(a)
    else:
        a.go(Step.WORKING)
        a.requests.sync(())
        a.due = a.now + a.config.hold_ms_max / 1000
    return None


def _reopen(a: Attempt) -> None:
    a.go(Step.REOPENING)
    a.next_is_open, a.opens_next = a.opens_next, False
    if not a.next_is_open:
        a.come_back(changed=True)
        if not a.blocker:
            a.reserve()
    a.due = a.now + min(a.now - a.parked_at, a.config.roll_ms_max / 1000)


def _synced(a: Attempt, answer: events.SyncAnswer) -> Outcome:
    a.alive_at = a.now
    if answer.error not in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
        return refused("SYNC", answer.error)
    _evict(a)
    return None


def _evict(a: Attempt) -> None:
    # The session has run since the broker's last request from Bellwether. `check_timing` allows for both waits.
    a.limit = a.alive_at + (a.config.roll_ms_max + a.config.hold_ms_max) / 1000
    a.due = None
    a.go(Step.HOLDING)
    together = (a.leader, *(member_id for member_id in a.ahead if member_id not in a.behind))
    a.removed = (a.leader, *a.ahead)
    a.evictions -= len(a.removed)
    a.evicted = (*a.evicted, *a.removed)
    a.requests.evict(together, EVICTED)


def _hold(a: Attempt, members: tuple[events.DescribedMember, ...]) -> None:
    """Holds the rebalance open until the removed members are back or time is up, then joins it."""
    if not a.listing.are_back(a.removed, members) and a.now <= a.limit:
        a.describe_later()
        return
    a.listing.members = members
    a.go(Step.RETURNING)
    if a.blocker:
        search.release(a)
    else:
        a.come_back()
