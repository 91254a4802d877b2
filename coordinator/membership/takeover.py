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

`takeover_search` implements the measurement and steps 0 and 1, this module the others. `transitions` declares the
steps and edges. The caller must give back the pending ids in `state.ids_to_give_back` as soon as a rebalance waits for
them, but not in a stable group, where that begins one (4.3).
"""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.broker_order import Listing, grown
from bellwether_kafka.coordinator.membership.config import STREAMS_PROTOCOL, MembershipConfig
from bellwether_kafka.coordinator.membership.requests import Kind, Requests, Timer
from bellwether_kafka.coordinator.membership.role import Code
from bellwether_kafka.coordinator.membership.takeover_attempt import (
    COOPERATIVE,
    Attempt,
    Failed,
    Outcome,
    TakenOver,
    refused,
)
from bellwether_kafka.coordinator.membership.takeover_policy import TakeoverAttempt
from bellwether_kafka.coordinator.membership.takeover_search import OwnId, PaceMeasuring, TableGrowing
from bellwether_kafka.coordinator.membership.transitions import TAKEOVER, OnEdge, Position, Step

EVICTED = "another member takes the lead"
AT_REST = (Step.PACING, Step.GATHERING, Step.ROLLING, Step.CLEARING, Step.BARRING)  # no member notices these steps
# Steps in which Bellwether has no members in the group, except temporary ones.
NOT_IN_YET = (*AT_REST, Step.GROWING, Step.SHRINKING)
SEARCH = (*NOT_IN_YET, Step.PARKING, Step.REPLACING)  # steps on the way to a member id


class Takeover:
    """One attempt. Call `begin`, then pass it answers, and call `wake` when `state.due`, until one of them returns an
    outcome."""

    def __init__(
        self, requests: Requests, config: MembershipConfig, attempt: TakeoverAttempt, metadata: bytes, on_edge: OnEdge
    ) -> None:
        self.began = 0.0
        after = grown(attempt.tables, len(attempt.listing) + attempt.temporary) if attempt.temporary else attempt.tables
        first = Step.ROLLING if config.instance_id is None else Step.BARRING
        self._after_pacing = Step.GATHERING if attempt.temporary else first
        paced = config.instance_id is not None and attempt.foreseen is not None
        self.state = Attempt(
            requests=requests,
            config=config,
            position=Position[Step](TAKEOVER, Step.PACING if paced else self._after_pacing, on_edge),
            listing=Listing(attempt.listing, after, config.instance_id),
            metadata=metadata,
            evictions=attempt.evictions,
            temporary=attempt.temporary,
        )
        self._growth = TableGrowing(self.state, attempt.tables)
        self._own_id = OwnId(self.state, self._growth, first)
        self._removal = LeaderRemoval(self.state, self._own_id)
        self._pace = PaceMeasuring(self.state, attempt.foreseen) if attempt.foreseen is not None else None

    @property
    def leader(self) -> str:
        """The leader that an answer has named; "" before."""
        return self._removal.leader

    @property
    def evicted(self) -> tuple[str, ...]:
        return self._removal.evicted

    @property
    def in_front(self) -> str:
        """Bellwether's id while it is parked and sorts first; "" otherwise."""
        return self.state.listing.own if self.state.step is Step.PARKED else ""

    @property
    def disturbs(self) -> bool:
        """True if members have noticed the attempt or are about to."""
        return self.state.step not in AT_REST

    @property
    def searches(self) -> bool:
        """True until Bellwether has the member id under which it waits for the lead."""
        return self.state.step in SEARCH

    @property
    def joined(self) -> bool:
        """True if the broker may have a member of Bellwether's, even one whose id Bellwether does not know."""
        return self.state.step not in NOT_IN_YET

    def begin(self, now: float) -> None:
        self.state.now = self.began = now
        if self.state.step is Step.PACING and self._pace is not None:
            self._pace.begin()
        else:
            self._begin_search()

    def _begin_search(self) -> None:
        if self.state.step is Step.GATHERING:
            self._growth.reserve()
        else:
            self._own_id.begin()

    def _paced(self, outcome: Outcome) -> Outcome:
        if self._pace is not None and self._pace.done:
            self.state.go(self._after_pacing)
            self._begin_search()
        return outcome

    def answered(self, kind: Kind, event: events.Answer, now: float) -> Outcome:
        state = self.state
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
        state = self.state
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
        growth, state = self._growth, self.state
        if state.step is Step.GROWING:
            growth.came(answer)
        if state.step is not Step.GATHERING:
            return None  # answers to parked JoinGroups of temporary members that leave
        failed = growth.reserved(answer)
        if failed is None and len(state.temporary_ids) == state.temporary:
            state.due = None
            state.go(self._own_id.first_step)
            self._own_id.begin()
        return failed

    def _join_answered(self, kind: Kind, answer: events.JoinAnswer) -> Outcome:
        state = self.state
        if answer.error == Code.UNKNOWN_MEMBER_ID and state.step is Step.PACING and self._pace is not None:
            return self._paced(self._pace.refused())
        if answer.error == Code.MEMBER_ID_REQUIRED and state.step is Step.ROLLING:
            return self._own_id.given(answer.member_id)
        if answer.error == Code.FENCED_INSTANCE_ID and not state.is_current(kind):
            self._own_id.replaced()
            return None
        return refused("JOIN", answer.error) if answer.error else self._removal.named(answer)

    def _leave_answered(self, kind: Kind, answer: events.LeaveAnswer) -> Outcome:
        state = self.state
        match kind:
            case Kind.OPEN:
                state.opener = ""
            case Kind.GIVE_BACK if state.step is Step.CLEARING:
                self._own_id.cleared()
            case Kind.GIVE_BACK:
                state.released = ""
            case Kind.SHRINK:
                failed = self._growth.shrunk()
                if failed is not None:
                    return failed
                self._own_id.park()
            case _:
                return self._removal.left(answer)
        return None

    def _described(self, answer: events.DescribeAnswer) -> Outcome:
        match self.state.step:
            case Step.PACING if self._pace is not None:
                return self._paced(self._pace.described(answer))
            case Step.GROWING:
                self._growth.described(answer.members)
            case Step.PARKING | Step.REPLACING:
                return self._own_id.described(answer.members)
            case Step.HOLDING:
                self._removal.described(answer.members)
        return None


@dataclass(slots=True)
class LeaderRemoval:
    """`leader` is the leader that the last answer named; `evicted` are all members removed so far."""

    state: Attempt
    own_id: OwnId
    leader: str = ""
    evicted: tuple[str, ...] = ()
    _ahead: tuple[str, ...] = ()  # members to remove with the leader
    _behind: tuple[str, ...] = ()  # those of them that are removed after the leader
    _removed: tuple[str, ...] = ()  # removed last; expected back under other ids

    def named(self, answer: events.JoinAnswer) -> Outcome:
        """Handles the answer that ends a rebalance and names its leader."""
        state = self.state
        state.alive_at = state.now
        state.forget()
        state.requests.admitted(answer)
        if answer.leader == answer.member_id and not answer.skip_assignment:
            return TakenOver(answer)
        self.leader = answer.leader
        if not answer.leader or not state.evictions:
            return Failed(f"{answer.leader or 'no member'} leads the group")
        ahead = state.listing.ahead(answer.member_id, answer.leader, another_comes=state.opens_next)
        if len(ahead) >= state.evictions:
            return Failed(f"{answer.leader} leads the group, and {ahead[0]} would be next")
        self._ahead = ahead
        if answer.protocol == STREAMS_PROTOCOL and not ahead:
            self.evict()
        elif answer.protocol == COOPERATIVE:
            self._reopen()
        else:
            state.go(Step.WORKING)
            state.requests.sync(())
            state.due = state.now + state.config.hold_ms_max / 1000
        return None

    def _reopen(self) -> None:
        state = self.state
        state.go(Step.REOPENING)
        state.next_is_open, state.opens_next = state.opens_next, False
        if not state.next_is_open:
            state.come_back(changed=True)
            if not state.blocker:
                state.reserve()
        state.due = state.now + min(state.now - state.parked_at, state.config.roll_ms_max / 1000)

    def reopening_is_due(self) -> None:
        """Removes the leader: members have had as long as they needed for the first rebalance."""
        if self.state.next_is_open or self.state.blocker:
            self.evict()
        else:
            self.state.describe_later()

    def synced(self, answer: events.SyncAnswer) -> Outcome:
        self.state.alive_at = self.state.now
        if answer.error not in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            return refused("SYNC", answer.error)
        self.evict()
        return None

    def evict_before_it_has_planned(self) -> None:
        """Removes the leader while it still plans: its SyncGroup will arrive after its removal, while those of others
        are parked, so those members are removed after it."""
        self.state.requests.abandon(Kind.SYNC)
        self._behind = self._ahead
        self.evict()

    def evict(self) -> None:
        state = self.state
        # The session has run since the broker's last request from Bellwether. `check_timing` allows for both waits.
        state.limit = state.alive_at + (state.config.roll_ms_max + state.config.hold_ms_max) / 1000
        state.due = None
        state.go(Step.HOLDING)
        together = (self.leader, *(member_id for member_id in self._ahead if member_id not in self._behind))
        self._removed = (self.leader, *self._ahead)
        state.evictions -= len(self._removed)
        self.evicted = (*self.evicted, *self._removed)
        state.requests.evict(together, EVICTED)

    def left(self, answer: events.LeaveAnswer) -> Outcome:
        if answer.error not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
            return refused(f"LEAVE of {self.leader}", answer.error)
        if self._behind:
            self.state.requests.evict(self._behind, EVICTED)
            self._behind = ()
        else:
            self.state.requests.describe()
        return None

    def described(self, members: tuple[events.DescribedMember, ...]) -> None:
        """Holds the rebalance open until the removed members are back or time is up, then joins it."""
        state = self.state
        if not state.listing.are_back(self._removed, members) and state.now <= state.limit:
            state.describe_later()
            return
        state.listing.members = members
        state.go(Step.RETURNING)
        if state.blocker:
            self.own_id.release()
        else:
            state.come_back()
