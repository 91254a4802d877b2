"""Finds a member id that sorts first and joins under it, while a pending id, the blocker, holds the rebalance open."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.error_codes import Code
from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Kind
from bellwether_kafka.coordinator.membership.table_growth import SORTS_FIRST_SHARE
from bellwether_kafka.coordinator.membership.takeover.growth import TableGrowing
from bellwether_kafka.coordinator.membership.takeover.state import Failed, Outcome, TakeoverState, refused
from bellwether_kafka.coordinator.membership.transitions import Step


@dataclass(slots=True)
class OwnId:
    """The search for an id. It begins in `first_step`."""

    state: TakeoverState
    growth: TableGrowing
    first_step: Step
    try_next_once_replaced: bool = False  # the present id has been seen, and is not good

    def begin(self) -> None:
        state = self.state
        state.limit_ms(state.config.roll_ms_max)
        if state.step is Step.ROLLING:
            state.joins.ask()
        else:
            state.joins.reserve()

    def park(self) -> None:
        state = self.state
        state.limit_ms(state.config.roll_ms_max)
        if state.config.instance_id is None:
            self._park_named()
        else:
            self._park_unnamed()

    # ---- without an instance id: ids are requested while the group is stable ---------------------------------------

    def given(self, member_id: str) -> Outcome:
        state, listing, pending = self.state, self.state.listing, self.state.pending
        if self._is_good(member_id):
            listing.own = member_id
        else:
            pending.unfit.append(member_id)
            if state.now > state.limit:
                return self._not_found()
        if listing.own and state.reopens:
            pending.keep_spare()
        if listing.own and pending.unfit:
            state.go(Step.CLEARING)
            state.requests.evict(tuple(pending.unfit), "not needed", kind=Kind.GIVE_BACK)
        elif listing.own:
            self._grow_or_park()
        else:
            state.joins.ask()
        return None

    def cleared(self) -> None:
        self.state.pending.unfit.clear()
        self._grow_or_park()

    def _park_named(self) -> None:
        state = self.state
        state.go(Step.PARKED)
        state.parked_at = state.now
        state.requests.member_id = state.listing.own
        state.joins.park()
        self.release()

    # ---- under an instance id: the broker makes an id for each JoinGroup, and describes it -------------------------

    def _park_unnamed(self) -> None:
        state = self.state
        state.go(Step.PARKING)
        state.parked_at = state.now
        state.joins.park_unnamed()
        if state.reopens:
            state.joins.reserve()
        state.describe_later()

    def described(self, members: tuple[DescribedMember, ...]) -> Outcome:
        """Handles a description of the rebalance, which lists Bellwether's present id if the broker has received its
        JoinGroup."""
        state, listing = self.state, self.state.listing
        own = next((m for m in members if m.instance_id == state.config.instance_id), None)
        if own is None or own.member_id == listing.own:
            if state.step is Step.REPLACING:
                state.requests.describe()  # the broker has read it before the JoinGroup
            else:
                state.describe_later()
            return None
        listing.refresh(members, own.member_id)
        if state.evictions and not listing.tables:
            return Failed("the broker lists members in an unknown order")
        if self._is_good(own.member_id):
            state.go(Step.PARKED)
            state.requests.member_id = own.member_id
            if not state.requests.waits_for(Kind.BLOCKER):
                self.release()
            return None
        if state.now > state.limit:
            return self._not_found()
        if state.step is Step.PARKING:
            state.go(Step.REPLACING)
            self._try_next()
        else:
            self.try_next_once_replaced = True
        return None

    def _try_next(self) -> None:
        self.try_next_once_replaced = False
        self.state.joins.replace()
        self.state.requests.describe()

    def replaced(self) -> None:
        """Handles the answer to the JoinGroup under the previous id, which the broker has removed. Its connection is
        free now."""
        if self.state.step is not Step.REPLACING:
            return
        if self.try_next_once_replaced:
            self._try_next()
        else:
            self.state.go(Step.PARKING)

    # ---- both ------------------------------------------------------------------------------------------------------

    def _grow_or_park(self) -> None:
        if self.growth.temporary.ids:
            self.growth.begin()
        else:
            self.park()

    def _is_good(self, member_id: str) -> bool:
        """Returns whether the id sorts first; late in the search also whether few enough members sort before it. Under
        an instance id members wait for the search, so such an id is better than none."""
        state = self.state
        # The id must sort first when Bellwether has joined and, in a cooperative group, when the opener has joined as
        # well.
        coming = (1, 2) if state.reopens else (1,)
        if state.listing.puts_first(member_id, coming):
            return True
        sorts_first_until = state.limit - (1 - SORTS_FIRST_SHARE) * state.config.roll_ms_max / 1000
        late = state.config.instance_id is not None and state.now > sorts_first_until
        return late and state.listing.puts_behind(member_id, coming) < state.evictions

    def _not_found(self) -> Failed:
        return Failed(f"none of {self.state.joins.tries} member ids sorts first")

    # ---- the blocker -----------------------------------------------------------------------------------------------

    def blocker_answered(self, answer: JoinAnswer) -> Outcome:
        """Handles the answer to a JoinGroup for the blocker or the opener. With a reserved id, an open rebalance stays
        open while the broker waits for that id. Other answers mean that there is no id, or end the rebalance that the
        opener joined, which needs no action."""
        state = self.state
        if answer.error == Code.MEMBER_ID_REQUIRED:
            state.pending.reserved(answer.member_id)
            if state.step is Step.BARRING:
                self._grow_or_park()
            elif state.step is Step.PARKED:
                self.release()
        elif answer.error and self._needs_blocker:
            return refused("JOIN", answer.error)
        elif answer.error and state.step is Step.PARKED and not state.opens_next:
            self.release()
        return None

    @property
    def _needs_blocker(self) -> bool:
        state = self.state
        return state.step is Step.BARRING or (state.step is Step.REOPENING and not state.next_is_open)

    def release(self) -> None:
        """Lets the rebalance end: sends the opener in if there is one, and gives the blocker back. The answer to
        Bellwether's JoinGroup may arrive before the answers to these, which use other connections."""
        state, pending = self.state, self.state.pending
        if state.step is Step.PARKED and state.reopens and not state.opens_next and pending.choose_opener():
            state.opens_next = True
            state.joins.open_next(pending.opener)
        if pending.blocker:
            pending.released, pending.blocker = pending.blocker, ""
            state.requests.evict((pending.released,), "the rebalance may end", kind=Kind.GIVE_BACK)
