"""The file that `bellwether plan --out` writes: a plan with the state of the group that it was made for. Pure, but for
`write_plan_file`."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.coordinator.observation import Observation, Shadow

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMember:
    """A member of the group. `topics` is its subscription, sorted."""

    member_id: str
    instance_id: str | None
    client_id: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStateOfPlan:
    """The state that a plan is for. `partitions` are the numbers of partitions by topic, of all topics that the members
    read. `owners` are members, or processes of an application, by partition or task."""

    group: str
    members: tuple[PlannedMember, ...]
    partitions: Mapping[str, int]
    owners: Mapping[str, str]

    @property
    def digest(self) -> str:
        """SHA-256 in hex of the state as JSON with sorted names: equal states have equal digests."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFile:
    """A plan for a group. `format` is that of the file, `version` that of Bellwether. `digest` is that of `before`.
    `owners` are the planned ones; an item without one is not named. `decided_at_ms` is epoch milliseconds."""

    format: int
    version: str
    policy: str
    decided_at_ms: int
    digest: str
    before: GroupStateOfPlan
    owners: Mapping[str, str]


def plan_file(seen: Observation, shadow: Shadow, version: str) -> PlanFile:
    """Returns the plan for an observed group. `version` is Bellwether's."""
    decision, cluster = shadow.decision, shadow.decision.plan.cluster
    members = (
        PlannedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            topics=tuple(sorted(member.topics)),
        )
        for member in seen.members
    )
    before = GroupStateOfPlan(
        group=seen.group_id,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
        partitions=dict(zip(cluster.topics, cluster.counts.tolist(), strict=True)),
        owners=_owners(shadow, shadow.present),
    )
    return PlanFile(
        format=FORMAT,
        version=version,
        policy=decision.policy,
        decided_at_ms=decision.decided_at_ms,
        digest=before.digest,
        before=before,
        owners=_owners(shadow, decision.plan.owner),
    )


def _owners(shadow: Shadow, owner: IntArray) -> dict[str, str]:
    """Returns the names of owners by the names of items that have one."""
    plan = shadow.decision.plan
    items = np.flatnonzero(owner != NOBODY)
    names = [each.name for each in plan.owners]
    return dict(zip(plan.names(items), [names[index] for index in owner[items].tolist()], strict=True))


def write_plan_file(path: Path, plan: PlanFile) -> None:
    """Writes the plan as JSON, over an existing file. Raises OSError."""
    path.write_text(json.dumps(asdict(plan), indent=1) + "\n", encoding="utf-8")
