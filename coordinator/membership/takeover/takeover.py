"""Coming into a running group and leading it: a small state machine without IO, one attempt long.

A group is led by the first member in the order of the broker's hash table once its leader is gone. So:

0. Where members come before any new id in the table as it is: make it grow (`table_growth`). Temporary members reserve
   their ids while the group is at rest. When the barrier of step 1 is there, they come into the rebalance and leave at
   once; it cannot end meanwhile.
1. Get a member id that sorts first. Without an instance id: request ids and give the others back; a group at rest
   notices nothing. With one: reserve a pending id first, which holds the rebalance open (the barrier), join, and join
   again under the same instance id until the id is good; each replaces the one before. Then let the barrier go.
2. The answer to that JoinGroup names the leader. If that is Bellwether: done. If it may remove no other: leave.
3. Remove the leader by LeaveGroup, and with it who would lead before Bellwether, but never while a SyncGroup of theirs
   may be with the broker: the broker answers a parked
   JoinGroup of a removed member (UNKNOWN_MEMBER_ID), and forgets a parked SyncGroup, so that the client waits for its
   request timeout. Hence, so that as few as possible notice:
   - members that keep their partitions in a rebalance (cooperative): a second rebalance, which answers every SyncGroup
     with REBALANCE_IN_PROGRESS, opened before the first has been assigned. Another reserved id comes into the first one
     as a member, and its LeaveGroup waits behind its JoinGroup on one connection, so that the broker reads it as soon
     as that rebalance has ended, before most leaders can have planned. The barrier goes when both have been sent.
     Remove the leader when members have had as long as they needed for the first rebalance. The second one ends when
     Bellwether joins it: when the leader is back under another id. Where there is no id to spare, a changed list of
     protocols opens it.
   - Streams: remove it at once, where it is the only one. Its leaders are Java's, whose plans take longer; the
     rebalance that this opens ends when Bellwether joins it, which it does when the leader is back.
   - members that stop for a rebalance (eager), and Streams where another is removed with the leader: let the leader's
     assignment take effect first, so that everybody works between the two; then remove it. The rebalance that this
     opens ends when Bellwether joins it, which it does when the leader is back. (One stop for both was tried, and was
     longer than the two: librdkafka joins at most once a second.)
4. The answer is checked: if it names another, that one is removed too if so many may be, or the attempt has failed.

`growth` has step 0, `own_id` step 1, `removal` the others. The steps and what may follow what are in `transitions`.
The caller cleans up: `debts` are the pending ids that it must give back.
"""

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.broker_order import Listing, grown
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.errors import Code
from bellwether_kafka.coordinator.membership.requests import Kind, Requests, Timer
from bellwether_kafka.coordinator.membership.takeover.growth import TableGrowing
from bellwether_kafka.coordinator.membership.takeover.own_id import OwnId
from bellwether_kafka.coordinator.membership.takeover.own_joins import OwnJoins, PendingIds, TemporaryMembers
from bellwether_kafka.coordinator.membership.takeover.removal import LeaderRemoval
from bellwether_kafka.coordinator.membership.takeover.state import Failed, Outcome, TakeoverState, refused
from bellwether_kafka.coordinator.membership.takeover_policy import TakeoverAttempt
from bellwether_kafka.coordinator.membership.transitions import TAKEOVER, OnEdge, Position, Step

# Steps in which the broker has no member of Bellwether's but temporary ones.
NOT_IN_YET = (Step.GATHERING, Step.ROLLING, Step.CLEARING, Step.BARRING, Step.GROWING, Step.SHRINKING)
AT_REST = (Step.GATHERING, Step.ROLLING, Step.CLEARING, Step.BARRING)  # of these no member notices anything


class Takeover:
    """One attempt. `begin`, then pass on answers and wake it when `due`, until there is an outcome."""

    def __init__(
        self, requests: Requests, config: MembershipConfig, attempt: TakeoverAttempt, metadata: bytes, on_edge: OnEdge
    ) -> None:
        self.began = 0.0
        after = grown(attempt.tables, len(attempt.listing) + attempt.temporary) if attempt.temporary else attempt.tables
        first = Step.ROLLING if config.instance_id is None else Step.BARRING
        self._state = TakeoverState(
            requests=requests,
            config=config,
            position=Position[Step](TAKEOVER, Step.GATHERING if attempt.temporary else first, on_edge),
            listing=Listing(attempt.listing, after, config.instance_id),
            joins=OwnJoins(requests, metadata),
            pending=PendingIds(),
            evictions=attempt.evictions,
        )
        temporary = TemporaryMembers(requests, metadata, attempt.temporary)
        self._growth = TableGrowing(self._state, temporary, attempt.tables)
        self._own_id = OwnId(self._state, self._growth, first)
        self._removal = LeaderRemoval(self._state, self._own_id)

    @property
    def due(self) -> float | None:
        return self._state.due

    @property
    def tries(self) -> int:
        return self._state.joins.tries

    @property
    def leader(self) -> str:
        """The one that an answer has named, "" before."""
        return self._removal.leader

    @property
    def evicted(self) -> tuple[str, ...]:
        return self._removal.evicted

    @property
    def in_front(self) -> str:
        """Bellwether's id where it is parked and sorts first, "" before."""
        return self._state.listing.own if self._state.step is Step.PARKED else ""

    @property
    def debts(self) -> tuple[str, ...]:
        """Ids of Bellwether's that the broker may still wait for."""
        return (*self._state.pending.all, *self._growth.temporary.ids)

    @property
    def room(self) -> int | None:
        """So many members were too many for the broker; None where it has taken all."""
        return self._growth.room

    @property
    def disturbs(self) -> bool:
        """Members have noticed the attempt, or are about to."""
        return self._state.step not in AT_REST

    @property
    def joined(self) -> bool:
        """The broker may have a member of Bellwether's, whose id Bellwether needs not know."""
        return self._state.step not in NOT_IN_YET

    def begin(self, now: float) -> None:
        self._state.now = self.began = now
        if self._state.step is Step.GATHERING:
            self._growth.reserve()
        else:
            self._own_id.begin()

    def answered(self, kind: Kind, event: events.Answer, now: float) -> Outcome:
        state = self._state
        state.now = now
        state.position.trigger = type(event)
        match event:
            case events.JoinAnswer() if kind is Kind.TEMPORARY:
                return self._temporary_answered(event)
            case events.JoinAnswer() if kind is Kind.BLOCKER:
                return self._own_id.blocker_answered(event)
            case events.JoinAnswer():
                return self._join_answered(kind, event)
            case events.SyncAnswer():
                return self._removal.synced(event)
            case events.LeaveAnswer():
                return self._leave_answered(kind, event)
            case events.DescribeAnswer() if event.error:
                return refused("DESCRIBE", event.error)
            case events.DescribeAnswer():
                return self._described(event)
        return None

    def wake(self, now: float) -> Outcome:
        state = self._state
        state.now = now
        state.position.trigger = Timer.TAKEOVER
        state.due = None
        match state.step:
            case Step.GATHERING:
                return Failed("the broker did not give ids to all temporary members in time")
            case Step.REOPENING:
                self._removal.reopening_is_due()
            case Step.WORKING:
                self._removal.evict_before_it_has_planned()
            case _:
                state.requests.describe()
        return None

    def _temporary_answered(self, answer: events.JoinAnswer) -> Outcome:
        growth, state = self._growth, self._state
        if state.step is Step.GROWING:
            growth.came(answer)
        if state.step is not Step.GATHERING:
            return None  # the broker answers what it had parked of those that leave
        failed = growth.reserved(answer)
        if failed is None and growth.temporary.reserved:
            state.due = None
            state.go(self._own_id.first_step)
            self._own_id.begin()
        return failed

    def _join_answered(self, kind: Kind, answer: events.JoinAnswer) -> Outcome:
        state = self._state
        if answer.error == Code.MEMBER_ID_REQUIRED and state.step is Step.ROLLING:
            return self._own_id.given(answer.member_id)
        if answer.error == Code.FENCED_INSTANCE_ID and not state.joins.is_current(kind):
            self._own_id.replaced()
            return None
        return refused("JOIN", answer.error) if answer.error else self._removal.named(answer)

    def _leave_answered(self, kind: Kind, answer: events.LeaveAnswer) -> Outcome:
        state = self._state
        match kind:
            case Kind.OPEN:
                state.pending.opener = ""
            case Kind.GIVE_BACK if state.step is Step.CLEARING:
                self._own_id.cleared()
            case Kind.GIVE_BACK:
                state.pending.released = ""
            case Kind.SHRINK:
                failed = self._growth.shrunk()
                if failed is not None:
                    return failed
                self._own_id.park()
            case _:
                return self._removal.left(answer)
        return None

    def _described(self, answer: events.DescribeAnswer) -> Outcome:
        match self._state.step:
            case Step.GROWING:
                self._growth.described(answer.members)
            case Step.PARKING:
                return self._own_id.described(answer.members)
            case Step.HOLDING:
                self._removal.described(answer.members)
        return None
