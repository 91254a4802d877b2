"""The membership of one classic consumer group as a state machine without IO: events in, commands out.

WATCHING    not a member; the group is described from time to time and joined only when that disturbs nobody
APPROACHING on the way into a group that somebody else leads, to lead it (`takeover`)
JOINING     wants to be in the next generation; JoinGroup is under way, or about to be
DECIDING    leads a generation that has no assignment yet
SYNCING     the assignment is on its way to the broker
STABLE      leads
COALESCING  the broker calls everybody back; we hold the round open for a moment so that more members fit in
LEAVING     LeaveGroup is on its way
STOPPED     the end

A group that we doubt is left: LeaveGroup hands it to a member within milliseconds, whereas a silent leader stalls it
(docs/reference/broker-behaviour.md#leavegroup). Leadership comes back by the rules of WATCHING only.
"""

from bellwether_kafka.coordinator.membership.adoption import Newcomer
from bellwether_kafka.coordinator.membership.commands import Command, Decide, Delivered, NoteKind, RebuildMemory
from bellwether_kafka.coordinator.membership.config import STOCK_PROTOCOLS, MembershipConfig, check_timing
from bellwether_kafka.coordinator.membership.errors import Action, Code, action_for
from bellwether_kafka.coordinator.membership.events import (
    Answer,
    ComparisonFailed,
    ComparisonReady,
    CoordinatorAnswer,
    DecisionFailed,
    DecisionReady,
    DescribeAnswer,
    Event,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    OrdersStand,
    RebalanceWanted,
    RequestFailed,
    RoundOrdered,
    StepAsideWanted,
    StopRequested,
    SyncAnswer,
    TurnChanged,
    Wake,
)
from bellwether_kafka.coordinator.membership.member import State
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.rules import (
    Coalescing,
    backed_off_ms,
    empty_assignment,
    is_missing,
    was_ours,
)

__all__ = ["EMPTY_ASSIGNMENT", "STOCK_PROTOCOLS", "GroupMembership", "MembershipConfig", "State", "check_timing"]

EMPTY_ASSIGNMENT = empty_assignment()


class GroupMembership(Newcomer):
    """One group. `start` once, then `handle` each event and obey; deliver a `Wake` at `deadline()`.

    `now` is seconds on a monotonic clock, the same one in all calls. Nothing that a broker sends makes it raise.
    """

    def __init__(self, config: MembershipConfig) -> None:
        super().__init__(config)
        self._returned = False  # a static return: this generation's assignment is not of our making
        self._must_lead = False
        self._held = ""  # an operator's word: no rebalance of our own accord

    # ---- the outside -------------------------------------------------------------------------------------------

    def start(self, now: float) -> tuple[Command, ...]:
        self._now = now
        self._proceed()
        return self._requests.drain()

    def handle(self, event: Event, now: float) -> tuple[Command, ...]:
        self._now = now
        if self.state is not State.STOPPED:
            self._dispatch(event)
        return self._requests.drain()

    def deadline(self) -> float | None:
        """When to deliver the next `Wake`, None when only another event can change anything."""
        return self._timers.earliest()

    def _dispatch(self, event: Event) -> None:
        match event:
            case Wake():
                self._wake()
            case StopRequested():
                self._stop()
            case RebalanceWanted():
                self._rebalance_wanted(event.reason)
            case StepAsideWanted():
                self._step_aside_wanted(event.reason)
            case OrdersStand():
                self._orders_stand(event)
            case RoundOrdered():
                self._round_ordered(event.reason)
            case TurnChanged():
                self._turn_changed(event)
            case DecisionReady():
                self._decision_ready(event)
            case DecisionFailed():
                self._decision_failed(event)
            case ComparisonReady() | ComparisonFailed():
                self._comparison_ready(event)
            case RequestFailed():
                self._request_failed(event)
            case _:
                self._answered(event)

    def _answered(self, event: Answer) -> None:
        kind = self._requests.arrived(event.request_id)
        if kind is None:
            return
        self._reached, self._refused = True, False
        if self._takeover is not None:
            self._approached(kind, event)
            return
        match event:
            case CoordinatorAnswer():
                self._found(event)
            case DescribeAnswer():
                self._described(event)
            case JoinAnswer() if kind is not Kind.BARRIER:  # that is about a member of ours that has done its work
                self._joined(event)
            case SyncAnswer():
                self._synced(event)
            case HeartbeatAnswer():
                self._heartbeat_answered(event)
            case LeaveAnswer() if kind is Kind.LEAVE:  # others tell of members that are not this one
                self._leave_answered(event)

    # ---- time --------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        while (timer := self._timers.take_due(self._now)) is not None:
            # In STABLE a heartbeat tells whether we are still a member: a coordinator node that was away for longer
            # than our session gave everybody a new one when it came back, and a Join would rebalance them all.
            if self._session_expired() and self.state in (State.DECIDING, State.COALESCING):
                self._rejoin("woke up after our session had expired")
            else:
                self._fire(timer)

    def _fire(self, timer: Timer) -> None:
        match timer:
            case Timer.WATCH:
                self._proceed()
            case Timer.RETRY:
                self._requests.paused = False
                self._proceed()
            case Timer.HEARTBEAT:
                self._heartbeat()
            case Timer.DECISION:
                self._refuse("no plan before the decision deadline")
            case Timer.COALESCE:
                self._coalesce_step()
            case Timer.LINGER:
                self._lingered()
            case Timer.FOLLOWUP:
                self._followups += 1
                self._rejoin("hand out partitions that were withheld")
            case Timer.REBALANCE:
                self._rebalance()
            case Timer.APPROACH:
                self._approach_due()
            case Timer.LEAVE:
                self._alert("the broker did not answer our LeaveGroup in time")
                self._left()

    # ---- finding and watching ----------------------------------------------------------------------------------

    def _described(self, answer: DescribeAnswer) -> None:
        if self.state is State.COALESCING:
            self._counted(answer)
        elif answer.error and not is_missing(answer):
            self._failed(Kind.DESCRIBE, answer.error)
        else:
            self._watched(answer)

    # ---- joining -----------------------------------------------------------------------------------------------

    def _joined(self, answer: JoinAnswer) -> None:
        if action_for(answer.error) is Action.USE_MEMBER_ID:
            self._requests.member_id = answer.member_id
            self._send_join()
            return
        if answer.error:
            self._failed(Kind.JOIN, answer.error)
            return
        self._admitted(answer)
        if answer.leader == "":
            self._alert("the group has been converted to the KIP-848 protocol: its broker assigns now")
            self._leave("the group has been converted to the KIP-848 protocol", setback=True)
        elif answer.skip_assignment:
            self._returned_as_leader()
        elif answer.leader == answer.member_id:
            self._lead()
        elif was_ours(answer.leader, self.config):
            # The broker counts us as the leader but told us nothing: the next round we start will be ours to lead.
            self._must_lead = True
            self._sync_nothing()
        else:
            self._leave(f"{answer.leader} leads the group", setback=True)

    def _admitted(self, answer: JoinAnswer) -> None:
        requests = self._requests
        requests.member_id, requests.generation, requests.protocol = (
            answer.member_id,
            answer.generation,
            answer.protocol,
        )
        self.members = answer.members
        self._attempts = 0
        self._alive_at = self._now
        self._returned = False
        self._must_lead = False
        self._set(Timer.HEARTBEAT, self.config.heartbeat_interval_ms)

    def _returned_as_leader(self) -> None:
        """A static leader returned to a Stable group: everything goes on as it was
        (docs/reference/broker-behaviour.md#static-membership)."""
        if not self.alone:
            self._requests.out.append(RebuildMemory(self.generation, self._requests.protocol, self.members))
        self._sync_nothing()

    def _sync_nothing(self) -> None:
        self._returned = True
        self._withheld = False
        self._sync(())

    def _lead(self) -> None:
        # The plan will be made from metadata read after this moment, which serves every earlier wish.
        self._wanted = ""
        if self.alone:
            self._withheld = False
            self._sync(((self.member_id, empty_assignment(streams=self.config.streams)),))
            return
        self.state = State.DECIDING
        self._set(Timer.DECISION, self.config.decision_deadline_ms)
        self._decide(dry=False)

    def _decide(self, *, dry: bool) -> None:
        deadline = self._now + self.config.decision_deadline_ms / 1000
        self._requests.out.append(
            Decide(self.generation, self._requests.protocol, self.members, self.member_id, deadline, dry, self._removed)
        )

    # ---- deciding and syncing ----------------------------------------------------------------------------------

    def _decision_ready(self, event: DecisionReady) -> None:
        if self.state is not State.DECIDING or event.generation != self.generation:
            return
        self._timers.clear(Timer.DECISION)
        self._app_topics = event.topics or self._app_topics
        if self._session_expired():
            self._rejoin("the plan came after our session had expired")
            return
        self._withheld = event.withheld
        self._sync(event.assignments)

    def _decision_failed(self, event: DecisionFailed) -> None:
        if self.state is State.DECIDING and event.generation == self.generation:
            self._refuse(event.reason)

    def _refuse(self, reason: str) -> None:
        self._note(NoteKind.REFUSED, reason)
        self._leave(reason, setback=True)

    def _comparison_ready(self, event: ComparisonReady | ComparisonFailed) -> None:
        if self.state is State.WATCHING:
            self._compared(event)
        if self.state is not State.STABLE or event.generation != self.generation or isinstance(event, ComparisonFailed):
            return
        self._app_topics = event.topics or self._app_topics
        if event.worth_moving:
            self._rebalance_wanted(event.reason or "the plan differs from what the members hold")

    def _synced(self, answer: SyncAnswer) -> None:
        if answer.error:
            self._failed(Kind.SYNC, answer.error)
            return
        self._alive_at = self._now
        self._attempts = 0
        self._doubt_since = None
        self._assignments = ()
        self._adoption.succeeded()
        self.state = State.STABLE
        if not self._returned:
            self._requests.out.append(Delivered(self.generation))
            self._removed = ()
        if self._stopping:
            self._stop()
        elif self._must_lead:
            self._rejoin("lead again after a static return")
        else:
            self._settle()

    def _settle(self) -> None:
        """STABLE begins: what is left to do in this generation."""
        if self._returned:
            self._note(NoteKind.LEADING, "came back to our group without a rebalance")
        else:
            self._note(NoteKind.LEADING, f"{len(self.members)} members with us")
        if self.alone:
            self._settle_alone()
            return
        self._timers.clear(Timer.LINGER)
        if self._returned:
            self._decide(dry=True)
        self._plan_followup()
        if self._wanted:
            self._rebalance_wanted(self._wanted)

    def _settle_alone(self) -> None:
        self._followups = 0
        if self.config.linger_ms is not None and Timer.LINGER not in self._timers:
            self._set(Timer.LINGER, self.config.linger_ms)
        if self._app_topics and self._listed != self._app_topics:
            # Offsets of topics that no member lists expire; while we are the only member, we list them.
            self._list_app_topics = True
            self._rejoin("list the application's topics while we are alone")

    def _lingered(self) -> None:
        if self.state is State.STABLE and self.alone:
            self._adoption.seen_members = False
            self._leave("nobody but us has been in the group for linger_ms")

    def _plan_followup(self) -> None:
        """Nobody else starts the round that hands out withheld partitions if their loser is an absent member; each one
        in a row waits twice as long, because that member may never come
        (docs/reference/assignors.md#cooperative-rebalancing)."""
        if not self._withheld:
            self._followups = 0
            return
        config = self.config
        self._set(Timer.FOLLOWUP, backed_off_ms(config.followup_ms, self._followups, config.followup_ms_max))
        self._heartbeat()

    def _rebalance_wanted(self, reason: str) -> None:
        """Kept while a plan is on its way, served by the coming plan otherwise; never in quick repetition."""
        if self.state in (State.DECIDING, State.SYNCING):
            self._wanted = reason
            return
        if self.state is not State.STABLE or self.alone:
            return
        self._wanted = reason
        if self._held:
            return
        due = self._rebalanced_at + self.config.rebalance_interval_ms_min / 1000
        if self._now >= due:
            self._rebalance()
        else:
            self._timers.set(Timer.REBALANCE, due)

    def _orders_stand(self, event: OrdersStand) -> None:
        self._held = event.pause
        if event.pause:
            self._timers.clear(Timer.REBALANCE)
        if event.leave != self._kept_out:
            self._keep_out(event.leave)
        if self._wanted:
            self._rebalance_wanted(self._wanted)

    def _round_ordered(self, reason: str) -> None:
        if self.state is State.STABLE and not self.alone:
            self._rejoin(reason)
        elif self.state in (State.DECIDING, State.SYNCING):
            self._wanted = reason

    def _rebalance(self) -> None:
        self._rebalanced_at = self._now
        self._rejoin(self._wanted)

    def _step_aside_wanted(self, reason: str) -> None:
        if self.state is State.STABLE and not self.alone:
            self._refuse(reason)

    # ---- heartbeats and coalescing -----------------------------------------------------------------------------

    def _heartbeat_answered(self, answer: HeartbeatAnswer) -> None:
        if answer.error in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            self._alive_at = max(self._alive_at, self._heartbeat_sent_at)
        if action_for(answer.error) is Action.REJOIN and self._heartbeat_generation != self.generation:
            return  # of the generation before: the broker's answer to our JoinGroup has overtaken it
        if self.state is State.JOINING and answer.error in (Code.NONE, Code.REBALANCE_IN_PROGRESS):
            if self._join_overdue():
                self._join_anew()
        elif answer.error == Code.NONE:
            if self.state is State.STABLE:
                self._attempts = 0
                self._doubt_since = None
        elif action_for(answer.error) is Action.REJOIN and self.state not in (State.STABLE, State.DECIDING):
            pass  # we are on our way back, or the answer to our SyncGroup says the same
        elif answer.error == Code.REBALANCE_IN_PROGRESS:
            self._called_back()
        else:
            self._failed(Kind.HEARTBEAT, answer.error)

    def _called_back(self) -> None:
        """The broker holds the round open until every member is back, and we are one of them. If we were alone we would
        close it at once and give the first of fifty starting members a generation of its own."""
        self._list_app_topics = False
        window_ms = self.config.coalesce_ms if self.alone else self.config.coalesce_running_ms
        if window_ms <= 0 or self._stopping:
            self._rejoin("a rebalance has begun")
            return
        self._timers.clear(Timer.DECISION, Timer.FOLLOWUP, Timer.REBALANCE, Timer.LINGER)
        self.state = State.COALESCING
        self._reason = "a rebalance has begun"
        if self.alone:
            self._coalescing = Coalescing.begin(self._now, self.config)
            self._coalesce_step()
        else:
            self._set(Timer.COALESCE, window_ms)

    def _coalesce_step(self) -> None:
        coalescing = self._coalescing
        if coalescing is None or self._now >= coalescing.limit:
            self._rejoin(self._reason)
            return
        self._requests.describe()
        self._timers.set(Timer.COALESCE, coalescing.next_count_at(self._now))

    def _counted(self, answer: DescribeAnswer) -> None:
        coalescing = self._coalescing
        unseen = answer.error and not is_missing(answer)
        if unseen or coalescing is None or coalescing.counted(len(answer.members), self._now):
            self._rejoin(self._reason)
