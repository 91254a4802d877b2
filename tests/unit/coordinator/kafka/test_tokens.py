"""Tokens for logins: what is in them, when they are renewed, what is wrong; and nothing secret is shown."""

import base64
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.coordinator.kafka.wire import (
    ClientConfigError,
    TokenError,
    check_kerberos,
    client_config,
    kerberos,
    librdkafka_properties,
    tokens,
)
from bellwether_kafka.coordinator.kafka.wire.client_properties import LIBRDKAFKA_DEFAULTS
from bellwether_kafka.coordinator.kafka.wire.tokens import Token, TokenKeeper
from tests.unit.coordinator.kafka.token_endpoint import LOGIN, SECRET, Endpoint

KEEPER = "_tokens"
KEYTAB = "_keytab"

UNSECURED = {**LOGIN, "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=bell"}


def claims_of(value: str) -> tuple[dict[str, Any], dict[str, Any]]:
    head, body, signature = value.split(".")
    assert signature == ""
    read = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (head, body)]
    return read[0], read[1]


def test_an_unsecured_token_says_who_and_how_long() -> None:
    text = "principal=bell scope=read,write lifeSeconds=60 principalClaimName=user scopeClaimName=may"
    token = tokens.keeper({**UNSECURED, "sasl.oauthbearer.config": text}).token()
    head, body = claims_of(token.value)
    assert head == {"alg": "none"}
    assert (body["user"], body["may"]) == ("bell", ["read", "write"])
    assert body["exp"] - body["iat"] == 60
    assert token.expires_at_s == pytest.approx(body["exp"])


def test_both_clients_get_the_same_token() -> None:
    kafka_python = client_config(UNSECURED)
    confluent = librdkafka_properties(UNSECURED)
    assert kafka_python["sasl_mechanism"] == confluent["sasl.mechanism"] == "OAUTHBEARER"
    value, expires_at_s, principal, extensions = confluent["oauth_cb"](None)
    assert kafka_python[KEEPER].token().value == value
    assert expires_at_s > time.time()
    assert (principal, extensions) == ("bell", {})
    assert not [name for name in confluent if name.startswith(("sasl.oauthbearer", "enable.sasl"))]
    assert librdkafka_properties(confluent) == confluent, "what has been translated stays"


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (LOGIN, "sasl.oauthbearer.method"),
        ({**UNSECURED, "sasl.oauthbearer.config": ""}, "principal"),
        ({**UNSECURED, "sasl.oauthbearer.config": "principal=a life=3"}, "life"),
        ({**UNSECURED, "sasl.oauthbearer.config": "principal=a lifeSeconds=x"}, "lifeSeconds"),
        ({**LOGIN, "sasl.oauthbearer.method": "oidc"}, "sasl.oauthbearer.token.endpoint.url"),
        (
            {
                **LOGIN,
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": "ftp://x",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": SECRET,
            },
            "sasl.oauthbearer.token.endpoint.url",
        ),
        ({**LOGIN, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "AWS_MSK_IAM"}, "SASL_SSL"),
    ],
)
def test_a_login_that_cannot_work_is_one_sentence(properties: dict[str, str], name: str) -> None:
    with pytest.raises(ClientConfigError) as error:
        client_config(properties)
    assert name in str(error.value)
    assert str(error.value).endswith(".")
    assert SECRET not in str(error.value)


@pytest.mark.slow
def test_a_token_is_kept_and_renewed_before_it_ends() -> None:
    made: list[Token] = []

    def source() -> Token:
        made.append(Token(f"t{len(made)}", time.time() + 1.5))
        return made[-1]

    keeper = TokenKeeper(source)
    assert keeper.token() is keeper.token()
    limit = time.monotonic() + 60
    while len(made) < 3:
        assert time.monotonic() < limit
        time.sleep(0.05)
    assert keeper.token().value != "t0"
    assert "t0" not in repr(made[0])


def test_an_endpoint_is_asked_for_tokens(endpoint: Endpoint) -> None:
    body = base64.urlsafe_b64encode(b'{"sub": "bell"}').decode().rstrip("=")
    endpoint.answer = 200, {"access_token": f"e30.{body}.x", "expires_in": 300}
    token = tokens.keeper(endpoint.properties).token()
    assert (token.value, token.principal) == (f"e30.{body}.x", "bell")
    assert token.extensions == {"logicalCluster": "lkc-1"}
    assert 290 < token.expires_at_s - time.time() <= 300
    ((login, form),) = endpoint.asked
    assert base64.b64decode(login.removeprefix("Basic ")).decode() == f"bellwether:{SECRET}"
    assert form == {"grant_type": ["client_credentials"], "scope": ["kafka"]}


@pytest.mark.parametrize(
    ("answer", "message"),
    [((401, {"error": SECRET}), "answered 401"), ((200, {"x": SECRET}), "access_token"), ((200, [SECRET]), "access")],
)
def test_an_endpoint_that_gives_no_token_is_one_sentence(
    endpoint: Endpoint, answer: tuple[int, object], message: str
) -> None:
    endpoint.answer = answer
    with pytest.raises(TokenError) as error:
        tokens.keeper(endpoint.properties).token()
    assert message in str(error.value)
    assert SECRET not in str(error.value)


def jwt(**claims: object) -> str:
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"e30.{body}.x"


@pytest.mark.parametrize(
    ("claims", "answered", "life_s"),
    [
        ({"exp": 300}, {}, 300),
        ({"exp": 300}, {"expires_in": "300"}, 300),
        ({"exp": 300}, {"expires_in": 3600}, 300),
        ({"exp": 3600}, {"expires_in": 300}, 300),
        ({}, {"expires_in": "300"}, 300),
        ({}, {}, tokens.LIFE_DEFAULT_S),
        ({}, {"expires_in": True}, tokens.LIFE_DEFAULT_S),
        ({}, {"expires_in": 10**400}, tokens.LIFE_DEFAULT_S),
        ({"exp": 3e8}, {}, 3e8),  # ten years: no timer of the interpreter takes as much
    ],
    ids=str,
)
def test_a_token_lives_as_long_as_it_says_itself(
    endpoint: Endpoint, claims: dict[str, float], answered: dict[str, object], life_s: float
) -> None:
    own = {name: time.time() + after_s for name, after_s in claims.items()}
    endpoint.answer = 200, {"access_token": jwt(**own), **answered}
    token = tokens.keeper(endpoint.properties).token()
    assert token.expires_at_s - time.time() == pytest.approx(life_s, abs=30)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_an_endpoint_that_is_overloaded_is_not_mended_by_another_secret(status: int, endpoint: Endpoint) -> None:
    endpoint.answer = status, {}
    with pytest.raises(TokenError, match=f"answered {status}; the endpoint is overloaded or at fault") as error:
        tokens.keeper(endpoint.properties).token()
    assert "client.secret" not in str(error.value)


def test_a_token_that_has_ended_is_none(endpoint: Endpoint) -> None:
    endpoint.answer = 200, {"access_token": jwt(exp=1_000_000_000), "expires_in": 300}
    with pytest.raises(TokenError, match="has ended already; check the clock"):
        tokens.keeper(endpoint.properties).token()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_the_client_secret_follows_no_redirect(endpoint: Endpoint, status: int) -> None:
    other = Endpoint()
    try:
        endpoint.answer, endpoint.elsewhere = (status, {}), f"http://127.0.0.1:{other.server.server_port}/stolen"
        with pytest.raises(TokenError, match=f"answered {status}; a redirect is not followed"):
            tokens.keeper(endpoint.properties).token()
        assert other.asked == []
    finally:
        other.close()


@pytest.mark.slow
def test_an_answer_without_an_end_is_one_sentence(endpoint: Endpoint) -> None:
    endpoint.answer = 200, b"[" + b"1," * tokens.ANSWER_BYTES_MAX
    with pytest.raises(TokenError, match=r"has more than 1,000,000 bytes"):
        tokens.keeper(endpoint.properties).token()
    endpoint.answer = 200, b"[" * 100_000
    with pytest.raises(TokenError, match="answered no JSON"):
        tokens.keeper(endpoint.properties).token()


def test_an_endpoint_that_is_not_there_is_one_sentence(endpoint: Endpoint) -> None:
    properties = endpoint.properties | {"sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token?key=x9y"}
    with pytest.raises(TokenError, match=r"127\.0\.0\.1:1/token of .* cannot be reached") as error:
        tokens.keeper(properties).token()
    assert "x9y" not in str(error.value)


@pytest.mark.slow
def test_whatever_a_source_raises_is_one_sentence_and_renewals_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "RETRY_S", 0.05)
    renewed, calls = threading.Event(), 0

    def source() -> Token:
        nonlocal calls
        calls += 1
        if calls == 1:
            return Token("first-token", time.time() + 1.0)
        if calls < 5:
            raise RuntimeError("the library of another system")
        renewed.set()
        return Token("renewed", time.time() + 3600)

    keeper = TokenKeeper(source)
    assert keeper.token().value == "first-token"
    assert renewed.wait(60)
    assert keeper.token().value == "renewed"
    with pytest.raises(TokenError, match=r"^No token was obtained \(KeyError\); check .*\.$"):
        TokenKeeper(lambda: {}["nothing"]).token()


def test_kerberos_is_refused_where_a_client_cannot_do_it() -> None:
    """The packaged librdkafka comes without Kerberos, so this is what most people meet."""
    by_keytab = {
        "bootstrap.servers": "b:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": "/etc/krb5.keytab",
        "sasl.kerberos.principal": "bell@EXAMPLE.ORG",
    }
    config = client_config(by_keytab)
    assert (config["sasl_mechanism"], config["sasl_kerberos_service_name"]) == ("GSSAPI", "kafka")
    assert librdkafka_properties(by_keytab) == by_keytab | LIBRDKAFKA_DEFAULTS
    assert config[KEYTAB] == ("/etc/krb5.keytab", "bell@EXAMPLE.ORG")
    with pytest.raises(ClientConfigError, match=r"GSSAPI needs .*\.$"):
        check_kerberos(config)


def test_kerberos_without_a_keytab_takes_the_tickets_that_are_there() -> None:
    """librdkafka would run kinit and miss its keytab; kafka-python has no default for the service."""
    tickets = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}
    config = client_config(tickets)
    assert (config["sasl_kerberos_service_name"], config[KEYTAB]) == ("kafka", None)
    assert librdkafka_properties(tickets) == tickets | LIBRDKAFKA_DEFAULTS | {
        "sasl.kerberos.min.time.before.relogin": "0"
    }
    with pytest.raises(ClientConfigError, match=r"sasl\.kerberos\.principal"):
        client_config(tickets | {"sasl.kerberos.keytab": "/etc/krb5.keytab"})


def test_a_keytab_that_does_not_log_in_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = tmp_path / "kinit"
    refusing.write_text("#!/bin/sh\necho 'kinit: no key for it' >&2\nexit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    with pytest.raises(kerberos.KerberosError, match=r"^The file k of .* log p in \(no key for it\); correct .*\.$"):
        kerberos.log_in("k", "p")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(kerberos.KerberosError, match="krb5-user"):
        kerberos.log_in("k", "p")
