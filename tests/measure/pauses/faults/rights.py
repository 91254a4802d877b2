"""Rows about a guard without rights: two plain consumers on a broker that asks for them, one of which ends."""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from tests.interop.support.bellwether import COMMAND, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.guarded import CONSUMER, Guarded
from tests.interop.support.members import wait_until
from tests.measure.pauses.faults.rows import MESSAGE_LENGTH_MAX, REBALANCE_S, Row
from tests.measure.pauses.faults.scene import GUARD, HEARTBEAT_MS, LIMIT_S, SESSION_MS

USER, PARTITIONS = "guard", 6
PROVEN_S = 12.0  # a member that was there when the guard began is its child's only after ten seconds
CONTROL = "bellwether-control"


@dataclass(frozen=True, slots=True)
class Case:
    """What the guard may do with its group, how its process ends, and what the guard has to say of it."""

    name: str
    fault: str
    operations: Sequence[AclOperation]
    ends: signal.Signals
    words: str


CASES = (
    Case(
        "rights/group",
        "crash: the guard has no READ on the group",
        (),
        signal.SIGKILL,
        "Bellwether's principal needs the ACL READ on Group",
    ),
    Case(
        "rights/control-topic",
        "stop: the guard has READ on the group and nothing on the control topic",
        (AclOperation.READ,),
        signal.SIGTERM,
        "It is not emptied before it stops",
    ),
)


def measured(cluster: KafkaCluster, case: Case) -> Row:
    """The pause is what brokers show of it: until the other consumer has all partitions."""
    group, bound_s = case.name.replace("/", "-"), SESSION_MS / 1000 + REBALANCE_S
    cluster.create_topic(group, PARTITIONS)
    for operation in case.operations:
        _grant(cluster, operation, group)
    took_s, message, broken = None, "", ""
    with tempfile.TemporaryDirectory(prefix="bellwether-rights-") as directory:
        file = Path(directory) / "guard.toml"
        login = cluster.client_config(USER, USER)
        login.pop("log_level")
        file.write_text(toml(login, []))
        options = ("--group", group, "--client-id", "victim", "--topic", CONTROL, "--config", str(file))
        with (
            Guarded([*COMMAND, "guard", *options, "--"], _consumer(cluster, group, "victim")) as victim,
            Guarded(_consumer(cluster, group, "survivor")),
        ):
            wait_until(lambda: len(_owned(cluster, group)) == 2, LIMIT_S, victim.message)
            time.sleep(PROVEN_S)
            target = victim.child if case.ends is signal.SIGKILL else victim.process.pid
            began = time.monotonic()
            os.kill(target, case.ends)
            try:
                wait_until(lambda: _owned(cluster, group) == {"survivor": PARTITIONS}, LIMIT_S, victim.message)
                took_s = round(time.monotonic() - began, 1)
            except AssertionError as failure:
                broken = str(failure)[:300]
            victim.process.wait(30)
            message = victim.message()
    broken = broken or ("" if case.words in message else f"the guard did not say '{case.words}': {message[-300:]}")
    reported = " / ".join(
        f"guard: {line.removeprefix(GUARD)}" for line in message.splitlines() if line.startswith(GUARD)
    )
    load = round(os.getloadavg()[0], 1)
    return Row(
        case.name,
        case.fault,
        took_s,
        took_s,
        0.0,
        bound_s,
        None,
        "a member",
        reported[:MESSAGE_LENGTH_MAX],
        broken,
        load,
    )


def _consumer(cluster: KafkaCluster, group: str, client_id: str) -> list[str]:
    properties, numbers = json.dumps(cluster.client_config("admin", "admin")), [str(SESSION_MS), str(HEARTBEAT_MS)]
    return [sys.executable, "-c", CONSUMER, properties, group, group, client_id, *numbers]


def _owned(cluster: KafkaCluster, group: str) -> dict[str, int]:
    """How many partitions each client id has, in a group that is stable."""
    found = cluster.admin.describe_consumer_groups([group])[group].result(30)
    if found.state.name != "STABLE":
        return {}
    return {member.client_id: len(member.assignment.topic_partitions) for member in found.members}


def _grant(cluster: KafkaCluster, operation: AclOperation, group: str) -> None:
    pattern, allow = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    binding = AclBinding(ResourceType.GROUP, group, pattern, f"User:{USER}", "*", operation, allow)
    for done in cluster.admin.create_acls([binding]).values():
        done.result(30)
