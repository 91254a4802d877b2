"""Measures how fast member ids can be tried, with the requests of the search, before any member waits for it."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership.events import DescribeAnswer, GroupState
from bellwether_kafka.coordinator.membership.table_growth import Forecast
from bellwether_kafka.coordinator.membership.takeover.state import Failed, Outcome, TakeoverState
from bellwether_kafka.coordinator.membership.takeover_policy import blocked

TRIES = 8  # measured tries; one more before them opens the connection


@dataclass(slots=True)
class PaceMeasuring:
    """A try is a JoinGroup and a DescribeGroups, sent together. `tries` have been measured, in `took_s`."""

    state: TakeoverState
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
        self.state.joins.ask_for_pace()
        self.state.requests.describe()
