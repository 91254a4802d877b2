"""Makes the broker's table of members grow: temporary members reserve ids, join the open rebalance, and leave it
again."""

from collections.abc import Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.broker_order import MemberTable, on_the_way, tables, unavoidable
from bellwether_kafka.coordinator.membership.error_codes import Code
from bellwether_kafka.coordinator.membership.events import DescribedMember, JoinAnswer
from bellwether_kafka.coordinator.membership.takeover.own_joins import TemporaryMembers
from bellwether_kafka.coordinator.membership.takeover.state import Failed, Outcome, TakeoverState, refused
from bellwether_kafka.coordinator.membership.transitions import Step


@dataclass(slots=True)
class TableGrowing:
    """Makes the broker's table grow. `before`: what the table may be when the attempt begins."""

    state: TakeoverState
    temporary: TemporaryMembers
    before: tuple[MemberTable, ...]

    def reserve(self) -> None:
        """Requests the ids. No member waits for them, but the broker forgets them after a session."""
        self.temporary.reserve()
        self.state.due = self.state.now + self.state.config.session_timeout_ms / 2 / 1000

    def reserved(self, answer: JoinAnswer) -> Outcome:
        """Handles an answer that reserves an id for a temporary member."""
        self.temporary.answered(answer)
        return refused("JOIN of a temporary member", self.temporary.refused) if self.temporary.refused else None

    def begin(self) -> None:
        state = self.state
        state.go(Step.GROWING)
        state.limit_ms(state.config.hold_ms_max)
        self.temporary.join()
        state.describe_later()

    def came(self, answer: JoinAnswer) -> None:
        """Handles the answer to a temporary member that has joined. While the rebalance is open, any answer is an
        error."""
        self.temporary.answered(answer)
        if self.temporary.refused:
            self._shrink()

    def described(self, members: tuple[DescribedMember, ...]) -> None:
        """Ends the growth when the broker lists all temporary members, which shows that its table has grown, or when
        time is up."""
        state, listing = self.state, self.state.listing
        late = state.now > state.limit
        if not (late or self.temporary.are_in(members)):
            state.describe_later()
            return
        listing.members = self.temporary.others(members)
        seen = tables([m.member_id for m in members])
        listing.tables = tuple(table for table in self._possible(certain=not late) if table in seen)
        self._shrink()

    def shrunk(self) -> Outcome:
        """Handles the departure of the temporary members. Returns Failed if Bellwether could not sort first now."""
        listing = self.state.listing
        self.temporary.left()
        if self.temporary.refused:
            listing.tables = self._possible(certain=False)
        ids = [m.member_id for m in listing.members]
        ahead: Sequence[str] = max((unavoidable(ids, table) for table in listing.tables), key=len, default=())
        if not listing.tables:
            return Failed("the broker lists members in an unknown order")
        if len(ahead) >= self.state.evictions:
            return Failed(f"{ahead[0]} might lead next: the broker's table of members has not grown as it should")
        return None

    @property
    def room(self) -> int | None:
        """A number of members that the broker refused; None if it has refused none."""
        full = self.temporary.refused == Code.GROUP_MAX_SIZE_REACHED
        return len(self.state.listing.members) + self.temporary.wanted if full else None

    def _possible(self, *, certain: bool) -> tuple[MemberTable, ...]:
        """Returns what the table may be; `certain`: all temporary members are known to have joined."""
        tables_after = self.state.listing.tables
        return tables_after if certain else on_the_way(self.before, tables_after)

    def _shrink(self) -> None:
        self.state.due = None
        self.state.go(Step.SHRINKING)
        self.temporary.leave()
