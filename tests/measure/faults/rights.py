"""Rows about rights that are missing or taken away, on a broker with users that allows nothing by default."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.interop.security.test_lead_refusals import Secured, Undisturbed
from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import last_rebalance
from tests.interop.support.scenes.kill_points import LIMIT_S, MARGIN_S, OPTIONS, SESSION_S
from tests.measure.faults.logins import ended
from tests.measure.faults.rows import Row
from tests.measure.faults.scene import DECISION_S, load, print_result

GROUP = "orders"  # and its topic
EVERY = partitions_of({GROUP: 4})
FIRST_S = 4.0  # of an application's first two members without us: the group's first round, and the second one's


@dataclass(frozen=True, slots=True)
class LoginScene:
    secured: Secured
    flock: Flock
    folder: Path


def rights(wanted: Callable[[str], bool]) -> Iterator[Row]:
    rows: dict[str, Callable[[LoginScene], Row]] = {
        "no-read": partial(_refused, "bellwether", "without READ on the group", "rights", "READ"),
        "wrong-plain": partial(_refused, "wrong", "a wrong password (SASL/PLAIN)", "login", "sasl."),
        "no-describe": _without_describe,
        "revoked": _revoked,
    }
    chosen = {name: row for name, row in rows.items() if wanted(name)}
    if not chosen:
        return
    users = {"bellwether": "bellwether", "application": "application"}
    with (
        tempfile.TemporaryDirectory(prefix="bellwether-rights-") as folder,
        KafkaCluster(nodes=1, racks=("az1",), users=users) as cluster,
        Flock(cluster.bootstrap) as flock,
    ):
        testbed = LoginScene(Secured(cluster), flock, Path(folder))
        for row in chosen.values():
            yield row(testbed)


@contextmanager
def _resting(testbed: LoginScene) -> Iterator[list[Member]]:
    members = [testbed.secured.member(testbed.flock) for _ in range(2)]
    try:
        wait_settled(members, EVERY, spread=0)
        yield members
    finally:
        for member in members:
            member.stop()


def _refused(password: str, fault: str, kind: str, word: str, testbed: LoginScene) -> Row:
    with _resting(testbed) as members:
        watched = Undisturbed(testbed.secured.cluster, members)
        reported = f"{fault}, until the process has ended; the members notice nothing"
        login = testbed.secured.login("bellwether", password)
        return ended(testbed.folder, reported, login, GROUP, word, kind=kind, check=watched.check)


def _without_describe(testbed: LoginScene) -> Row:
    """From the coming of two members to a group of ours whose topic we may not see."""
    testbed.secured.grant("bellwether", ResourceType.GROUP, GROUP, AclOperation.READ)
    with Bellwether(testbed.secured.cluster, [GROUP], user="bellwether", options=OPTIONS) as lead:
        began = time.monotonic()
        with _resting(testbed):
            took_s = time.monotonic() - began - 1.0  # for so long nothing may have changed
            lead.wait_for_words("DESCRIBE", LIMIT_S)
            leader = _leader(testbed)
    fault = "without DESCRIBE on the topic; from the coming of two consumers"
    outcome = f"led by {leader}, the missing right is named"
    broken = () if leader == "a member" else ("we led",)
    return print_result(Row("rights", fault, took_s, FIRST_S + DECISION_S + MARGIN_S, outcome, broken, load()))


def _revoked(testbed: LoginScene) -> Row:
    """READ on the group is taken away while Bellwether leads, and a consumer joins."""
    secured, cluster = testbed.secured, testbed.secured.cluster
    secured.grant("bellwether", ResourceType.GROUP, GROUP, AclOperation.READ)
    secured.grant("bellwether", ResourceType.TOPIC, GROUP, AclOperation.DESCRIBE)
    lead = Bellwether(cluster, [GROUP], user="bellwether", options=OPTIONS)
    broken: tuple[str, ...] = ()
    with lead, _resting(testbed) as members:
        assert _leader(testbed) == "the sidecar"
        gone = AclBindingFilter(
            ResourceType.GROUP, GROUP, ResourcePatternType.LITERAL, "User:bellwether", None,
            AclOperation.READ, AclPermissionType.ALLOW,
        )  # fmt: skip
        for done in cluster.admin.delete_acls([gone]).values():
            done.result(timeout=30)
        began = time.monotonic()
        members.append(secured.member(testbed.flock))

        def owned() -> bool:
            held = [tp for member in members for tp in member.owned()]
            return len(held) == len(EVERY) == len(set(held)) and all(member.owned() for member in members)

        wait_until(owned, LIMIT_S, lead.tail)
        took_s = time.monotonic() - began
        code = lead.wait_for_end(LIMIT_S)
        if "READ on Group" not in lead.text():
            broken = ("the right is not named",)
        leader = _leader(testbed)
    fault = "READ on the group is taken away while Bellwether leads, and a consumer joins"
    outcome = f"led by {leader}; exit code {code}, the missing right is named"
    promised_s = SESSION_S + DECISION_S + FIRST_S + MARGIN_S
    return print_result(Row("rights", fault, took_s, promised_s, outcome, broken, load()))


def _leader(testbed: LoginScene) -> str:
    leader = last_rebalance(testbed.secured.cluster, GROUP).leader
    return "the sidecar" if leader.startswith(f"{INSTANCE}-") else "a member"
