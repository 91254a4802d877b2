"""How a membership begins: watching a group, and joining it when it is empty, ours, or to be taken from its leader.

`GroupMembership` adds what a leader does.
"""

from bellwether_kafka.coordinator.membership.commands import Decide, NoteKind
from bellwether_kafka.coordinator.membership.config import MembershipConfig
from bellwether_kafka.coordinator.membership.errors import EXIT_CONFIG, Action, action_for
from bellwether_kafka.coordinator.membership.events import (
    Answer,
    ComparisonFailed,
    ComparisonReady,
    DescribeAnswer,
    JoinAnswer,
    JoinedMember,
    RequestFailed,
)
from bellwether_kafka.coordinator.membership.member import Member, State
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.rules import holds_instance, subscription, unfit
from bellwether_kafka.coordinator.membership.takeover import LANES, Failed, Led, Outcome, Takeover
from bellwether_kafka.coordinator.membership.takeover_policy import Ambition, Approach, offered

REHEARSAL = -1  # the generation of a plan for a group that somebody else leads
EAGER_INTERVAL_MS = 1_000


class Newcomer(Member):
    """Not a member yet."""

    def __init__(self, config: MembershipConfig) -> None:
        super().__init__(config)
        self._ambition = Ambition(config)
        self._rehearsed: Approach | None = None
        self._takeover: Takeover | None = None
        self._told = ""
        self._removed: tuple[str, ...] = ()  # leaders that made way for us, until a plan of ours is delivered

    def _joined(self, answer: JoinAnswer) -> None:
        raise NotImplementedError

    # ---- watching ------------------------------------------------------------------------------------------------

    def _watched(self, answer: DescribeAnswer) -> None:
        self._attempts = 0
        self._doubt_since = None
        self._removed = ()
        obstacle = unfit(answer, self.config)
        if obstacle:
            self._fail(obstacle, EXIT_CONFIG)
            return
        if answer.protocol:  # remembered when the group is empty: first in with a wrong list would lock its members out
            self._requests.protocols = offered(self.config.protocols, answer.protocol)
        reason = self._adoption.may_join(answer, self._now)
        ours_to_try = self._our_turn and not self._kept_out
        if reason and ours_to_try:
            self._slot_taken = holds_instance(answer, self.config)
            self._reason = reason
            self.state = State.JOINING
            self._send_join()
            return
        self._set(Timer.WATCH, self._next_watch_ms())
        if not reason and ours_to_try:
            self._consider(answer)

    def _next_watch_ms(self) -> float:
        """A seat of ours that a wait keeps us from is taken as soon as the wait is over: its session runs. A round that
        waits for the dead is seen only by who looks often."""
        interval_ms: float = self.config.watch_interval_ms
        if self._ambition.eager:
            interval_ms = min(interval_ms, EAGER_INTERVAL_MS)
        left_ms = self._adoption.may_try_in(self._now) * 1000
        return min(interval_ms, left_ms) if self.config.standby and self._our_turn and left_ms else interval_ms

    def _consider(self, answer: DescribeAnswer) -> None:
        approach = self._ambition.approach(answer, self._now)
        self._tell(self._ambition.obstacle)
        if approach is None or self._adoption.may_try_in(self._now):
            return
        if approach.evictions:
            self._rehearse(approach, answer)
        else:
            self._begin(approach)

    def _tell(self, obstacle: str) -> None:
        if obstacle and obstacle != self._told:
            self._note(NoteKind.WATCHING, f"not taken over: {obstacle}")
        self._told = obstacle

    def _rehearse(self, approach: Approach, answer: DescribeAnswer) -> None:
        """No leader is removed before a plan of ours for its group has been made and found valid."""
        self._rehearsed = approach
        members = tuple(JoinedMember(m.member_id, m.instance_id, m.metadata) for m in answer.members)
        deadline = self._now + self.config.decision_deadline_ms / 1000
        self._requests.out.append(Decide(REHEARSAL, answer.protocol, members, "", deadline, dry=True))

    def _compared(self, event: ComparisonReady | ComparisonFailed) -> None:
        approach, self._rehearsed = self._rehearsed, None
        if approach is None or event.generation != REHEARSAL or self.state is not State.WATCHING:
            return
        if not self._requests.ready:
            return  # the coordinator node was lost meanwhile; the next description begins again
        if isinstance(event, ComparisonReady):
            self._begin(approach)
        else:
            self._adoption.set_back(self._now)
            self._tell(event.reason)

    # ---- taking over ---------------------------------------------------------------------------------------------

    def _begin(self, approach: Approach) -> None:
        self._requests.abandon(Kind.DESCRIBE)
        self._timers.clear(Timer.WATCH)
        self.state = State.APPROACHING
        self._slot_taken = False
        self._ambition.tries(approach, self._now)
        metadata = subscription(self.config.topics, streams=self.config.streams)
        self._takeover = Takeover(self._requests, self.config, approach, metadata)
        self._takeover.begin(self._now)

    def _approached(self, kind: Kind, event: Answer) -> None:
        if self._takeover is not None:
            self._conclude(self._takeover.answered(kind, event, self._now))

    def _approach_due(self) -> None:
        if self._takeover is not None:
            self._takeover.wake(self._now)
            self._conclude(None)

    def _conclude(self, outcome: Outcome) -> None:
        takeover = self._takeover
        if takeover is None:
            return
        match outcome:
            case None:
                self._timers.clear(Timer.APPROACH)
                if takeover.due is not None:
                    self._timers.set(Timer.APPROACH, takeover.due)
            case Led():
                self._took_over(takeover, outcome.answer)
            case Failed():
                self._abort(outcome)

    def _took_over(self, takeover: Takeover, answer: JoinAnswer) -> None:
        self._takeover = None
        self._timers.clear(Timer.APPROACH)
        self._ambition.succeeded()
        self._listed = self.config.topics
        self._removed = takeover.evicted
        self._requests.abandon(Kind.DESCRIBE, *LANES)  # asked for the take-over; their answers say nothing now
        self._give_back(takeover, "the lead has been taken")
        removed = ", ".join(takeover.evicted) or "a leader that had gone"
        took_s = self._now - takeover.began
        self._note(NoteKind.ADOPTED, f"after {removed}, in {took_s:.2f} s and with the {takeover.tries}. member id")
        self.state = State.JOINING
        self._joined(answer)

    def _abort(self, failed: Failed) -> None:
        takeover, self._takeover = self._takeover, None
        if takeover is None:
            return
        self._ambition.failed(takeover.leader)
        self._timers.clear(Timer.APPROACH)
        self._requests.abandon(Kind.GIVE_BACK)
        self._give_back(takeover, failed.reason)
        if failed.code and action_for(failed.code) is Action.FATAL:
            self._fail_code(failed.code)
        elif takeover.joined:
            self._leave(failed.reason, setback=True)
        else:
            self._lost_membership(failed.reason)

    def _give_back(self, takeover: Takeover, reason: str) -> None:
        if takeover.debts:
            self._requests.evict(takeover.debts, reason, kind=Kind.GIVE_BACK)

    def _request_failed(self, event: RequestFailed) -> None:
        if self._takeover is None:
            super()._request_failed(event)
        elif self._requests.arrived(event.request_id) is not None:
            self._abort(Failed(f"a request got no answer: {event.reason}"))

    def _keep_out(self, reason: str) -> None:
        if self._takeover is None or not reason:
            super()._keep_out(reason)
            return
        self._kept_out = reason
        self._abort(Failed(reason))

    def _stop(self) -> None:
        if self._takeover is None:
            super()._stop()
            return
        self._stopping = True
        self._abort(Failed("we are shutting down"))
