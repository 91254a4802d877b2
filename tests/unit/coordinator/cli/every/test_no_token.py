"""Where a login gets no token, each command says so in one sentence, with the endpoint and its setting."""

from pathlib import Path

import pytest

from tests.unit.coordinator.cli.every_command import ARGUMENTS, NOT_PRINTING, printed, write_files

NOBODY = "127.0.0.1:1"
ENDPOINT = "http://127.0.0.1:1/token"
OIDC = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "c",
    "sasl.oauthbearer.client.secret": "s",
    "sasl.oauthbearer.token.endpoint.url": ENDPOINT,
}
GROUP = '[[groups]]\nname = "orders"\nmode = "observe"\n'
ASKING = sorted(n for n, words in ARGUMENTS.items() if "{brokers}" in words or "{control}" in words)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ASKING if name not in NOT_PRINTING])
def test_a_login_without_a_token_is_one_sentence(name: str, tmp_path: Path) -> None:
    write_files(tmp_path)
    config = tmp_path / "bellwether.toml"
    config.write_text("[kafka]\n" + "".join(f'"{key}" = "{value}"\n' for key, value in OIDC.items()) + GROUP)
    ended = printed(name, "orders", "orders", f"{NOBODY} --config {config}", tmp_path)
    assert f"token endpoint {ENDPOINT} of sasl.oauthbearer.token.endpoint.url cannot be reached" in ended.stderr
    assert "not set within" not in ended.stderr
