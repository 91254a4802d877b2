"""The file that `bellwether plan --out` writes and `bellwether apply` reads: a plan with the state of the group that it
was made for. Pure, but for `write_plan_file` and `read_plan_file`."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bellwether_kafka.assignors.shared import NOBODY, IntArray
from bellwether_kafka.bounded import OutsideTextError, json_of, read_file
from bellwether_kafka.coordinator.control import write_state
from bellwether_kafka.coordinator.observation import Observation, Shadow

FORMAT = 1
BYTES_MAX = 256 << 20  # a million partitions need about a third


class PlanFileError(ValueError):
    """A file that is no plan. The message is the reason, as a part of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMember:
    """A member of the group. `topics` is its subscription, sorted."""

    member_id: str
    instance_id: str | None
    client_id: str
    topics: tuple[str, ...]

    @property
    def key(self) -> str:
        """The instance id, which survives a restart, else the member id."""
        return self.instance_id or self.member_id


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

    @property
    def keys(self) -> dict[str, str]:
        """The keys of members by member id."""
        return {member.member_id: member.key for member in self.members}


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
    decision, before = shadow.decision, group_state(seen, shadow)
    return PlanFile(
        format=FORMAT,
        version=version,
        policy=decision.policy,
        decided_at_ms=decision.decided_at_ms,
        digest=before.digest,
        before=before,
        owners=_owners(shadow, decision.plan.owner),
    )


def group_state(seen: Observation, shadow: Shadow) -> GroupStateOfPlan:
    """Returns the state of an observed group."""
    cluster = shadow.decision.plan.cluster
    members = (
        PlannedMember(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            topics=tuple(sorted(member.topics)),
        )
        for member in seen.members
    )
    return GroupStateOfPlan(
        group=seen.group_id,
        members=tuple(sorted(members, key=lambda member: member.member_id)),
        partitions=dict(zip(cluster.topics, cluster.counts.tolist(), strict=True)),
        owners=_owners(shadow, shadow.present),
    )


def _owners(shadow: Shadow, owner: IntArray) -> dict[str, str]:
    """Returns the names of owners by the names of items that have one."""
    plan = shadow.decision.plan
    items = np.flatnonzero(owner != NOBODY)
    names = [each.name for each in plan.owners]
    return dict(zip(plan.names(items), [names[index] for index in owner[items].tolist()], strict=True))


def write_plan_file(path: Path, plan: PlanFile) -> None:
    """Writes the plan as JSON, over an existing file, which stays as it was if the plan cannot be written whole. Raises
    OSError."""
    text = json.dumps(asdict(plan), indent=1) + "\n"
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a pipe or a device, which cannot be replaced
        return
    target = path.resolve()  # a link goes on leading to the file
    target.parent.stat()  # a folder that is a mistake is not made
    write_state(target, text)


def read_plan_file(path: Path) -> PlanFile:
    """Reads a plan. Raises OSError and PlanFileError."""
    return parsed(read_file(path, BYTES_MAX))


def parsed(text: bytes) -> PlanFile:
    """Returns the plan in a file. Raises PlanFileError."""
    try:
        value = json_of(text, unique=True)
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise PlanFileError(f"it is no plan of format {FORMAT}")
        plan = _plan(value)
    except OutsideTextError as error:
        raise PlanFileError(str(error)) from None
    except (KeyError, TypeError, AttributeError) as error:
        raise PlanFileError(f"it is no plan as 'bellwether plan --out' writes it: {error}") from None
    if plan.digest != plan.before.digest:
        raise PlanFileError("its state was changed after the plan was made, so its digest is another")
    return plan


def _plan(value: Mapping[str, Any]) -> PlanFile:
    before = value["before"]
    return PlanFile(
        format=FORMAT,
        version=_text(value["version"]),
        policy=_text(value["policy"]),
        decided_at_ms=_number(value["decided_at_ms"]),
        digest=_text(value["digest"]),
        before=GroupStateOfPlan(
            group=_text(before["group"]),
            members=tuple(map(_member, before["members"])),
            partitions={_text(topic): _number(count) for topic, count in before["partitions"].items()},
            owners={_text(item): _text(owner) for item, owner in before["owners"].items()},
        ),
        owners={_text(item): _text(owner) for item, owner in value["owners"].items()},
    )


def _member(value: Mapping[str, Any]) -> PlannedMember:
    return PlannedMember(
        member_id=_text(value["member_id"]),
        instance_id=None if value["instance_id"] is None else _text(value["instance_id"]),
        client_id=_text(value["client_id"]),
        topics=tuple(map(_text, value["topics"])),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r:.40} is no whole number")
    return value


def differences(planned: GroupStateOfPlan, now: GroupStateOfPlan) -> Iterator[str]:
    """Yields each difference between the state that a plan is for and the present one, as a clause: members,
    subscriptions, partitions, owners. A static member that has restarted is the same one."""
    members, members_now = ({member.key: member for member in state.members} for state in (planned, now))
    yield from (f"member {key} is gone" for key in sorted(members.keys() - members_now.keys()))
    yield from (f"member {key} is new" for key in sorted(members_now.keys() - members.keys()))
    for key in sorted(members.keys() & members_now.keys()):
        topics, topics_now = members[key].topics, members_now[key].topics
        if topics != topics_now:
            yield f"member {key} subscribes to {_listed(topics_now)} instead of {_listed(topics)}"
    for topic in sorted(planned.partitions.keys() | now.partitions.keys()):
        count, count_now = planned.partitions.get(topic, 0), now.partitions.get(topic, 0)
        if count != count_now:
            yield f"topic {topic} has {count_now} partitions instead of {count}"
    owners, owners_now = _by_key(planned), _by_key(now)
    for item in sorted(owners.keys() | owners_now.keys()):
        owner, owner_now = owners.get(item, "nobody"), owners_now.get(item, "nobody")
        if owner != owner_now:
            yield f"the owner of {item} is {owner_now} instead of {owner}"


def _by_key(state: GroupStateOfPlan) -> dict[str, str]:
    keys = state.keys
    return {item: keys.get(owner, owner) for item, owner in state.owners.items()}


def _listed(topics: tuple[str, ...]) -> str:
    return ", ".join(topics) or "nothing"
