"""Secrets are hidden by value, however a language writes them, and passwords in addresses by their place."""

import base64
import html
import json
import shlex
from urllib.parse import quote, quote_plus, urlencode

import pytest
import yaml

from bellwether_kafka.coordinator.names import HIDDEN, keep_secret, without_kept_secrets, without_secrets

RENEWED_MAX = 64

HARD = "pl\"ant\\e'd &/é#1"
BODY = [base64.b64encode(bytes(range(number, number + 48))).decode() for number in (0, 48)]
PEM = "\n".join(("-----BEGIN PRIVATE KEY-----", *BODY, "-----END PRIVATE KEY-----"))


@pytest.mark.parametrize(
    "written",
    [
        HARD,
        json.dumps({"text": HARD}),
        json.dumps({"text": HARD}, ensure_ascii=False),
        repr({"text": HARD}),
        f"http://host/?{urlencode({'token': HARD})}",
        quote(HARD, safe=""),
        quote_plus(HARD),
        quote(HARD, safe="").lower(),
        html.escape(HARD),
        shlex.quote(HARD),
        base64.b64encode(HARD.encode()).decode(),
        *(yaml.safe_dump({"text": HARD}, allow_unicode=True, default_style=style) for style in (None, "'", '"')),
    ],
)
def test_a_secret_is_hidden_in_whatever_language_it_is_written(written: str) -> None:
    keep_secret(HARD)
    encoded = base64.b64encode(HARD.encode()).decode()
    for shown in (without_secrets(written), without_kept_secrets(written.encode()).decode()):
        assert "ant" not in shown, shown
        assert encoded not in shown, shown
        assert HIDDEN in shown


def test_nothing_of_a_secret_is_left_beside_what_hides_it() -> None:
    keep_secret(HARD)
    assert without_secrets(shlex.quote(HARD)) == f"'{HIDDEN}'"
    assert without_secrets(html.escape(HARD)) == HIDDEN
    assert without_secrets(repr(HARD)[1:-1]) == HIDDEN
    assert without_secrets(json.dumps(HARD)) == f'"{HIDDEN}"'


@pytest.mark.parametrize("secret", ["shepherd's", "flockwell", "wether-77", "two words", "line\nfeed", "a\tb'"])
def test_no_part_of_a_secret_is_hidden_where_it_stands_alone(secret: str) -> None:
    """A password may hold the names of a group or of Kafka, and sentences must stay readable."""
    keep_secret(secret)
    parts = {secret[1:-1], secret[1:], secret[:-1]}
    for part in parts:
        assert without_secrets(f"Group {part} has ended") == f"Group {part} has ended"
    assert secret not in without_secrets(secret)


def test_a_line_of_a_key_is_hidden_and_what_every_key_begins_with_is_not() -> None:
    keep_secret(PEM)
    assert without_secrets(f"error near {BODY[1]}: bad base64") == f"error near {HIDDEN}: bad base64"
    assert without_secrets("expected -----BEGIN PRIVATE KEY-----") == "expected -----BEGIN PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pw@host:8081/x refused", f"http://user:{HIDDEN}@host:8081/x refused"),
        ("url='https://:s3cr3t@h'", f"url='https://:{HIDDEN}@h'"),
        ("SASL_SSL://broker:9092 and a@b", "SASL_SSL://broker:9092 and a@b"),
        ("http://host:8081/a@b", "http://host:8081/a@b"),
        ("https://user:p/w?x@host/y refused", f"https://user:{HIDDEN}@host/y refused"),
        ("https://host/?api_key=pw&x=1 refused", f"https://host/?api_key={HIDDEN}&x=1 refused"),
        ("GET /?X-Amz-Security-Token=pw HTTP", f"GET /?X-Amz-Security-Token={HIDDEN} HTTP"),
    ],
)
def test_a_password_in_an_address_is_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_renewed_tokens_do_not_pile_up_and_drive_nothing_else_out() -> None:
    keep_secret("a-password-of-the-settings")
    for number in range(RENEWED_MAX + 1):
        keep_secret(f"token-{number:08}", renewed=True)
    assert without_secrets("token-00000000") == "token-00000000"
    assert without_secrets(f"token-{RENEWED_MAX:08}") == HIDDEN
    assert without_secrets("a-password-of-the-settings") == HIDDEN
