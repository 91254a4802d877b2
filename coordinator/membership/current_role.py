"""Derives the role of a membership from its state and from what brokers have answered."""

from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import GroupState
from bellwether_kafka.coordinator.membership.joining_leaving import Leaving
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle, Role
from bellwether_kafka.coordinator.membership.transitions import State

WAITS = {"when-empty": "until the group is empty", "succeed": "until its leader is restarted or dies"}


@dataclass(slots=True)
class CurrentRole:
    """Derives the role. Call `refresh` after each event; `role` is then up to date."""

    core: Core
    leaving: Leaving
    role: Role = field(default_factory=Role)

    def refresh(self) -> None:
        obstacle = self._obstacle()
        reason, detail = obstacle or (None, "")
        next_attempt = self._next_attempt() if reason is not None else None
        self.role = self.role.followed_by(Role(reason, detail, self.core.now, next_attempt))

    def _obstacle(self) -> Obstacle | None:
        """Returns why Bellwether does not lead; None if it leads."""
        core = self.core
        if core.state is State.STOPPED:
            return self.leaving.ended or Obstacle(NotLeading.STOPPED, "this process ends")
        if core.state is State.LEAVING:
            return Obstacle(NotLeading.LEAVING, core.reason)
        if core.refusal is not None and (core.session_expired or not core.is_member):
            return core.refusal
        if core.unreachable and (core.session_expired or not core.is_member):
            return Obstacle(NotLeading.UNREACHABLE, "no broker answers for this group")
        if core.state is State.APPROACHING:
            return Obstacle(NotLeading.TAKING_OVER, "the lead is being taken from a member")
        if core.state is State.WATCHING:
            return self._watching()
        if not core.is_member:
            return Obstacle(NotLeading.JOINING, core.reason)
        if core.session_expired:
            return Obstacle(NotLeading.UNREACHABLE, "no broker has answered for a session timeout")
        if core.leadership.outdated:
            return Obstacle(NotLeading.JOINING, core.reason)
        alone = core.alone and not core.sighting.others and not core.leadership.must_lead
        return self._alone() if alone else None

    def _alone(self) -> Obstacle:
        sighting = self.core.sighting
        if sighting.existed and sighting.awaited:
            return self._awaiting()
        if self.core.state is State.WATCHING and not sighting.may_be_joined(self.core.now):
            return Obstacle(NotLeading.EMPTY, f"no other member is in the group; {self._reading()}")
        if sighting.existed:
            return Obstacle(NotLeading.EMPTY, "no other member is in the group")
        return Obstacle(
            NotLeading.UNKNOWN_GROUP,
            "the group does not exist yet: no other member has ever been seen in it, and it has no committed offsets",
        )

    def _awaiting(self) -> Obstacle:
        """Returns why Bellwether stays out of an empty group until another member has come."""
        sighting = self.core.sighting
        if sighting.written:
            sentence = (
                "offsets are committed while no member is there, by consumers that assign themselves partitions"
                " (assign()) or by a mirror of another cluster, and the broker would refuse these commits beside a"
                " member"
            )
            return Obstacle(NotLeading.NO_SUBSCRIBERS, sentence)
        if sighting.subscribed or self.core.config.subscribes:
            return Obstacle(
                NotLeading.EMPTY, "no other member is in the group, and Bellwether has left it to the first"
            )
        sentence = (
            "no member that subscribes has been seen in the group, and the broker would refuse the commits of consumers"
            " that assign themselves partitions (assign()) beside a member"
        )
        joined_once = sighting.protocol_type or sighting.state != GroupState.EMPTY
        hint = "" if joined_once else "; only such consumers have committed in it so far"
        return Obstacle(NotLeading.NO_SUBSCRIBERS, sentence + hint)

    def _reading(self) -> str:
        """Returns what has to be seen before Bellwether joins the empty group."""
        sighting = self.core.sighting
        if sighting.offsets is None:
            return "its offsets have not been read yet: whoever commits without a member would be refused beside one"
        return (
            f"Bellwether joins it once its offsets have not changed for {sighting.rest_s_least:.0f} s, because"
            " consumers that assign themselves partitions, or a mirror of another cluster, would be refused beside a"
            " member"
        )

    def _watching(self) -> Obstacle:
        core, config, sighting = self.core, self.core.config, self.core.sighting
        for hindrance in core.permission.hindrances(others=sighting.others):
            return hindrance
        if not sighting.state:
            return Obstacle(NotLeading.STARTING, "the group has not been described yet")
        set_back, waits = core.policy.setback, core.waits
        if waits is not None:
            return waits
        if not sighting.others and not config.adopt_empty:
            sentence = "the group is empty, and its topology is to be learned from its first members"
            return Obstacle(NotLeading.EMPTY, sentence)
        if not sighting.others:
            return self._alone()
        since = f"; the last attempt to lead ended: {set_back.sentence}" if set_back is not None else ""
        if config.adopt != "take-over":
            text = f'a member leads, and adopt = "{config.adopt}" waits {WAITS[config.adopt]}'
            return Obstacle(NotLeading.MEMBER_LEADS, text + self._named_leader() + since)
        obstacle = core.takeovers.obstacle
        if obstacle is not None and obstacle.reason is NotLeading.MEMBER_LEADS:
            return Obstacle(obstacle.reason, obstacle.sentence + self._named_leader() + since)
        if obstacle is not None:
            return obstacle
        if sighting.state == GroupState.PREPARING:
            return Obstacle(NotLeading.REBALANCING, "the group rebalances; Bellwether takes it over when it is Stable")
        return Obstacle(NotLeading.TAKING_OVER, "a dry run of the plan comes before the lead is taken" + since)

    def _named_leader(self) -> str:
        leader = self.core.takeovers.leader_here
        return f"; {leader} leads" if leader else ""

    def _next_attempt(self) -> float | None:
        core = self.core
        if core.state is not State.WATCHING or not core.permission.may_lead:
            return None
        wait_s = core.policy.may_try_in(core.now)
        if wait_s:
            return core.now + wait_s
        return core.takeovers.next_attempt(core.now) or core.timers.at(Timer.WATCH)
