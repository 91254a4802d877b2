"""Tokens for AWS MSK: a URL that is signed by version 4."""

import base64
import hashlib
import hmac
import time
import urllib.parse
from datetime import UTC, datetime
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.kafka.wire import TokenError, client_config, librdkafka_properties, tokens
from bellwether_kafka.coordinator.kafka.wire.tokens import TokenKeeper
from tests.unit.coordinator.kafka.token_endpoint import LOGIN, Endpoint


def signing_key(secret: str, day: str, region: str, service: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key


def test_the_key_is_derived_as_in_the_published_example() -> None:
    """The example of AWS' guide "Deriving the signing key": the referee for the token is right."""
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


@pytest.mark.slow
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
