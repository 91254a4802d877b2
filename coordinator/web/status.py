"""A configured group in short: whether it is led, and if it should be and is not, why."""

from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import Role


@dataclass(frozen=True, slots=True)
class RoleStatus:
    """Why this process does not lead a group that it is to lead; the texts are empty while it leads. `since_ms` is when
    that began, in milliseconds since 1970; `next_attempt_ms` is None where no attempt is due."""

    reason: str
    detail: str
    remedy: str
    since_ms: int
    next_attempt_ms: int | None


def role_status(role: Role, epoch_s: float) -> RoleStatus:
    """`epoch_s` is when the role's clock stood at 0, in seconds since 1970."""
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
    """A member or a rack that is being emptied: `order` says who has ordered that and why. `stage` is "emptying",
    "empty" or "away" as of the last look, since `since_ms` (1970); "" and None where nobody has looked yet, or the
    order does not end with an absence."""

    where: str
    order: str
    stage: str
    since_ms: int | None


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """One configured group, as the page lists it. `role` is None for groups that are only observed, `members` where it
    is not known who is in the group."""

    group: str
    mode: str
    state: str
    leading: bool
    role: RoleStatus | None
    generation: int
    members: int | None
    emptying: tuple[Emptying, ...] = ()
