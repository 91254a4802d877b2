"""TLS and crowded groups: what is right works, what is wrong is one sentence, and no member is disturbed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.group import MembershipConfig, State
from tests.interop.brokers import KafkaCluster
from tests.interop.jvm import MissingToolError, java
from tests.interop.members import Flock, partitions_of, wait_settled
from tests.interop.rounds import rounds
from tests.interop.sidecar import Sidecar
from tests.interop.test_lead_refusals import plain, refused, run
from tests.interop.tls import Authority, TlsCluster, tls_cluster

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    try:
        java()
    except MissingToolError as missing:
        pytest.skip(f"{missing}: no real broker")
    folder = tmp_path_factory.mktemp("tls")
    with tls_cluster(folder, Authority.make(folder, "broker")) as cluster:
        yield cluster


def config(group: str) -> MembershipConfig:
    return MembershipConfig(group_id=group, instance_id="bellwether", coalesce_ms=600, watch_interval_ms=500)


def test_a_group_is_led_over_tls(tls: TlsCluster) -> None:
    tls.create_topic("secured", 4)
    properties = tls.client_config("", "")
    with Sidecar(properties, config("secured")) as led, Flock(tls.bootstrap) as flock:
        led.wait_for(State.STABLE)
        more = {f"property.{name}": value for name, value in properties.items() if name != "log_level"}
        wait_settled([flock.member("confluent", "secured", ["secured"], more=more)], partitions_of({"secured": 4}))
        assert led.decisions


def test_wrong_tls_material_is_a_sentence(tls: TlsCluster, tmp_path: Path) -> None:
    group = {"name": "secured-wrongly"}
    stranger = Authority.make(tmp_path, "stranger")
    right = {name: value for name, value in tls.client_config("", "").items() if name != "log_level"}
    refused(run(tmp_path, right | {"ssl.ca.location": str(stranger.certificate)}, group), "ssl.", "bootstrap.servers")
    refused(run(tmp_path, right | {"ssl.ca.location": str(tmp_path / "none.pem")}, group), "ssl.ca.location")
    refused(run(tmp_path, plain(tls), group), "security.protocol")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    refused(run(tmp_path, right | {"ssl.ca.location": str(text)}, group), "ssl.ca.location")
    refused(run(tmp_path, right | {"ssl.key.location": str(text)}, group), "ssl.certificate.location")
    both = {"ssl.certificate.location": str(text), "ssl.key.location": str(text)}
    refused(run(tmp_path, right | both, group), "ssl.certificate.location or ssl.key.location")


def test_a_group_without_room_for_us_is_a_sentence(tmp_path: Path) -> None:
    try:
        java()
    except MissingToolError as missing:
        pytest.skip(f"{missing}: no real broker")
    crowd = KafkaCluster(nodes=1, racks=("az1",), properties={"group.max.size": "2"})
    with crowd as kafka, Flock(kafka.bootstrap) as flock:
        kafka.create_topic("crowded", 4)
        members = [flock.member("confluent", "crowded", ["crowded"]) for _ in range(2)]
        owners = wait_settled(members, partitions_of({"crowded": 4}))
        before = rounds(kafka, "crowded")
        refused(run(tmp_path, plain(kafka), {"name": "crowded", "adopt": "take-over"}), "crowded", "group.max.size")
        assert wait_settled(members, partitions_of({"crowded": 4})) == owners
        assert rounds(kafka, "crowded") == before
