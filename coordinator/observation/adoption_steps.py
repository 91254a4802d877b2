"""The order of restarts by which Bellwether becomes leader of a group whose leader may not be removed. Pure.

When the leader leaves, the first member in the broker's table becomes leader. Bellwether obtains a member id that sorts
first, except after members in the first bucket. Instances with such members are therefore restarted first.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bellwether_kafka.coordinator.membership import first_bucket
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember
from bellwether_kafka.protocol.messages import process_in_client_id, reported_process

ASK_AGAIN = "Ask bellwether doctor {group} after each: the order follows from the members' ids, which change."

STATE_IT = (
    "A broker gives the lead back to a static member that returns, so state the stop of {instances} while it is down:"
    " bellwether debug stopped {group} member:{name}. A guard with a control topic states it by itself."
)


@dataclass(frozen=True, slots=True)
class Instance:
    """One process of the application. `name` is its name for operators. `ahead` is true if one of its members sorts
    before every id that Bellwether can get."""

    name: str
    members: tuple[ObservedMember, ...]
    ahead: bool

    @property
    def static(self) -> bool:
        return any(member.instance_id is not None for member in self.members)


def instances(seen: Observation) -> tuple[Instance, ...]:
    """Returns the processes of the group in the order in which to restart them."""
    ids = [member.member_id for member in seen.members]
    ahead = frozenset(first_bucket(ids, ids))
    process_of = processes(seen)
    by_process: dict[str, list[ObservedMember]] = {}
    for member in seen.members:
        by_process.setdefault(process_of[member.member_id], []).append(member)
    made = [
        Instance(_name(process, members), tuple(members), any(m.member_id in ahead for m in members))
        for process, members in by_process.items()
    ]
    return tuple(sorted(made, key=lambda instance: (not instance.ahead, _work(instance), instance.name)))


def leader(seen: Observation) -> str:
    """Returns a sentence on which member leads. Brokers send this only to members."""
    if len(seen.members) == 1:
        return f"{seen.members[0].member_id} leads, because no other member is in the group."
    return "Which member leads is not visible from outside; Bellwether learns it at the first restart."


def steps(seen: Observation) -> tuple[str, ...]:
    """Returns the operator's steps, in order."""
    order = instances(seen)
    first = [instance.name for instance in order if instance.ahead]
    sentences = ["Start bellwether run with these settings, and leave it running."]
    if first:
        sentences.append(
            f"Restart {listed(first)} first: a member of it sorts before every id that Bellwether can get, and would"
            " lead after the present leader."
        )
    others = [instance.name for instance in order if not instance.ahead]
    if others:
        sentences.append(f"Restart {listed(others, len(others))}, one after another, until Bellwether leads.")
    static = [instance.name for instance in order if instance.static]
    if static:
        sentences.append(STATE_IT.format(instances=listed(static), group=seen.group_id, name=_id_of(order)))
    sentences.append(ASK_AGAIN.format(group=seen.group_id))
    return tuple(sentences)


def _id_of(order: Sequence[Instance]) -> str:
    """Returns some member's instance id, for an example."""
    return next(m.instance_id for instance in order for m in instance.members if m.instance_id is not None)


def cost(order: Sequence[Instance]) -> str:
    """Returns sentences on what the steps cost."""
    tasks = max((sum(len(m.active) for m in instance.members) for instance in order), default=0)
    of = f", whose up to {tasks} active tasks pause as in any restart" if tasks else ""
    return (
        f"It costs the ordinary restart of at most {len(order)} instance{'s' * (len(order) != 1)}{of}. Bellwether joins"
        " where a rebalance waits for a lost member, and leaves if another member leads: one more rebalance after the"
        " restart of an instance that did not lead, and perhaps where brokers restart. No live member is removed."
    )


def processes(seen: Observation) -> dict[str, str]:
    """Returns the process of each member by member id: the one that it reports, or else the one that its ids name."""
    raw = seen.shadow.decision.raw.others if seen.shadow is not None else ()
    reported = {m.member_id: process for m in raw if (process := reported_process(m.metadata, seen.protocol))}
    return {m.member_id: reported.get(m.member_id) or _process(m) for m in seen.members}


def _process(member: ObservedMember) -> str:
    return process_in_client_id(member.client_id) or member.instance_id or member.client_id or member.member_id


def _name(process: str, members: Sequence[ObservedMember]) -> str:
    """Returns the process, and how operators recognise it: the client id that the application sets, the host."""
    own = sorted({client for m in members if process not in (client := m.client_id.partition("-StreamThread-")[0])})
    hosts = sorted({member.client_host.lstrip("/") for member in members if member.client_host})
    threads = [f"{len(members)} threads"] * (len(members) > 1)
    where = ", ".join(filter(None, (*own, *hosts, *threads)))
    return f"{process} ({where})" if where else process


def _work(instance: Instance) -> int:
    return sum(len(member.active) or len(member.owned) for member in instance.members)
