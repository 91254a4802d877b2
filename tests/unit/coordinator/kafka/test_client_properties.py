"""librdkafka's properties as kafka-python's arguments, and a clear word about each one that cannot be used."""

import re

import pytest

from bellwether_kafka.coordinator.kafka.wire import ClientConfigError, client_config, librdkafka_properties
from bellwether_kafka.coordinator.kafka.wire.client_properties import LIBRDKAFKA_DEFAULTS

KEY = "k"
BROKER = {"bootstrap.servers": "b1:9092, b2:9093"}
LOGIN = {"security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u"}


def test_addresses_and_the_receive_limit() -> None:
    config = client_config(BROKER)
    assert config["bootstrap_servers"] == ["b1:9092", "b2:9093"]
    assert config["receive_message_max_bytes"] == 100_000_000
    assert client_config({**BROKER, "receive.message.max.bytes": "5"})["receive_message_max_bytes"] == 5


@pytest.mark.parametrize("servers", ["host", "[::1]:9092", "host:9092"])
def test_addresses_that_are_fine(servers: str) -> None:
    assert client_config({"bootstrap.servers": servers})["bootstrap_servers"] == [servers]


def test_security_in_full() -> None:
    config = client_config(
        {
            **BROKER,
            **LOGIN,
            "sasl.password": "p",
            "ssl.ca.location": "/ca.pem",
            "ssl.certificate.location": "/cert.pem",
            "ssl.key.location": "/key.pem",
            "ssl.key.password": KEY,
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert config["security_protocol"] == "SASL_SSL"
    assert config["sasl_mechanism"] == "SCRAM-SHA-512"
    assert (config["sasl_plain_username"], config["sasl_plain_password"]) == ("u", "p")
    assert (config["ssl_cafile"], config["ssl_certfile"], config["ssl_keyfile"]) == ("/ca.pem", "/cert.pem", "/key.pem")
    assert config["ssl_password"] == KEY
    assert config["ssl_check_hostname"] is False


def test_kerberos_needs_no_password() -> None:
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "GSSAPI", "sasl.kerberos.service.name": "kafka"}
    assert client_config({**BROKER, **login})["sasl_kerberos_service_name"] == "kafka"


def test_a_pinned_version() -> None:
    assert client_config({**BROKER, "bellwether.api.version": "2.3"})["api_version"] == (2, 3)


def test_what_concerns_only_the_other_client_is_passed_over() -> None:
    assert client_config({**BROKER, "log_level": "0", "client.rack": "az1"}) == client_config(BROKER)


def test_bellwethers_own_properties_never_reach_librdkafka() -> None:
    assert librdkafka_properties({**BROKER, "bellwether.api.version": "2.3"}) == BROKER | LIBRDKAFKA_DEFAULTS


def test_what_is_named_goes_before_the_default_of_bellwether() -> None:
    assert librdkafka_properties({**BROKER, "socket.timeout.ms": "5000"})["socket.timeout.ms"] == "5000"


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": " , "}, "bootstrap.servers"),
        ({"bootstrap.servers": "host:port"}, "bootstrap.servers"),
        ({"bootstrap.servers": "host:70000"}, "bootstrap.servers"),
        ({**BROKER, "group.id": "g"}, "group.id"),
        ({**BROKER, "ssl.keystore.location": "x"}, "ssl.keystore.location"),
        ({**BROKER, "security.protocol": "TLS"}, "security.protocol"),
        ({**BROKER, "reconnect.backoff.ms": "soon"}, "reconnect.backoff.ms"),
        ({**BROKER, "enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({**BROKER, "ssl.endpoint.identification.algorithm": "maybe"}, "ssl.endpoint.identification.algorithm"),
        ({**BROKER, "bellwether.api.version": "new"}, "bellwether.api.version"),
        ({**BROKER, "bellwether.api.version": "4"}, "bellwether.api.version"),
        ({**BROKER, "bellwether.api.version": "4.2.0-rc1"}, "bellwether.api.version"),
        ({**BROKER, **LOGIN}, "sasl.password"),
        ({**BROKER, **LOGIN, "sasl.mechanism": "OAUTHBEARER", "sasl.password": "p"}, "sasl.mechanism"),
        ({**BROKER, "security.protocol": "SASL_SSL"}, "sasl.mechanism"),
        ({**BROKER, "sasl.mechanism": "PLAIN"}, "security.protocol"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_sentence(properties: dict[str, str], name: str) -> None:
    with pytest.raises(ClientConfigError) as error:
        client_config(properties)
    assert name in str(error.value)
    assert str(error.value).endswith(".")


def test_a_secret_is_never_in_the_message() -> None:
    with pytest.raises(ClientConfigError) as error:
        client_config({**BROKER, "sasl.mechanism": "PLAIN", "sasl.password": "hunter2"})
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("sasl.jaas.config", "sasl.username and sasl.password"),
        ("ssl.truststore.location", "ssl.ca.location"),
        ("ssl.truststore.password", "ssl.ca.location"),
        ("ssl.truststore.certificates", "ssl.ca.location"),
        ("ssl.keystore.location", "ssl.certificate.location and ssl.key.location"),
        ("ssl.keystore.key", "ssl.certificate.location and ssl.key.location"),
        ("ssl.ca.pem", "ssl.ca.location"),
        ("ssl.certificate.pem", "ssl.certificate.location"),
        ("ssl.key.pem", "ssl.key.location"),
        ("sasl.login.callback.handler.class", "AWS_MSK_IAM"),
        ("sasl.client.callback.handler.class", "sasl.oauthbearer.method"),
        ("request.timeout.ms", "socket.timeout.ms"),
        ("auto.offset.reset", "remove it"),
    ],
)
def test_a_property_that_is_not_supported_names_the_one_with_its_meaning(name: str, instead: str) -> None:
    """Java's sasl.jaas.config and stores were to be removed, and with them the login and the trust."""
    with pytest.raises(ClientConfigError, match=re.escape(name)) as raised:
        client_config({"bootstrap.servers": "b:9092", name: "x"})
    assert instead in str(raised.value)


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("SASL.JAAS.CONFIG", "sasl.username and sasl.password"),
        ("Security.Protocol", "write security.protocol instead"),
        ("security_protocol", "write security.protocol instead"),
        ("sasl_mechanism", "write sasl.mechanism instead"),
        ("sasl_plain_username", "write sasl.username instead"),
        ("sasl_plain_password", "write sasl.password instead"),
        ("ssl_cafile", "write ssl.ca.location instead"),
        ("ssl_keyfile", "write ssl.key.location instead"),
        ("sasl_oauthbearer_client_id", "write sasl.oauthbearer.client.id instead"),
        ("sasl.oauthbearer.client.credentials.client.secret", "write sasl.oauthbearer.client.id and"),
        ("https.ca.pem", "https.ca.location"),
        ("sasl.pasword", "write sasl.password if that is meant"),
        ("security.protcol", "write security.protocol if that is meant"),
        *((name, "docs/guides/security.md") for name in ("ssl.engine.factory.class", "ssl.cipher.suites", "ssl.ca")),
        *((name, "docs/guides/security.md") for name in ("sasl.oauthbearer.jwt.retriever.class", "ssl_context")),
    ],
)
def test_no_property_of_a_login_or_of_trust_is_simply_removed(name: str, instead: str) -> None:
    """Only the names of a list had other advice: what another library or a typing error makes of them had not."""
    with pytest.raises(ClientConfigError) as raised:
        client_config({"bootstrap.servers": "b:9092", name: "x"})
    assert instead in str(raised.value)
    assert not str(raised.value).endswith("; remove it.")


def test_all_properties_that_cannot_be_used_are_named_at_once() -> None:
    """Who pastes the properties of a Java client was sent through them one by one."""
    pasted = {"sasl.jaas.config": "x", "ssl.truststore.location": "x", "acks": "all", "reconnect.backoff.ms": "soon"}
    with pytest.raises(ClientConfigError) as raised:
        client_config({**BROKER, **pasted})
    assert [name for name in pasted if f"The property {name} " in str(raised.value)] == [*pasted]
