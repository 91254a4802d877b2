"""Removes the leader that an answer named, and joins the rebalance that this opens."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.config import STREAMS_PROTOCOL
from bellwether_kafka.coordinator.membership.error_codes import Code
from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinAnswer, LeaveAnswer, SyncAnswer
from bellwether_kafka.coordinator.membership.requests import Kind
from bellwether_kafka.coordinator.membership.takeover.own_id import OwnId
from bellwether_kafka.coordinator.membership.takeover.state import (
    COOPERATIVE,
    Failed,
    Outcome,
    TakenOver,
    TakeoverState,
    refused,
)
from bellwether_kafka.coordinator.membership.transitions import Step

EVICTED = "another member takes the lead"


@dataclass(slots=True)
class LeaderRemoval:
    """`leader` is the leader that the last answer named; `evicted` are all members removed so far."""

    state: TakeoverState
    own_id: OwnId
    leader: str = ""
    evicted: tuple[str, ...] = ()
    _ahead: tuple[str, ...] = ()  # members to remove with the leader
    _behind: tuple[str, ...] = ()  # those of them that are removed after the leader
    _removed: tuple[str, ...] = ()  # removed last; expected back under other ids

    def named(self, answer: JoinAnswer) -> Outcome:
        """Handles the answer that ends a rebalance and names its leader."""
        state = self.state
        state.alive_at = state.now
        state.joins.forget()
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
            state.joins.come_back(changed=True)
            if not state.pending.blocker:
                state.joins.reserve()
        state.due = state.now + min(state.now - state.parked_at, state.config.roll_ms_max / 1000)

    def reopening_is_due(self) -> None:
        """Removes the leader: members have had as long as they needed for the first rebalance."""
        if self.state.next_is_open or self.state.pending.blocker:
            self.evict()
        else:
            self.state.describe_later()

    def synced(self, answer: SyncAnswer) -> Outcome:
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

    def left(self, answer: LeaveAnswer) -> Outcome:
        if answer.error not in (Code.NONE, Code.UNKNOWN_MEMBER_ID):
            return refused(f"LEAVE of {self.leader}", answer.error)
        if self._behind:
            self.state.requests.evict(self._behind, EVICTED)
            self._behind = ()
        else:
            self.state.requests.describe()
        return None

    def described(self, members: tuple[DescribedMember, ...]) -> None:
        """Holds the rebalance open until the removed members are back or time is up, then joins it."""
        state = self.state
        if not state.listing.are_back(self._removed, members) and state.now <= state.limit:
            state.describe_later()
            return
        state.listing.members = members
        state.go(Step.RETURNING)
        if state.pending.blocker:
            self.own_id.release()
        else:
            state.joins.come_back()
