"""The search for a member id that sorts first, before and while members wait: how fast ids can be tried, making the
broker's table of members grow, and joining under the id while a pending id, the blocker, holds the rebalance open."""

from collections.abc import Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import MemberTable, on_the_way, tables, unavoidable
from bellwether_kafka.coordinator.membership.events import DescribeAnswer, DescribedMember, GroupState, JoinAnswer
from bellwether_kafka.coordinator.membership.requests import Kind
from bellwether_kafka.coordinator.membership.role import Code
from bellwether_kafka.coordinator.membership.table_growth import SORTS_FIRST_SHARE, Forecast
from bellwether_kafka.coordinator.membership.takeover_attempt import Attempt, Failed, Outcome, refused
from bellwether_kafka.coordinator.membership.takeover_policy import blocked
from bellwether_kafka.coordinator.membership.transitions import Step

TRIES = 8  # measured tries of the pace; one more before them opens the connection


@dataclass(slots=True)
class PaceMeasuring:
    """A try is a JoinGroup and a DescribeGroups, sent together. `tries` have been measured, in `took_s`."""

    state: Attempt
    foreseen: Forecast
    tries: int = -1
    took_s: float = 0.0
    done: bool = False
    _asked_at: float = 0.0
    _answers: int = 0  # to the present try

    def begin(self) -> None:
        self.state.limit_ms(self.state.config.roll_ms_max)
        self._ask()

    def refused(self) -> Outcome:
        return self._answered()

    def described(self, answer: DescribeAnswer) -> Outcome:
        """Handles a description. Returns Failed if the group is not what the take-over was foreseen for."""
        if answer.state != GroupState.STABLE or {m.member_id for m in answer.members} != {*self.foreseen.members}:
            return Failed("the group has changed before the take-over has begun, so no member was disturbed")
        return self._answered()

    def _answered(self) -> Outcome:
        """Returns Failed after the last try if too few could be tried while members wait."""
        state = self.state
        self._answers += 1
        if self._answers < 2:
            return None
        self.tries += 1
        self.took_s += (state.now - self._asked_at) * bool(self.tries)
        if self.tries < TRIES and not (self.tries and state.now > state.limit):
            self._ask()
            return None
        answer_time_ms = self.took_s / self.tries * 1000
        paced = self.foreseen.paced(state.config.tries_max(answer_time_ms))
        if not paced.begins:
            return Failed(f"no member was disturbed, because {blocked(paced, state.config.size_limit, answer_time_ms)}")
        self.done = True
        return None

    def _ask(self) -> None:
        self._asked_at, self._answers = self.state.now, 0
        self.state.ask_for_pace()
        self.state.requests.describe()


@dataclass(slots=True)
class TableGrowing:
    """Makes the broker's table grow. `before`: what the table may be when the attempt begins."""

    state: Attempt
    before: tuple[MemberTable, ...]

    def reserve(self) -> None:
        """Requests the ids. No member waits for them, but the broker forgets them after a session."""
        self.state.reserve_temporary()
        self.state.due = self.state.now + self.state.config.session_timeout_ms / 2 / 1000

    def reserved(self, answer: JoinAnswer) -> Outcome:
        """Handles an answer that reserves an id for a temporary member."""
        state = self.state
        state.temporary_answered(answer)
        return refused("JOIN of a temporary member", state.temporary_refused) if state.temporary_refused else None

    def begin(self) -> None:
        state = self.state
        state.go(Step.GROWING)
        state.limit_ms(state.config.hold_ms_max)
        state.join_temporary()
        state.describe_later()

    def came(self, answer: JoinAnswer) -> None:
        """Handles the answer to a temporary member that has joined. While the rebalance is open, any answer is an
        error."""
        self.state.temporary_answered(answer)
        if self.state.temporary_refused:
            self._shrink()

    def described(self, members: tuple[DescribedMember, ...]) -> None:
        """Ends the growth when the broker lists all temporary members, which shows that its table has grown, or when
        time is up."""
        state, listing = self.state, self.state.listing
        late = state.now > state.limit
        if not (late or state.temporary_are_in(members)):
            state.describe_later()
            return
        listing.members = tuple(m for m in members if m.member_id not in state.temporary_ids)
        seen = tables([m.member_id for m in members])
        listing.tables = tuple(table for table in self._possible(certain=not late) if table in seen)
        self._shrink()

    def shrunk(self) -> Outcome:
        """Handles the departure of the temporary members. Returns Failed if Bellwether could not sort first now."""
        listing = self.state.listing
        self.state.temporary_left()
        if self.state.temporary_refused:
            listing.tables = self._possible(certain=False)
        ids = [m.member_id for m in listing.members]
        ahead: Sequence[str] = max((unavoidable(ids, table) for table in listing.tables), key=len, default=())
        if not listing.tables:
            return Failed("the broker lists members in an unknown order")
        if len(ahead) >= self.state.evictions:
            return Failed(f"{ahead[0]} might lead next: the broker's table of members has not grown as it should")
        return None

    def _possible(self, *, certain: bool) -> tuple[MemberTable, ...]:
        """Returns what the table may be; `certain`: all temporary members are known to have joined."""
        tables_after = self.state.listing.tables
        return tables_after if certain else on_the_way(self.before, tables_after)

    def _shrink(self) -> None:
        self.state.due = None
        self.state.go(Step.SHRINKING)
        self.state.leave_temporary()


@dataclass(slots=True)
class OwnId:
    """The search for an id. It begins in `first_step`."""

    state: Attempt
    growth: TableGrowing
    first_step: Step
    try_next_once_replaced: bool = False  # the present id has been seen, and is not good

    def begin(self) -> None:
        state = self.state
        state.limit_ms(state.config.roll_ms_max)
        if state.step is Step.ROLLING:
            state.ask()
        else:
            state.reserve()

    def park(self) -> None:
        state = self.state
        state.limit_ms(state.config.roll_ms_max)
        if state.config.instance_id is None:
            self._park_named()
        else:
            self._park_unnamed()

    # ---- without an instance id: ids are requested while the group is stable ---------------------------------------

    def given(self, member_id: str) -> Outcome:
        state, listing = self.state, self.state.listing
        if self._is_good(member_id):
            listing.own = member_id
        else:
            state.unfit.append(member_id)
            if state.now > state.limit:
                return self._not_found()
        if listing.own and state.reopens:
            state.keep_spare()
        if listing.own and state.unfit:
            state.go(Step.CLEARING)
            state.requests.evict(tuple(state.unfit), "not needed", kind=Kind.GIVE_BACK)
        elif listing.own:
            self._grow_or_park()
        else:
            state.ask()
        return None

    def cleared(self) -> None:
        self.state.unfit.clear()
        self._grow_or_park()

    def _park_named(self) -> None:
        state = self.state
        state.go(Step.PARKED)
        state.parked_at = state.now
        state.requests.member_id = state.listing.own
        state.park()
        self.release()

    # ---- under an instance id: the broker makes an id for each JoinGroup, and describes it -------------------------

    def _park_unnamed(self) -> None:
        state = self.state
        state.go(Step.PARKING)
        state.parked_at = state.now
        state.park_unnamed()
        if state.reopens:
            state.reserve()
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
        self.state.replace()
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
        if self.state.temporary_ids:
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
        return Failed(f"none of {self.state.tries} member ids sorts first")

    # ---- the blocker -----------------------------------------------------------------------------------------------

    def blocker_answered(self, answer: JoinAnswer) -> Outcome:
        """Handles the answer to a JoinGroup for the blocker or the opener. With a reserved id, an open rebalance stays
        open while the broker waits for that id. Other answers mean that there is no id, or end the rebalance that the
        opener joined, which needs no action."""
        state = self.state
        if answer.error == Code.MEMBER_ID_REQUIRED:
            state.reserved(answer.member_id)
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
        state = self.state
        if state.step is Step.PARKED and state.reopens and not state.opens_next and state.choose_opener():
            state.opens_next = True
            state.open_next(state.opener)
        if state.blocker:
            state.released, state.blocker = state.blocker, ""
            state.requests.evict((state.released,), "the rebalance may end", kind=Kind.GIVE_BACK)
