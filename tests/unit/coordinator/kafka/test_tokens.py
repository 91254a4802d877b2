"""Tokens for logins: what is in them, when they are renewed, what is wrong; and nothing secret is shown."""

import base64
import hashlib
import hmac
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.coordinator.kafka import kerberos, tokens
from bellwether_kafka.coordinator.kafka.client_properties import (
    KEEPER,
    KEYTAB,
    LIBRDKAFKA_DEFAULTS,
    ClientConfigError,
    check_kerberos,
    client_config,
    librdkafka_properties,
)
from bellwether_kafka.coordinator.kafka.tokens import Token, TokenError, TokenKeeper

LOGIN = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
UNSECURED = {**LOGIN, "enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=bell"}
SECRET = "hush-4711"  # noqa: S105 - of an endpoint that lives as long as a test


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


class Endpoint:
    """A token endpoint: `answer` is what it says next, (status, JSON); `asked` what it was asked."""

    def __init__(self) -> None:
        self.answer: tuple[int, object] = 200, {}
        self.elsewhere = ""
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
                outer.asked.append((self.headers["Authorization"] or "", urllib.parse.parse_qs(form)))
                status, message = outer.answer
                self.send_response(status)
                if outer.elsewhere:
                    self.send_header("Location", outer.elsewhere)
                self.end_headers()
                self.wfile.write(message if isinstance(message, bytes) else json.dumps(message).encode())

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def properties(self) -> dict[str, str]:
        return {
            **LOGIN,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{self.server.server_port}/token",
            "sasl.oauthbearer.client.id": "bellwether",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint()
    yield running
    running.close()


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


# ---- AWS: the signature is worked out a second time, step by step as AWS documents it ------------------------------


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def test_the_key_is_derived_as_in_the_published_example() -> None:
    """The example of AWS' guide "Deriving the signing key": our referee for the token is right."""
    key = signing_key("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830", "us-east-1", "iam")
    assert key.hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"


@pytest.mark.parametrize("session_token", [None, "session/token=="])
def test_a_token_for_msk_is_a_url_signed_by_version_4(
    monkeypatch: pytest.MonkeyPatch, session_token: str | None
) -> None:
    secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"  # noqa: S105 - of AWS' documentation
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    if session_token is not None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session_token)
    token = TokenKeeper(lambda: tokens.msk_token(*tokens.aws_login())).token()
    url = base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode()
    asked = urllib.parse.urlsplit(url)
    message = dict(urllib.parse.parse_qsl(asked.query, strict_parsing=True))
    assert (asked.scheme, asked.netloc, asked.path) == ("https", "kafka.eu-central-1.amazonaws.com", "/")
    assert (message["Action"], message["X-Amz-Expires"]) == ("kafka-cluster:Connect", "900")
    assert message.get("X-Amz-Security-Token") == session_token
    signature, at = message.pop("X-Amz-Signature"), message["X-Amz-Date"]
    assert abs(datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() - time.time()) < 60
    assert message.pop("User-Agent") == "bellwether"
    scope = f"{at[:8]}/eu-central-1/kafka-cluster/aws4_request"
    assert message["X-Amz-Credential"] == f"AKIDEXAMPLE/{scope}"
    quoted = sorted(
        (urllib.parse.quote(k, safe="-_.~"), urllib.parse.quote(v, safe="-_.~")) for k, v in message.items()
    )
    query = "&".join(f"{k}={v}" for k, v in quoted)
    canonical = f"GET\n/\n{query}\nhost:{asked.netloc}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = signing_key(secret, at[:8], "eu-central-1", "kafka-cluster")
    assert hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == signature
    assert token.expires_at_s - time.time() <= 900
    assert secret not in repr(token)


def test_msk_is_a_token_to_both_clients() -> None:
    properties = {**LOGIN, "sasl.mechanism": "AWS_MSK_IAM"}
    assert client_config(properties)["sasl_mechanism"] == "OAUTHBEARER"
    assert librdkafka_properties(properties)["sasl.mechanism"] == "OAUTHBEARER"


def test_msk_without_a_region_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(TokenError, match="AWS_DEFAULT_REGION"):
        TokenKeeper(lambda: tokens.msk_token(*tokens.aws_login())).token()


def test_msk_with_a_profile_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "no-such-profile")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(TokenError, match=r"finds no credentials of AWS \(ProfileNotFound\)"):
        tokens.aws_login()


REFUSED_BY_STS = b"""<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>Not authorized to perform sts:AssumeRoleWithWebIdentity</Message></Error>
<RequestId>1</RequestId></ErrorResponse>"""


def test_a_role_that_sts_refuses_is_one_sentence(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("x.y.z")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "AWS_ROLE_ARN": "arn:aws:iam::111122223333:role/bellwether",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "token"),
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL_STS": f"http://127.0.0.1:{endpoint.server.server_port}",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    endpoint.answer = 403, REFUSED_BY_STS
    with pytest.raises(TokenError) as error:
        TokenKeeper(lambda: tokens.msk_token(*tokens.aws_login())).token()
    assert str(error.value) == (
        "sasl.mechanism AWS_MSK_IAM gets no credentials of AWS: AssumeRoleWithWebIdentity was refused (AccessDenied:"
        " Not authorized to perform sts:AssumeRoleWithWebIdentity); check the trust policy of the role."
    )


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
