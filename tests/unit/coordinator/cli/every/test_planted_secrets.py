"""Secrets planted in settings, files, variables and addresses, and searched in all that commands print when something
fails: the settings, the login, the brokers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from tests.kit.commands import bellwether
from tests.unit.coordinator.cli.every_command import ARGUMENTS

PLANTED = 'Pl4nt"ed\\Va/l&ue'
LINE = "MIIEvQIBADANBgkqhkiG9w0BAQEFAAPlanted"
KEY = f"-----BEGIN PRIVATE KEY-----\n{LINE}\n-----END PRIVATE KEY-----"
IN_ADDRESS = "PlantedInAddress"
SHOWN = (PLANTED, json.dumps(PLANTED)[1:-1], repr(PLANTED)[1:-1], quote(PLANTED, safe=""), quote_plus(PLANTED))
ALL = (*SHOWN, LINE, IN_ADDRESS)

AFTER_FIRST_LINE_S = 5.0  # in which it tries to reach brokers
NOBODY = "127.0.0.1:1"  # no broker listens there
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "u"}
OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": PLANTED,
}
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
TLS = {"security.protocol": "SSL"}
# By what is wrong: librdkafka's properties, and other lines of the file.
FAILURES: dict[str, tuple[dict[str, object], str]] = {
    "no broker": ({**PLAIN, "sasl.password": PLANTED}, ""),
    "no user": ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.password": PLANTED}, ""),
    "the password as mechanism": ({**PLAIN, "sasl.mechanism": PLANTED, "sasl.password": PLANTED}, ""),
    "a list": ({**PLAIN, "sasl.password": [PLANTED]}, ""),
    "the password as a file": ({**PLAIN, "sasl.password.file": PLANTED}, ""),
    "a misspelt property beside it": ({**PLAIN, "sasl.passwort": PLANTED, "sasl.password": PLANTED}, ""),
    "a setting that does not exist": ({}, f"sasl_password = {json.dumps(PLANTED)}"),
    "no TOML": ({}, f"password = {json.dumps(PLANTED)} x"),
    "a key that does not fit": ({**TLS, "ssl.key.pem": KEY, "ssl.certificate.pem": KEY}, ""),
    "a key that is not there": ({**TLS, "ssl.key.location": "/nowhere", "ssl.key.password": PLANTED}, ""),
    "no token endpoint": ({**OIDC, ENDPOINT: f"http://u:{IN_ADDRESS}@127.0.0.1:1/token"}, ""),
    "no address of one": ({**OIDC, ENDPOINT: f"ftp://u:{IN_ADDRESS}@127.0.0.1:1/token"}, ""),
    "a wrong registry": ({}, f'events = {{topic = "e", registry_url = "ftp://u:{IN_ADDRESS}@h"}}'),
    "jaas": ({"sasl.jaas.config": f"org.Login required password={PLANTED};"}, ""),
    "unsecured": (
        {**OIDC, "sasl.oauthbearer.method": "default", "sasl.oauthbearer.config": f"principal {PLANTED}"},
        "",
    ),
}


def written(folder: Path, failure: str) -> Path:
    properties, lines = FAILURES[failure]
    table = {"bootstrap.servers": NOBODY, **properties}
    path = folder / "bellwether.toml"
    body = "\n".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in table.items())
    path.write_text(f'{lines}\n[kafka]\n{body}\n[[groups]]\nname = "g"\nmode = "observe"\n')
    return path


def judge(shown: str) -> None:
    assert [text for text in ALL if text in shown] == [], shown
    assert "Traceback" not in shown, shown


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_no_command_prints_a_secret(failure: str, tmp_path: Path) -> None:
    config = str(written(tmp_path, failure))
    for words in (["doctor", "g"], ["describe", "g", "-o", "json"], ["orders"], ["pin", "g", "t-0", "rack:a"]):
        ended = bellwether(*words, "--config", config)
        assert ended.returncode == 2, ended
        judge(ended.stdout + ended.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "style"),
    [("no broker", "json"), ("no token endpoint", "console"), ("a key that does not fit", "console")],
)
def test_no_log_of_run_has_a_secret(failure: str, style: str, tmp_path: Path) -> None:
    config = written(tmp_path, failure)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("BELLWETHER_")}
    env = {**clean, "BELLWETHER_LOG_FORMAT": style, "BELLWETHER_LOG_LEVEL": "debug", "AWS_SECRET_ACCESS_KEY": PLANTED}
    command = [sys.executable, "-m", "bellwether_kafka", "run", "--config", str(config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env) as process:
        assert process.stdout is not None
        first = process.stdout.readline()  # until it logs, or ends
        try:
            rest, _ = process.communicate(timeout=AFTER_FIRST_LINE_S)
        except subprocess.TimeoutExpired:
            process.terminate()
            rest, _ = process.communicate(timeout=60)
    printed = first + rest
    assert printed.strip()
    judge(printed)


@pytest.mark.parametrize("name", sorted(name for name, words in ARGUMENTS.items() if "{group}" in words))
def test_an_address_given_to_a_command_shows_no_password(name: str) -> None:
    """Where a command takes no such option, it says so without the value."""
    ended = bellwether(*name.split(), "g", "--url", f"ftp://u:{IN_ADDRESS}@h")
    judge(ended.stdout + ended.stderr)
