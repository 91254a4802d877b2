"""The command `bellwether stopped`: an operator announces that the process of a member has ended, so that a Bellwether
instance that is to lead the group joins it before the member is removed."""

from dataclasses import asdict

from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Group
from bellwether_kafka.coordinator.cli.orders.order_options import Place, Reason, with_topic
from bellwether_kafka.coordinator.cli.orders.write import OrderService, now_ms, owner
from bellwether_kafka.coordinator.cli.output import fail, print_result
from bellwether_kafka.coordinator.cli.read_groups import AT_MEMBER
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Observation, ObservedMember, full_ids
from bellwether_kafka.protocol.messages import process_in_client_id

EXPIRES_MS = 60_000  # by then the process may be back


@with_topic
def stopped(to: OrderService, group: Group, where: Place, reason: Reason = "") -> None:
    """Writes the announcement. Its effect shows in the log and in the role of the group."""
    if not where.startswith(AT_MEMBER):
        fail(f"'{where}' names no member; write member:ID (a member, client, instance or process id).")
    at_ms = now_ms()
    if not control.lead_is_wanted(group, to.read(), at_ms):
        fail(
            f"No Bellwether has reported that it is to lead '{group}' and does not; nothing was stated. Where it leads,"
            f" use 'bellwether evacuate {for_shell(group)} {for_shell(where)}' before the stop."
        )
    members = members_of(to.placed(group).seen(), where.removeprefix(AT_MEMBER))
    if not members:
        fail(f"No member of {group} is called {where}; see 'bellwether describe {for_shell(group)} -o wide'.")
    static = tuple(m.member_id for m in members if m.instance_id is not None)
    dynamic = tuple(m.member_id for m in members if m.instance_id is None)
    record = control.Stopped(group, dynamic, static, owner(), at_ms, at_ms + EXPIRES_MS, reason)
    to.write(record)
    sentence = f"It is stated that {where} has stopped: {len(members)} members of {group}."
    print_result(to.output, sentence, stopped=asdict(record))


def members_of(seen: Observation, name: str) -> tuple[ObservedMember, ...]:
    """Returns all members of the process with this name, in full or in short; empty if none or several fit."""
    exact = tuple(m for m in seen.members if name in _names(m))
    if exact:
        return exact
    ids = full_ids(seen, name)
    return tuple(m for m in seen.members if m.member_id in ids) if len(ids) == 1 else ()


def _names(member: ObservedMember) -> tuple[str | None, ...]:
    return (member.member_id, member.instance_id, member.client_id, process_in_client_id(member.client_id))
