"""Why Bellwether does not lead, in the order in which it is reported: the role of a membership follows from its state
and from what brokers have answered.

A reason is a function of the membership and its place in a table. `BARS` also keep Bellwether out of the group. What
follows from one answer and holds until a restart is in `lead_rules.UNFIT`, what keeps it from taking a group over in
`takeover_policy`.
"""

from collections.abc import Callable

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.events import GroupState
from bellwether_kafka.coordinator.membership.requests import Timer
from bellwether_kafka.coordinator.membership.role import NotLeading, Obstacle, Role
from bellwether_kafka.coordinator.membership.transitions import State

WAITS = {"when-empty": "until the group is empty", "succeed": "until its leader is restarted or dies"}


def role_of(core: Core, before: Role) -> Role:
    """Returns the role now. `before` is that of the last event."""
    reason, detail = obstacle(core) or (None, "")
    return before.followed_by(Role(reason, detail, core.now, _next_attempt(core) if reason is not None else None))


def obstacle(core: Core) -> Obstacle | None:
    """Returns why Bellwether does not lead; None if it leads."""
    here = OUTSIDE if core.state is State.WATCHING else INSIDE
    return next((why for each in (*ANYWHERE, *here) if (why := each(core)) is not None), None)


def may_lead(core: Core) -> bool:
    """Returns whether this instance may lead where there are members."""
    return all(each(core) is None for each in BARS)


def _next_attempt(core: Core) -> float | None:
    if core.state is not State.WATCHING or not may_lead(core):
        return None
    wait_s = core.policy.may_try_in(core.now)
    if wait_s:
        return core.now + wait_s
    return core.takeovers.next_attempt(core.now) or core.timers.at(Timer.WATCH)


# ---- in any state --------------------------------------------------------------------------------------------------


def stopped(core: Core) -> Obstacle | None:
    if core.state is not State.STOPPED:
        return None
    return core.ended or Obstacle(NotLeading.STOPPED, "this process ends")


def leaving(core: Core) -> Obstacle | None:
    return Obstacle(NotLeading.LEAVING, core.reason) if core.state is State.LEAVING else None


def refused(core: Core) -> Obstacle | None:
    return core.refusal if core.session_expired or not core.is_member else None


def unreachable(core: Core) -> Obstacle | None:
    if not core.unreachable or (core.is_member and not core.session_expired):
        return None
    return Obstacle(NotLeading.UNREACHABLE, "no broker answers for this group")


def approaching(core: Core) -> Obstacle | None:
    if core.state is not State.APPROACHING:
        return None
    return Obstacle(NotLeading.TAKING_OVER, "the lead is being taken from a member")


# ---- in the group --------------------------------------------------------------------------------------------------


def joining(core: Core) -> Obstacle | None:
    return None if core.is_member else Obstacle(NotLeading.JOINING, core.reason)


def unheard(core: Core) -> Obstacle | None:
    if not core.session_expired:
        return None
    return Obstacle(NotLeading.UNREACHABLE, "no broker has answered for a session timeout")


def outdated(core: Core) -> Obstacle | None:
    return Obstacle(NotLeading.JOINING, core.reason) if core.leadership.outdated else None


def only_member(core: Core) -> Obstacle | None:
    return _empty(core) if core.alone and not core.leadership.must_lead else None


# ---- outside -------------------------------------------------------------------------------------------------------


def ordered_out(core: Core) -> Obstacle | None:
    order = core.permission.orders.leave
    return Obstacle(NotLeading.ORDERED_OUT, order) if order else None


def standby(core: Core) -> Obstacle | None:
    if core.permission.active:
        return None
    return Obstacle(NotLeading.STANDBY, "another instance with this instance id is to lead")


def released(core: Core) -> Obstacle | None:
    order = core.permission.orders.release
    if not order or core.sighting.others:
        return None
    return Obstacle(NotLeading.ORDERED_OUT, f"{order}, until members join")


def not_described(core: Core) -> Obstacle | None:
    return None if core.sighting.state else Obstacle(NotLeading.STARTING, "the group has not been described yet")


def waits(core: Core) -> Obstacle | None:
    return core.waits


def unlearned(core: Core) -> Obstacle | None:
    if core.sighting.others or core.config.adopt_empty:
        return None
    return Obstacle(NotLeading.EMPTY, "the group is empty, and its topology is to be learned from its first members")


def member_leads(core: Core) -> Obstacle | None:
    adopt = core.config.adopt
    if adopt == "take-over":
        return None
    sentence = f'a member leads, and adopt = "{adopt}" waits {WAITS[adopt]}'
    return Obstacle(NotLeading.MEMBER_LEADS, sentence + _named_leader(core) + _since(core))


def not_taken_over(core: Core) -> Obstacle | None:
    why = core.takeovers.obstacle
    if why is None or why.reason is not NotLeading.MEMBER_LEADS:
        return why
    return Obstacle(why.reason, why.sentence + _named_leader(core) + _since(core))


def rebalancing(core: Core) -> Obstacle | None:
    if core.sighting.state != GroupState.PREPARING:
        return None
    return Obstacle(NotLeading.REBALANCING, "the group rebalances; Bellwether takes it over when it is Stable")


def dry_run(core: Core) -> Obstacle:
    return Obstacle(NotLeading.TAKING_OVER, "a dry run of the plan comes before the lead is taken" + _since(core))


def _named_leader(core: Core) -> str:
    leader = core.takeovers.leader_here
    return f"; {leader} leads" if leader else ""


def _since(core: Core) -> str:
    setback = core.policy.setback
    return f"; the last attempt to lead ended: {setback.sentence}" if setback is not None else ""


# ---- a group without other members ---------------------------------------------------------------------------------


def _empty(core: Core) -> Obstacle | None:
    sighting = core.sighting
    if sighting.others:
        return None
    if sighting.existed and sighting.awaited:
        return _awaiting(core)
    if core.state is State.WATCHING and not sighting.may_be_joined(core.now):
        return Obstacle(NotLeading.EMPTY, f"no other member is in the group; {_reading(core)}")
    if sighting.existed:
        return Obstacle(NotLeading.EMPTY, "no other member is in the group")
    return Obstacle(
        NotLeading.UNKNOWN_GROUP,
        "the group does not exist yet: no other member has ever been seen in it, and it has no committed offsets",
    )


def _awaiting(core: Core) -> Obstacle:
    """Returns why Bellwether stays out of an empty group until another member has come."""
    sighting = core.sighting
    if sighting.written:
        sentence = (
            "offsets are committed while no member is there, by consumers that assign themselves partitions"
            " (assign()) or by a mirror of another cluster, and the broker would refuse these commits beside a"
            " member"
        )
        return Obstacle(NotLeading.NO_SUBSCRIBERS, sentence)
    if sighting.subscribed or core.config.subscribes:
        return Obstacle(NotLeading.EMPTY, "no other member is in the group, and Bellwether has left it to the first")
    sentence = (
        "no member that subscribes has been seen in the group, and the broker would refuse the commits of consumers"
        " that assign themselves partitions (assign()) beside a member"
    )
    joined_once = sighting.protocol_type or sighting.state != GroupState.EMPTY
    hint = "" if joined_once else "; only such consumers have committed in it so far"
    return Obstacle(NotLeading.NO_SUBSCRIBERS, sentence + hint)


def _reading(core: Core) -> str:
    """Returns what has to be seen before Bellwether joins the empty group."""
    sighting = core.sighting
    if sighting.offsets is None:
        return "its offsets have not been read yet: commits without a member would be refused beside one"
    return (
        f"Bellwether joins it once its offsets have not changed for {sighting.rest_s_least:.0f} s, because"
        " consumers that assign themselves partitions, or a mirror of another cluster, would be refused beside a"
        " member"
    )


# ---- the tables: the first that applies is reported ----------------------------------------------------------------

Why = Callable[[Core], Obstacle | None]
ANYWHERE: tuple[Why, ...] = (stopped, leaving, refused, unreachable, approaching)
INSIDE: tuple[Why, ...] = (joining, unheard, outdated, only_member)
BARS: tuple[Why, ...] = (ordered_out, standby)
OUTSIDE: tuple[Why, ...] = (
    *BARS,
    released,
    not_described,
    waits,
    unlearned,
    _empty,
    member_leads,
    not_taken_over,
    rebalancing,
    dry_run,
)
