"""What triggers judge: one led group at one moment, and what they may find."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from bellwether_kafka.assignors.shared import Decision, LongArray
from bellwether_kafka.coordinator.membership import (
    MembershipView,
    OffsetsRead,
    RebalanceWanted,
    ShownGroup,
    State,
    StepAsideWanted,
    WorkSuspected,
)
from bellwether_kafka.coordinator.planning import Planned, StreamsConfig
from bellwether_kafka.protocol.primitives import TaskId

# Ask for a rebalance, hand the lead back, alert, or let the membership judge commits without members.
Finding = RebalanceWanted | StepAsideWanted | WorkSuspected | OffsetsRead
Findings = tuple[Finding, ...]
RacksVersion = tuple[int, int]


class Reading(Enum):
    """What is read of a group between rebalances while a trigger wants it."""

    DESCRIPTION = "description"  # of a group at rest
    HOSTS = "hosts"  # the same while members join, only for their racks
    OFFSETS = "offsets"
    END_SUMS = "end_sums"
    MOVED = "load"
    RACKS = "racks"
    TOPICS = "internal_topics"  # they are created; nothing is judged
    COMMITS = "commits"  # of a group without members


@dataclass(frozen=True, slots=True, kw_only=True)
class RacksGain:
    """Whether a plan by the racks of this `version` reads less from other racks than members do: `reason` says so, ""
    if not. `again`: it is not known of all members, or no plan could be compared."""

    version: RacksVersion
    reason: str = ""
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A group at one moment. `now` is in seconds of a clock that is never set, `wall_ms` since the epoch.

    `planned` is the last plan that members have from this process, None if Bellwether is not in the group. `config` is
    that of an application, None for plain consumers. `racks` is None unless racks are configured; `needs_hosts`: they
    depend on members' hosts.

    The rest is fresh: it is in the first picture after its reading, and None in others. `shown`: the group at rest in
    this generation. `offsets`: committed and end offsets by flat partition of the plan. `end_sums`: of changelogs.
    `moved`: how many partitions or tasks a plan by `load-aware` would move now. `commits`: of a group without members.
    `unanswered`: the reading that failed.
    """

    member: MembershipView
    now: float
    wall_ms: int
    policy: str
    planned: Planned[Any] | None = None
    config: StreamsConfig | None = None
    uses_racks: bool = True
    racks: RacksVersion | None = None
    needs_hosts: bool = False
    shown: ShownGroup | None = None
    offsets: tuple[LongArray, LongArray] | None = None
    end_sums: Mapping[TaskId, int] | None = None
    moved: int | None = None
    gain: RacksGain | None = None
    commits: OffsetsRead | None = None
    unanswered: Reading | None = None

    @property
    def decision(self) -> Decision[Any] | None:
        return self.planned.decision if self.planned is not None else None

    @property
    def rests(self) -> bool:
        """Whether the group is stable and has members besides Bellwether."""
        return self.member.state is State.STABLE and not self.member.alone
