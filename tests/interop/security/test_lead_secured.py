"""TLS, logins and crowded groups: what is right works with one property map for both client libraries, what is wrong
is one sentence, no secret is ever written, and no member is disturbed.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.membership import MembershipConfig, State
from tests.conftest import missing_tool
from tests.interop.security.leading import keeps_trying, plain, refused, renewals, run
from tests.interop.support.bellwether import Bellwether, run_to_end, toml
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import without_members_in_the_way
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.rebalances import rebalances
from tests.interop.support.security.tls import Authority, TlsCluster, tls_cluster

pytestmark = [pytest.mark.broker, pytest.mark.timeout(300)]

LIMIT_S = 90.0
SECRET = "hush-Zx81-not-a-word"  # noqa: S105 - of a broker that lives as long as a test
MECHANISMS = ("scram-sha-256", "scram-sha-512", "oauthbearer", "mtls")


@pytest.fixture(scope="module")
def tls(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsCluster]:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    folder = tmp_path_factory.mktemp("tls")
    with tls_cluster(folder, Authority.make(folder, "broker"), Authority.make(folder, "client")) as cluster:
        cluster.add_scram_user("bellwether", SECRET)
        yield cluster


@pytest.fixture(scope="module")
def logins(tls: TlsCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """By name: what a user puts under [kafka] to log in that way."""
    folder = tmp_path_factory.mktemp("client")
    client = Authority.of(Path(tls.ca).parent, "client")
    scram = {**tls.listener("LOGIN"), "sasl.username": "bellwether", "sasl.password": SECRET}
    return {
        "scram-sha-256": {**scram, "sasl.mechanism": "SCRAM-SHA-256"},
        "scram-sha-512": {**scram, "sasl.mechanism": "SCRAM-SHA-512"},
        "oauthbearer": {
            **tls.listener("LOGIN"),
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=bellwether lifeSeconds=30",
        },
        "mtls": {
            **tls.listener("MUTUAL"),
            "ssl.certificate.location": str(client.certificate),
            "ssl.key.location": str(client.private_key(folder, SECRET)),
            "ssl.key.password": SECRET,
        },
    }


def config(group: str) -> MembershipConfig:
    return MembershipConfig(
        group_id=group, instance_id="bellwether", coalesce_ms=600, watch_interval_ms=500, subscribes=True
    )


def test_a_group_is_led_over_tls(tls: TlsCluster) -> None:
    tls.create_topic("secured", 4)
    properties = tls.client_config("", "")
    with InstanceHarness(properties, config("secured")) as led, Flock(tls.bootstrap) as flock:
        led.wait_for(State.STABLE)
        more = as_properties({name: value for name, value in properties.items() if name != "log_level"})
        wait_settled([flock.member("confluent", "secured", ["secured"], more=more)], partitions_of({"secured": 4}))
        assert led.decisions


@contextmanager
def leading(
    tls: TlsCluster, login: Mapping[str, str], group: str
) -> Iterator[tuple[InstanceHarness, Callable[[], object]]]:
    """An instance and a member of another client library that log in by the very same properties, in a group with four
    partitions; the function waits until the member owns them all, and returns the owners."""
    tls.create_topic(group, 4)
    with InstanceHarness(login, config(group)) as led, Flock(tls.bootstrap) as flock:
        led.wait_for(State.STABLE, LIMIT_S)
        member = flock.member("confluent", group, [group], more=as_properties(login))

        def settled() -> object:
            return wait_settled([member], partitions_of({group: 4}), limit_s=LIMIT_S)

        settled()
        yield led, settled


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_group_is_led_by_every_kind_of_login(
    tls: TlsCluster, logins: Mapping[str, dict[str, str]], mechanism: str
) -> None:
    """The metadata is read with these properties too."""
    with leading(tls, logins[mechanism], f"secured-{mechanism}") as (led, _):
        assert led.decisions


@pytest.mark.parametrize("mechanism", ["scram-sha-256", "oauthbearer"])
def test_logins_are_renewed_while_a_group_is_led(
    tls: TlsCluster, logins: Mapping[str, dict[str, str]], mechanism: str
) -> None:
    """The broker drops a connection that sends after ten seconds without a new login: Bellwether's come in time."""
    with leading(tls, logins[mechanism], f"renewed-{mechanism}") as (led, settled):
        owners = settled()
        generation = led.generation
        led.wait_until(lambda: renewals(led) >= 2, "two later logins on one connection", LIMIT_S)
        assert led.generation == generation, "no rebalance"
        assert led.states == [State.STABLE]
        assert settled() == owners


@pytest.mark.parametrize("mechanism", ["scram-sha-512", "oauthbearer", "mtls"])
def test_nothing_secret_is_ever_written(
    tls: TlsCluster, logins: Mapping[str, dict[str, str]], tmp_path: Path, mechanism: str
) -> None:
    """Everything that the service at its most talkative, looks and mistakes write, against every form of the secret.
    Secrets are read from files, as in a container."""
    group = f"hushed-{mechanism}"
    tls.create_topic(group, 4)
    login = from_files(logins[mechanism], tmp_path)
    message: list[str] = []
    led = Bellwether(tls, [group], login=login, log_level="debug")
    led.start(wait=False)
    try:
        wait_until(lambda: bool(led.log("membership", what="LEADING")), LIMIT_S, led.tail)
    finally:
        led.__exit__(None, None, None)
        message.append(led.text())
    path = tmp_path / "bellwether.toml"
    path.write_text(toml(login, [{"name": group}], http_address=""))
    for command in ("doctor", "describe", "groups", "plan"):
        about = [] if command == "groups" else [group]
        message.append(run_to_end([command, *about, "--config", str(path)]).text)
    (tmp_path / "wrong").write_text(f"{SECRET}-wrong")
    wrong = {name: str(tmp_path / "wrong") for name in login if name.endswith("password.file")}
    if "sasl.password.file" in wrong:  # the brokers may come to know it
        message.append(keeps_trying(tmp_path, login | wrong, {"name": group}, "not_connected"))
    elif wrong:  # nothing but a restart makes it open this key
        ended = run(tmp_path, login | wrong, {"name": group})
        refused(ended, "ssl.key.location")
        message.append(ended.text)
    everything = "\n".join(message)
    assert group in everything
    for form in forms_of(SECRET):
        assert form not in everything, f"{form} was written"
    assert "eyJhbGciOi" not in everything, "a token was written"


def from_files(login: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The properties with every secret in a file of its own."""
    kept = {}
    for name, value in login.items():
        if value == SECRET:
            file = folder / name
            file.write_text(f"{value}\n")
            kept[f"{name}.file"] = str(file)
        else:
            kept[name] = value
    return kept


def forms_of(secret: str) -> tuple[str, ...]:
    """As it is, in base 64 and in hexadecimal, and escaped."""
    plain = secret.encode()
    return secret, base64.b64encode(plain).decode().rstrip("=")[:-1], plain.hex(), repr(plain)[2:-1]


def as_properties(login: Mapping[str, str]) -> dict[str, str]:
    return {f"property.{name}": value for name, value in login.items()}


def test_wrong_tls_material_is_a_sentence(tls: TlsCluster, tmp_path: Path) -> None:
    group = {"name": "secured-wrongly"}
    other_authority = Authority.make(tmp_path, "stranger")
    right = {name: value for name, value in tls.client_config("", "").items() if name != "log_level"}
    keeps_trying(
        tmp_path, right | {"ssl.ca.location": str(other_authority.certificate)}, group, "ssl.", "bootstrap.servers"
    )
    refused(run(tmp_path, right | {"ssl.ca.location": str(tmp_path / "none.pem")}, group), "ssl.ca.location")
    keeps_trying(tmp_path, plain(tls), group, "security.protocol")
    text = tmp_path / "text.pem"
    text.write_text("no certificate")
    refused(run(tmp_path, right | {"ssl.ca.location": str(text)}, group), "ssl.ca.location")
    refused(run(tmp_path, right | {"ssl.key.location": str(text)}, group), "ssl.certificate.location")
    both = {"ssl.certificate.location": str(text), "ssl.key.location": str(text)}
    refused(run(tmp_path, right | both, group), "ssl.certificate.location or ssl.key.location")


def test_a_group_without_room_for_bellwether_is_a_sentence(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    try:
        java()
    except MissingToolError as missing:
        missing_tool(request.config, f"{missing}: no real broker")
    crowd = KafkaCluster(nodes=1, racks=("az1",), properties={"group.max.size": "2"})
    with crowd as kafka, Flock(kafka.bootstrap) as flock:
        kafka.create_topic("crowded", 4)
        members = [flock.member("confluent", "crowded", ["crowded"]) for _ in range(2)]
        # Where a member might lead after the unknown leader, and no table can grow, no take-over begins.
        without_members_in_the_way(kafka, members, "crowded", partitions_of({"crowded": 4}))
        owners = wait_settled(members, partitions_of({"crowded": 4}))
        before = rebalances(kafka, "crowded")
        keeps_trying(tmp_path, plain(kafka), {"name": "crowded", "adopt": "take-over"}, "crowded", "group.max.size")
        assert wait_settled(members, partitions_of({"crowded": 4})) == owners
        assert rebalances(kafka, "crowded") == before
