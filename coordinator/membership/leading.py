"""Leading a group: from the answer that names Bellwether as leader to the delivered plan, and the tasks after that."""

import math
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import events
from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import Decide, NoteKind, PlanDelivered, RebuildMemory
from bellwether_kafka.coordinator.membership.joining_leaving import Joining, Leaving, Recovery
from bellwether_kafka.coordinator.membership.lead_rules import empty_assignment, was_own
from bellwether_kafka.coordinator.membership.rebalances import GroupRebalances
from bellwether_kafka.coordinator.membership.requests import Kind, Timer
from bellwether_kafka.coordinator.membership.role import Action, NotLeading, action_for
from bellwether_kafka.coordinator.membership.transitions import State

# A leader removed by a take-over notices it at its next heartbeat, and rejoins.
REMOVED_BACK_MS_MAX = 10_000


@dataclass(slots=True)
class Leading:
    core: Core
    joining: Joining
    leaving: Leaving
    recovery: Recovery
    rebalances: GroupRebalances

    # ---- the answer to JoinGroup -----------------------------------------------------------------------------------

    def joined(self, answer: events.JoinAnswer) -> None:
        if action_for(answer.error) is Action.USE_MEMBER_ID:
            self.core.requests.member_id = answer.member_id
            self.joining.send()
            return
        if answer.error:
            self.recovery.failed(Kind.JOIN, answer.error)
            return
        self._admitted(answer)
        if answer.leader == "":
            self.core.alert("the group has been converted to the KIP-848 protocol: its broker assigns now")
            self.leaving.leave(
                "the group has been converted to the KIP-848 protocol", NotLeading.CONVERTED, setback=True
            )
        elif self.core.hand_backs.waits:  # its instance id was still a member
            self.leaving.leave(self.core.hand_backs.obstacle.sentence, NotLeading.HANDED_BACK)
        elif answer.skip_assignment:
            self._returned_as_leader()
        elif answer.leader == answer.member_id:
            self._lead()
        elif was_own(answer.leader, self.core.config):
            # The broker counts Bellwether as leader but has sent it no members: Bellwether will lead the next
            # rebalance.
            self.core.leadership.must_lead = True
            self._sync_nothing()
        else:
            self.leaving.leave(f"{answer.leader} leads the group", NotLeading.SET_BACK, setback=True)

    def _admitted(self, answer: events.JoinAnswer) -> None:
        core = self.core
        core.requests.admitted(answer)
        self.joining.admitted(answer)
        core.leadership.members = answer.members
        core.sighting.shows(others=not core.alone)
        core.leadership.returned = core.leadership.must_lead = core.leadership.outdated = False
        core.attempts = 0
        core.session.alive_at = core.now
        core.set_timer(Timer.HEARTBEAT, core.config.heartbeat_interval_ms)

    def _returned_as_leader(self) -> None:
        """Keeps everything unchanged after a static leader returned to a Stable group
        (docs/internals/broker-behaviour.md#static-membership)."""
        core = self.core
        if not core.alone:
            core.send(RebuildMemory(core.requests.generation, core.requests.protocol, core.leadership.members))
        self._sync_nothing()

    def _sync_nothing(self) -> None:
        self.core.leadership.returned = True
        self.core.leadership.leaves_to_the_next()
        self.joining.sync(())

    def _lead(self) -> None:
        core = self.core
        # The plan is made from metadata read after this moment, so it satisfies every earlier wish.
        wanted = "; ".join(dict.fromkeys(core.leadership.wanted.values()))
        core.leadership.wanted.clear()
        if core.alone:
            if core.lingers_ms == 0 and not core.leadership.removed and Timer.LINGER not in core.timers:
                self._leave_alone()
                return
            core.leadership.leaves_to_the_next()
            self.joining.sync(((core.requests.member_id, empty_assignment(streams=core.config.streams)),))
            return
        core.go(State.DECIDING)
        core.set_timer(Timer.DECISION, core.config.decision_deadline_ms)
        self._decide(wanted=wanted)

    # ---- the plan --------------------------------------------------------------------------------------------------

    def _decide(self, *, dry: bool = False, wanted: str = "") -> None:
        core, requests, leadership = self.core, self.core.requests, self.core.leadership
        deadline = core.now + core.config.decision_deadline_ms / 1000
        core.send(
            Decide(
                requests.generation,
                requests.protocol,
                leadership.members,
                requests.member_id,
                deadline,
                dry,
                leadership.removed,
                wanted,
            )
        )

    def decision_ready(self, event: events.DecisionReady) -> None:
        core = self.core
        if event.generation != core.requests.generation:
            return
        core.timers.clear(Timer.DECISION)
        if sorted(member for member, _ in event.assignments) != sorted(m.member_id for m in core.leadership.members):
            self._refuse("the plan is not for the members of this generation")
            return
        self.joining.plan_topics(event.topics)
        if core.session_expired:
            self.recovery.rejoin("the plan came after the session had expired")
            return
        in_ms = event.called_in_ms
        called_at = math.inf if in_ms is None else core.now + in_ms / 1000
        core.leadership.leaves_to_the_next(pending=event.pending, called_at=called_at)
        self.joining.sync(event.assignments)

    def decision_failed(self, event: events.DecisionFailed) -> None:
        if event.generation == self.core.requests.generation:
            self._refuse(event.reason)

    def decision_overdue(self) -> None:
        self._refuse("no plan before the decision deadline")

    def step_aside(self, event: events.StepAsideWanted) -> None:
        core = self.core
        refusal = core.hand_backs.refusal(core.now)
        if refusal:
            core.alert(f"{event.reason}; {refusal}")
            return
        core.alert(f"handed back: {event.reason}")
        core.note(NoteKind.REFUSED, event.reason, NotLeading.HANDED_BACK.value)
        core.hand_backs.begins(core.now, event.reason)
        self.leaving.leave(event.reason, NotLeading.HANDED_BACK, setback=True)

    def work_suspected(self, event: events.WorkSuspected) -> None:
        self.core.alert(event.reason)

    def _refuse(self, reason: str) -> None:
        self.core.note(NoteKind.REFUSED, reason, NotLeading.NO_PLAN.value)
        self.leaving.leave(reason, NotLeading.NO_PLAN, setback=True)

    def compared(self, event: events.ComparisonReady) -> None:
        if event.generation != self.core.requests.generation:
            return
        self.joining.plan_topics(event.topics)
        if event.worth_moving:
            self.rebalances.want(event.reason or "the plan differs from what the members hold", "comparison")

    # ---- the answer to SyncGroup -----------------------------------------------------------------------------------

    def synced(self, answer: events.SyncAnswer) -> None:
        core, leadership = self.core, self.core.leadership
        if answer.error:
            self.recovery.failed(Kind.SYNC, answer.error)
            return
        core.session.alive_at = core.session.rested_at = core.now
        core.trouble_is_over()
        leadership.assignments = ()
        removed = bool(leadership.removed)
        self.core.policy.succeeded()
        core.go(State.STABLE)
        if not leadership.returned:
            core.send(PlanDelivered(core.requests.generation))
            leadership.removed = ()
        if self.leaving.stopping:
            self.leaving.stop()
        elif leadership.must_lead:
            self.recovery.rejoin("lead again after a static return")
        else:
            self._settle(removed=removed)

    def _settle(self, *, removed: bool) -> None:
        """Does what is left to do in this generation when STABLE begins."""
        core, leadership = self.core, self.core.leadership
        if leadership.returned:
            core.note(NoteKind.LEADING, "came back to its group without a rebalance")
        else:
            others = sum(m.member_id != core.requests.member_id for m in leadership.members)
            core.note(NoteKind.LEADING, f"{others} members beside Bellwether")
        if core.alone:
            self._settle_alone(removed=removed)
            return
        core.timers.clear(Timer.LINGER)
        if leadership.returned:
            self._decide(dry=True)
        self.rebalances.plan_followup()
        self.rebalances.want_what_is_wanted()

    def _settle_alone(self, *, removed: bool) -> None:
        core, joining = self.core, self.joining
        core.leadership.followups = 0
        lingers_ms = core.lingers_ms
        if lingers_ms is not None and Timer.LINGER not in core.timers:
            lingers_ms = max(lingers_ms, REMOVED_BACK_MS_MAX * removed)
            if not lingers_ms:
                self._leave_alone()
                return
            core.set_timer(Timer.LINGER, lingers_ms)
        if joining.app_topics and joining.listed != joining.app_topics:
            # Offsets of topics that no member subscribes to expire; so Bellwether subscribes to them while it is the
            # only member.
            core.leadership.lists_app_topics = True
            self.recovery.rejoin("list the application's topics while no other member is there")

    def lingered(self) -> None:
        if self.core.state is State.STABLE and self.core.alone:
            self._leave_alone()

    def _leave_alone(self) -> None:
        """Leaves an empty group, which Bellwether joins again only after another member has."""
        self.core.sighting.awaited = True
        self.leaving.leave("no other member is in the group", NotLeading.EMPTY)
