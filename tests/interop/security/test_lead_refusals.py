"""Bad input to the real command: one sentence that names the setting, the group or the ACL, exit code 2, no traceback,
and no member of the group notices.
"""

from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from tests.interop.security.leading import keeps_trying, plain, refused, run
from tests.interop.support.bellwether import Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import wait_at_rest
from tests.interop.support.members import Flock, Member, partitions_of, wait_settled, wait_until
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.raw import RawMember
from tests.interop.support.rebalances import rebalances
from tests.interop.support.security.rights import grant


class Undisturbed:
    """Members of a settled group, watched while something happens: they must not notice it."""

    def __init__(self, cluster: KafkaCluster, members: list[Member]) -> None:
        self._cluster, self._members = cluster, members
        self._before = self._seen()

    def check(self) -> None:
        assert self._seen() == self._before

    def _seen(self) -> object:
        group = self._members[0].group
        events = [[(event.kind, event.partitions) for event in member.events] for member in self._members]
        return events, rebalances(self._cluster, group)


def test_brokers_that_do_not_answer_are_named(tmp_path: Path) -> None:
    lease = PortLease()
    nobody = f"{LOOPBACK}:{lease.port}"
    try:
        keeps_trying(tmp_path, {"bootstrap.servers": nobody}, {"name": "orders"}, "bootstrap.servers", nobody)
    finally:
        lease.release()


def test_group_whose_assignors_are_not_listed_is_left_alone(kafka: KafkaCluster, tmp_path: Path) -> None:
    kafka.create_topic("refused-names", 4)
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("java", "refused-names", ["refused-names"], ["range"]) for _ in range(2)]
        wait_settled(members, partitions_of({"refused-names": 4}), spread=0)
        watched = Undisturbed(kafka, members)
        names = ["cooperative-sticky", "sticky"]
        group = {"name": "refused-names", "protocols": names, "adopt": "when-empty"}
        ended = run(tmp_path, plain(kafka), group)
        refused(ended, "refused-names", "protocols", "range")
        watched.check()


def test_group_of_the_consumer_protocol_is_left_alone(kafka: KafkaCluster) -> None:
    name = "refused-kip848"
    kafka.create_topic(name, 4)
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member("java", name, [name], protocol="consumer") for _ in range(2)]
        wait_settled(members, partitions_of({name: 4}), spread=0)
        watched, lead = Undisturbed(kafka, members), Bellwether(kafka, [name])
        try:
            lead.start(wait=False)
            lead.wait_for_words(f"Group '{name}' is not a classic consumer group", 60)
            watched.check()
            assert lead.running, "it goes on to observe"
        finally:
            lead.__exit__(None, None, None)


@pytest.mark.parametrize("kind", ["confluent", "kafka-python"])
def test_an_instance_id_of_the_application_is_refused(kafka: KafkaCluster, tmp_path: Path, kind: str) -> None:
    """To join under it would throw the member out, also one that has nothing to do; kafka-python's subscriptions look
    like Bellwether's."""
    name = f"refused-instance-{kind}"
    kafka.create_topic(name, 1)
    with Flock(kafka.bootstrap) as flock:
        members = [flock.member(kind, name, [name], instance=f"pod-{n}") for n in "ab"]
        wait_at_rest(kafka, name, len(members))
        wait_settled(members, partitions_of({name: 1}))
        watched = Undisturbed(kafka, members)
        for instance in ("pod-a", "pod-b"):
            group = {"name": name, "instance_id": instance, "adopt": "take-over"}
            refused(run(tmp_path, plain(kafka), group), name, instance, "instance_id")
        watched.check()


def test_group_that_is_no_consumer_group_is_left_alone(kafka: KafkaCluster, tmp_path: Path) -> None:
    with RawMember(kafka.bootstrap, "refused-connect", [("compatible", b"x")], protocol_type="connect") as worker:
        worker.rebalance()
        refused(run(tmp_path, plain(kafka), {"name": "refused-connect"}), "refused-connect", "connect")
        assert worker.heartbeat(), "its generation still stands"


class Secured:
    """A cluster whose user "application" may do everything with the topic and group "orders", "bellwether" nothing."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.cluster = cluster
        cluster.create_topic("orders", 4)
        for kind, name in ((ResourceType.TOPIC, "orders"), (ResourceType.GROUP, "orders")):
            grant(cluster, "application", AclOperation.READ, kind, name)

    def login(self, user: str, password: str | None = None) -> dict[str, str]:
        config = self.cluster.client_config(user, password or user)
        config.pop("log_level")
        return config

    def member(self, flock: Flock) -> Member:
        login = {f"property.{k}": v for k, v in self.login("application").items()}
        return flock.member("confluent", "orders", ["orders"], more=login)


@pytest.fixture(scope="module")
def secured(secured_kafka: KafkaCluster) -> Secured:
    return Secured(secured_kafka)


def test_missing_rights_are_named_and_members_go_on(secured: Secured, tmp_path: Path) -> None:
    cluster = secured.cluster
    with Flock(cluster.bootstrap) as flock:
        members = [secured.member(flock) for _ in range(2)]
        wait_settled(members, partitions_of({"orders": 4}), spread=0)
        watched = Undisturbed(cluster, members)
        keeps_trying(tmp_path, secured.login("bellwether"), {"name": "orders"}, "READ on Group 'orders'")
        wrong = secured.login("bellwether", "not-the-password")
        wrote = keeps_trying(tmp_path, wrong, {"name": "orders"}, "security.protocol and the sasl.*")
        assert "not-the-password" not in wrote
        keeps_trying(tmp_path, plain(cluster), {"name": "orders"}, "bootstrap.servers")
        watched.check()


def test_without_describe_on_a_topic_the_members_lead_themselves(secured: Secured) -> None:
    """The topic shows only when a member subscribes to it: then Bellwether reports which right is missing and makes
    room."""
    grant(secured.cluster, "bellwether", AclOperation.READ, ResourceType.GROUP, "orders")
    cluster = secured.cluster
    with Flock(cluster.bootstrap) as flock:
        lead = Bellwether(cluster, ["orders"], user="bellwether")
        with lead:
            members = [secured.member(flock) for _ in range(2)]
            wait_settled(members, partitions_of({"orders": 4}), spread=0)
            wait_until(lambda: "DESCRIBE" in lead.text() and "orders" in lead.text(), 20, lead.tail)
