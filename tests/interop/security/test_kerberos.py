"""GSSAPI against a real broker and a KDC of its own: one property map for both client libraries. It needs a librdkafka
with Kerberos, which no wheel has, so it is a proof; docs/guides/security.md says how to build one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.kafka.wire.kerberos import KerberosError, check_packages
from bellwether_kafka.coordinator.membership import MembershipConfig, State
from tests.conftest import missing_tool
from tests.interop.security.leading import keeps_trying, refused, renewals, run
from tests.interop.support.bellwether import Bellwether, run_to_end, toml
from tests.interop.support.instance import InstanceHarness
from tests.interop.support.members import Flock, partitions_of, wait_settled, wait_until
from tests.interop.support.security.kdc import (
    CLIENT,
    SERVICE,
    Kdc,
    KerberosCluster,
    kdc,
    kerberos_cluster,
    missing_program,
)

pytestmark = [pytest.mark.proof, pytest.mark.broker, pytest.mark.timeout(300)]

LIMIT_S = 90.0


@dataclass(frozen=True, slots=True)
class Realm:
    kdc: Kdc
    kafka: KerberosCluster
    keytab: Path

    def login(self) -> dict[str, str]:
        """By a keytab: the whole property map."""
        return self.kafka.login | {"sasl.kerberos.keytab": str(self.keytab), "sasl.kerberos.principal": CLIENT}


@pytest.fixture(scope="module")
def realm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    try:
        check_packages()
    except KerberosError as missing:
        missing_tool(request.config, str(missing))
    if program := missing_program():
        packages = "krb5-kdc, krb5-admin-server, krb5-user"
        missing_tool(request.config, f"{program} is not installed (Debian packages {packages})")
    folder = tmp_path_factory.mktemp("realm")
    with pytest.MonkeyPatch.context() as patched, kdc(folder) as running:
        for name, value in running.environment.items():
            patched.setenv(name, value)
        patched.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={folder}/krb5.conf")
        broker, client = running.keytab(SERVICE), running.keytab(CLIENT)
        with kerberos_cluster(broker) as kafka:
            patched.delenv("JAVA_TOOL_OPTIONS")
            yield Realm(running, kafka, client)


@pytest.fixture
def no_tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own."""
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/tickets")


def as_properties(login: Mapping[str, str]) -> dict[str, str]:
    return {f"property.{name}": value for name, value in login.items()}


@pytest.mark.usefixtures("no_tickets")
@pytest.mark.parametrize("how", ["keytab", "tickets"])
def test_a_group_is_led_by_kerberos_and_logins_are_renewed(realm: Realm, how: str) -> None:
    """The member, of the other library, logs in by the very same properties; nobody notices later logins."""
    group = f"kerberos-{how}"
    realm.kafka.create_topic(group, 4)
    login = realm.login()
    if how == "tickets":
        login = realm.kafka.login
        realm.kdc.run("kinit", "-k", "-t", str(realm.keytab), CLIENT)
    config = MembershipConfig(
        group_id=group, instance_id="bellwether", coalesce_ms=600, watch_interval_ms=500, subscribes=True
    )
    with InstanceHarness(login, config) as led, Flock(realm.kafka.bootstrap) as flock:
        led.wait_for(State.STABLE, LIMIT_S)
        own = login if how == "keytab" else login | {"sasl.kerberos.min.time.before.relogin": "0"}
        member = flock.member("confluent", group, [group], more=as_properties(own))
        wait_settled([member], partitions_of({group: 4}), limit_s=LIMIT_S)
        assert led.decisions
        generation = led.generation
        led.wait_until(lambda: renewals(led) >= 2, "two later logins on one connection", LIMIT_S)
        assert led.generation == generation, "no rebalance"


@pytest.mark.usefixtures("no_tickets")
def test_the_service_and_its_commands_log_in_by_a_keytab(realm: Realm, tmp_path: Path) -> None:
    """Everything that travels by librdkafka: orders, events, metadata, offsets; and looks."""
    group, control, events = "kerberos-service", "kerberos-control", "kerberos-events"
    realm.kafka.create_topic(group, 4)
    login = realm.login()
    settings = {"control_topic": control, "events": {"topic": events}}
    path = tmp_path / "bellwether.toml"
    path.write_text(toml(login, [{"name": group}], http_address="", **settings))
    with Bellwether(realm.kafka, [group], login=login, **settings) as led, Flock(realm.kafka.bootstrap) as flock:
        member = flock.member("confluent", group, [group])
        wait_settled([member], partitions_of({group: 4}), limit_s=LIMIT_S)
        wait_until(lambda: bool(led.log("decision", group=group, members=1)), LIMIT_S, led.tail)
        for command in (
            ["describe", group],
            ["plan", group],
            ["groups"],
            ["pause", group],
            ["orders"],
            ["resume", group],
        ):
            ended = run_to_end([*command, "--config", str(path)])
            assert ended.code == 0, ended.text
        assert run_to_end(["doctor", group, "--config", str(path), "-o", "json"]).stdout.startswith("[")
        recorded = tmp_path / "history.avro"
        wait_until(lambda: was_recorded(path, events, recorded), LIMIT_S, led.tail)


def was_recorded(path: Path, topic: str, file: Path) -> bool:
    ended = run_to_end(["debug", "history", "--file", str(file), "--events-topic", topic, "--config", str(path)])
    return ended.code == 0 and file.stat().st_size > 0


@pytest.mark.usefixtures("no_tickets")
def test_a_keytab_that_is_wrong_is_a_sentence(realm: Realm, tmp_path: Path) -> None:
    group = {"name": "kerberos-refused"}
    other_principal = realm.login() | {"sasl.kerberos.principal": f"stranger@{CLIENT.split('@')[1]}"}
    keeps_trying(tmp_path, other_principal, group, "sasl.kerberos.keytab", "stranger@")
    missing = realm.login() | {"sasl.kerberos.keytab": str(tmp_path / "none")}
    refused(run(tmp_path, missing, group), "sasl.kerberos.keytab", "none")
