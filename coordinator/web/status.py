"""The status of a configured group: whether it is led, and if it should be but is not, the reason."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import Role


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """The reason why this process does not lead a group that it is to lead. The texts are empty while it leads.
    `since_ms` is when this began, in milliseconds since 1970; `next_attempt_ms` is None if no attempt is due."""

    reason: str
    detail: str
    remedy: str
    since_ms: int
    next_attempt_ms: int | None


def role_status(role: Role, epoch_s: float) -> RoleStatus:
    """Converts a role to a status. `epoch_s` is the time at which the role's clock was 0, in seconds since 1970."""
    due = role.next_attempt
    return RoleStatus(
        role.reason.value if role.reason is not None else "",
        role.detail,
        role.remedy,
        int((role.since + epoch_s) * 1000),
        int((due + epoch_s) * 1000) if due is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Emptying:
    """A member or a rack that is being evacuated. `order` is a sentence on who ordered it and why. `stage` is
    "emptying", "empty" or "away" at the last poll, since `since_ms` (epoch). They are "" and None before the first
    poll, or if the order does not end with an absence."""

    where: str
    order: str
    stage: str
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One configured group, as the page lists it. `role` is None for groups that are only observed. `members` is None
    if the group's members are unknown. `applied_plan` is a sentence on who applied a written plan, "" for none."""

    group: str
    mode: str
    state: str
    leading: bool
    role: RoleStatus | None
    generation: int
    members: int | None
    emptying: tuple[Emptying, ...] = ()
    applied_plan: str = ""
