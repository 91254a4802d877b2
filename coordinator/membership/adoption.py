"""How a membership begins: Bellwether watches a group, and joins it when it is empty, when its instance id is still a
member, or to take it from its leader."""

from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership import events, lead_rules
from bellwether_kafka.coordinator.membership.broker_order import Deaths
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import Decide, NoteKind
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving, Recovery
from bellwether_kafka.coordinator.membership.leading import Leading
from bellwether_kafka.coordinator.membership.obstacles import may_lead
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.role import Action, NotLeading, Obstacle, action_for, refusal
from bellwether_kafka.coordinator.membership.takeover import answered, wake
from bellwether_kafka.coordinator.membership.takeover_attempt import Attempt, Failed, Outcome, TakenOver
from bellwether_kafka.coordinator.membership.takeover_policy import AWAITS_TURN, TakeoverAttempt, offered
from bellwether_kafka.coordinator.membership.takeover_search import begin
from bellwether_kafka.coordinator.membership.transitions import State

DRY_RUN = -1  # the generation given in a dry run for a group that a member leads
EAGER_INTERVAL_MS = 1_000
# A failed dry run has disturbed no member, and what it lacks may come at any time: a topic, a topology, a permission.
DRY_RUN_WAIT_S_MAX = 30.0


@dataclass(slots=True)
class Approach:
    """Runs a take-over in APPROACHING to its end: Bellwether leads, or is not a member."""

    core: Core
    joining: Joining
    leaving: Leaving
    leading: Leading
    _attempt: Attempt = field(init=False)  # always set in APPROACHING
    _pending: tuple[str, ...] = ()  # ids of an attempt that ended at rest
    _pending_until: float = float("-inf")  # when the broker forgets them

    def begin(self, plan: TakeoverAttempt) -> None:
        core = self.core
        core.requests.abandon(Kind.DESCRIBE)
        core.timers.clear(Timer.WATCH)
        self.joining.slot_taken = False
        self._attempt = Attempt.of(plan, core.requests, core.position.on_edge, core.now)
        core.go(State.APPROACHING)
        begin(self._attempt)
        self._conclude(None)

    @property
    def in_front(self) -> str:
        """Bellwether's id if it is parked in the rebalance and sorts first, "" otherwise."""
        return self._attempt.in_front if self.core.state is State.APPROACHING else ""

    @property
    def searches(self) -> bool:
        """True while Bellwether searches for a member id."""
        return self.core.state is State.APPROACHING and self._attempt.searches

    def answered(self, kind: Kind, event: events.Answer) -> None:
        self._conclude(answered(self._attempt, kind, event, self.core.now))

    def wake(self) -> None:
        self._conclude(wake(self._attempt, self.core.now))

    def request_failed(self, event: events.RequestFailed) -> None:
        self.give_up(f"a request got no answer: {event.reason}")

    def stop(self) -> None:
        self.leaving.stopping = True
        self.give_up("Bellwether is shutting down")

    def give_up(self, reason: str) -> None:
        self._abort(Failed(reason))

    def _conclude(self, outcome: Outcome) -> None:
        match outcome:
            case None:
                self.core.timers.clear(Timer.TAKEOVER)
                if self._attempt.due is not None:
                    self.core.timers.set(Timer.TAKEOVER, self._attempt.due)
            case TakenOver():
                self._took_over(outcome)
            case Failed():
                self._abort(outcome)

    def _abort(self, failed: Failed) -> None:
        core, attempt = self.core, self._attempt
        core.takeovers.failed(attempt.leader, attempt.room)
        if attempt.disturbs and attempt.plan.evictions:
            core.takeovers.disturbed(attempt.plan, core.now)
            core.takeovers.came_to_nothing(attempt.plan, attempt.evicted, failed.reason)
        core.timers.clear(Timer.TAKEOVER)
        core.requests.abandon(Kind.GIVE_BACK)
        if attempt.disturbs:
            self._give_back(attempt.ids_to_give_back, failed.reason)
        else:
            self._pending = (*self._still_pending, *attempt.ids_to_give_back)
            self._pending_until = core.now + core.config.session_timeout_ms / 1000
        core.requests.abandon(Kind.TEMPORARY)
        if failed.code and action_for(failed.code) is Action.END:
            self.leaving.fail_code(failed.code)
            return
        refused = refusal(failed.code, core.config) if failed.code else None
        why = Obstacle(NotLeading.SET_BACK, failed.reason)
        if refused is not None:
            why = Obstacle(refused.reason, f"{failed.reason}. {refused.sentence}")
        if attempt.joined:
            # If another member leads after dead members were removed, that cost one rebalance and shows which to remove
            # next.
            expected = attempt.leader and attempt.plan.before_removal
            self.leaving.leave(why.sentence, why.reason, setback=not expected)
        else:
            self.leaving.lost(why.sentence, why.reason)

    def _took_over(self, led: TakenOver) -> None:
        core, attempt = self.core, self._attempt
        core.timers.clear(Timer.TAKEOVER)
        core.takeovers.disturbed(attempt.plan, core.now)
        core.takeovers.succeeded()
        self.joining.listed = core.config.topics
        core.leadership.removed = attempt.evicted
        core.requests.abandon(Kind.DESCRIBE)  # sent for the take-over; its answer is no longer needed
        self._give_back(attempt.ids_to_give_back, "the lead has been taken")
        removed, took_s = ", ".join(attempt.evicted) or "a leader that had gone", core.now - attempt.began
        core.note(NoteKind.ADOPTED, f"after {removed}, in {took_s:.2f} s, with member id number {attempt.tries}")
        core.go(State.JOINING)
        self.leading.joined(led.answer)

    def group_seen(self, state: str) -> None:
        """Gives ids back that a rebalance waits for. In a stable group this would begin a rebalance, so there they are
        left to the broker, which forgets them."""
        if state == events.GroupState.PREPARING:
            self._give_back(self._still_pending, "not needed")
            self._pending = ()

    @property
    def _still_pending(self) -> tuple[str, ...]:
        return self._pending if self.core.now < self._pending_until else ()

    def _give_back(self, ids: tuple[str, ...], reason: str) -> None:
        if ids:
            self.core.requests.evict(ids, reason, kind=Kind.GIVE_BACK)


@dataclass(slots=True)
class Adoption:
    """Watches a group that Bellwether does not lead (in WATCHING), and decides how and when to join it."""

    core: Core
    joining: Joining
    leaving: Leaving
    recovery: Recovery
    approach: Approach
    _dry_run_for: TakeoverAttempt | None = None
    _returning: bool = False  # the dry run under way is for a return after a hand-back
    _reported: str = ""

    @property
    def needs_turn(self) -> bool:
        """True from the dry run of a take-over until Bellwether has its member id, or the attempt has ended."""
        dry_run = self.core.state is State.WATCHING and self._dry_run_for is not None
        return dry_run or self.approach.searches

    def described(self, answer: events.DescribeAnswer) -> None:
        if answer.error and not lead_rules.is_missing(answer):
            self.recovery.failed(Kind.DESCRIBE, answer.error)
            return
        self._note_what_is_seen(answer)
        core, config = self.core, self.core.config
        obstacle = lead_rules.unfit(answer, config)
        by_broker = obstacle is not None and obstacle.reason is NotLeading.CONVERTED
        core.sighting.by_broker = obstacle if by_broker else None
        if obstacle is not None and not by_broker:
            self.leaving.fail(obstacle)
            return
        if obstacle is not None:
            self._report(obstacle.sentence)
            core.set_timer(Timer.WATCH, config.watch_interval_ms)
            return
        if answer.protocol:  # kept while the group is empty: joining first with a wrong list would lock its members out
            core.requests.protocols = offered(config.protocols, answer.protocol)
        if core.hand_backs.waits and not lead_rules.holds_instance(answer, config):
            core.set_timer(Timer.WATCH, config.watch_interval_ms)
            self._consider_return(answer)
        else:
            self._join_or_consider(answer)

    def _note_what_is_seen(self, answer: events.DescribeAnswer) -> None:
        core, config = self.core, self.core.config
        core.trouble_is_over()
        core.takeovers.answered_in((core.now - core.session.describe_sent_at) * 1000)
        state = events.GroupState.DEAD if lead_rules.is_missing(answer) else answer.state
        core.sighting.seen(state, answer.protocol_type, others=lead_rules.others_in(answer, config))
        self.approach.group_seen(state)
        if answer.members:
            core.sighting.peopled(core.now)
        if state == events.GroupState.EMPTY and not (may_lead(core) or config.subscribes):
            core.sighting.awaited = True  # members that return at once will have done so before Bellwether may join

    def _join_or_consider(self, answer: events.DescribeAnswer) -> None:
        core = self.core
        written = not core.sighting.may_be_joined(core.now)
        awaits = core.sighting.awaited or bool(core.permission.orders.release) or written
        reason = core.policy.may_join(answer, core.now, awaits_members=awaits)
        if reason and may_lead(core):
            self.joining.slot_taken = lead_rules.holds_instance(answer, core.config)
            self.joining.begin(reason)
            return
        core.set_timer(Timer.WATCH, self._next_watch_ms())
        if not reason and may_lead(core):
            self._consider(answer)

    def offsets_read(self, event: events.OffsetsRead) -> None:
        """Looks at the group again as soon as nothing but a description is missing before Bellwether joins it."""
        sighting = self.core.sighting
        could_be_joined = sighting.may_be_joined(self.core.now)
        sighting.read(event)
        out = could_be_joined or sighting.awaited or not may_lead(self.core)
        if sighting.may_be_joined(self.core.now) and not out:
            self.recovery.proceed()

    def _next_watch_ms(self) -> float:
        """Returns how long to wait for the next description. If a wait keeps an active standby from its own membership,
        it joins as soon as the wait is over, because the session runs. Rebalances that wait for dead members are only
        seen by frequent polls."""
        config = self.core.config
        interval_ms: float = config.watch_interval_ms
        if self.core.takeovers.eager:
            interval_ms = min(interval_ms, EAGER_INTERVAL_MS)
        left_ms = self.core.policy.may_try_in(self.core.now) * 1000
        return min(interval_ms, left_ms) if config.standby and self.core.permission.active and left_ms else interval_ms

    def _consider(self, answer: events.DescribeAnswer) -> None:
        attempt = self.core.takeovers.attempt(answer, self.core.now)
        obstacle = self.core.takeovers.obstacle
        self._report(obstacle.sentence if obstacle is not None else "")
        if attempt is None or self.core.policy.may_try_in(self.core.now):
            self._dry_run_for = None
        elif not attempt.evictions:
            self.approach.begin(attempt)
        elif self.core.turns.take(self.core.config.group_id, self.core.now):
            self._begin_dry_run(attempt, answer)
        else:
            self.core.takeovers.obstacle = AWAITS_TURN

    def deaths_proven(self, event: events.DeathsProven) -> None:
        """Begins a take-over if Bellwether can join before the dead members are removed. They are removed in any
        case."""
        core = self.core
        free = may_lead(core) and not core.hand_backs.waits
        if core.requests.ready and free and not core.policy.may_try_in(core.now):
            attempt = core.takeovers.before_removal(Deaths(event.seen, event.dead))
            if attempt is not None:
                self.approach.begin(attempt)

    def _consider_return(self, answer: events.DescribeAnswer) -> None:
        """After a hand-back, starts the dry run that has to show that the plan would not differ from what members
        own."""
        core = self.core
        at_rest = answer.state == events.GroupState.STABLE and bool(answer.members)
        if at_rest and may_lead(core) and not core.policy.may_try_in(core.now):
            self._returning = True
            self._send_dry_run(answer)

    def _returned(self, event: events.ComparisonReady | events.ComparisonFailed) -> None:
        core, hand_backs = self.core, self.core.hand_backs
        lacks = event.reason if isinstance(event, events.ComparisonFailed) or event.worth_moving else ""
        if lacks:
            hand_backs.lacks = lacks
            core.policy.set_back(core.now, hand_backs.obstacle, DRY_RUN_WAIT_S_MAX)
            return
        hand_backs.over()
        core.note(NoteKind.WATCHING, "its plan would not differ from what members hold, so Bellwether may lead again")
        core.set_timer(Timer.WATCH, 0.0)

    def _report(self, obstacle: str) -> None:
        """Notes each obstacle once."""
        if obstacle and obstacle != self._reported:
            self.core.note(NoteKind.WATCHING, f"not taken over: {obstacle}")
        self._reported = obstacle

    # ---- a leader is removed only after a valid plan for its group has been made ------------------------------------

    def _begin_dry_run(self, attempt: TakeoverAttempt, answer: events.DescribeAnswer) -> None:
        self._dry_run_for, self._returning = attempt, False
        self._send_dry_run(answer)

    def _send_dry_run(self, answer: events.DescribeAnswer) -> None:
        members = tuple(events.JoinedMember(m.member_id, m.instance_id, m.metadata) for m in answer.members)
        deadline = self.core.now + self.core.config.decision_deadline_ms / 1000
        self.core.send(Decide(DRY_RUN, answer.protocol, members, "", deadline, dry=True))

    def dry_run_done(self, event: events.ComparisonReady | events.ComparisonFailed) -> None:
        returning, self._returning = self._returning, False
        if returning and event.generation == DRY_RUN:
            self._returned(event)
            return
        attempt, self._dry_run_for = self._dry_run_for, None
        if attempt is None or event.generation != DRY_RUN:
            return
        if not self.core.requests.ready:
            return  # the coordinator node was lost meanwhile; the next description starts over
        if isinstance(event, events.ComparisonReady):
            self.approach.begin(attempt)
        else:
            why = Obstacle(NotLeading.NO_PLAN, event.reason)
            self.core.policy.set_back(self.core.now, why, DRY_RUN_WAIT_S_MAX)
            self._report(event.reason)
