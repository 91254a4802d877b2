"""What `bellwether init` asks of a login, answer by answer, and the client properties that come of it."""

import io

import pytest
import typer

from bellwether_kafka.coordinator.cli import Exit
from bellwether_kafka.coordinator.cli.init import Questions

ASKING = Questions(terminal=True, defaults=False)


def answering(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))


@pytest.mark.parametrize(
    ("answers", "properties"),
    [
        (["none"], {}),
        ([""], {}),
        (["tls", "/ca.pem", ""], {"security.protocol": "SSL", "ssl.ca.location": "/ca.pem"}),
        (
            ["TLS", "", "/me.pem", "/key.pem"],
            {"security.protocol": "SSL", "ssl.certificate.location": "/me.pem", "ssl.key.location": "/key.pem"},
        ),
        (
            ["sasl", "yes", "", "bw", "/run/p", "", "/ca.pem"],
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.username": "bw",
                "sasl.password.file": "/run/p",
                "ssl.ca.location": "/ca.pem",
            },
        ),
        (
            ["sasl", "no", "gssapi", "sasl.kerberos.service.name=kafka", ""],
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
            },
        ),
    ],
)
def test_a_login_becomes_properties(
    answers: list[str], properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, *answers)
    assert ASKING.login("--property") == properties


def test_a_secret_is_not_taken_and_its_value_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "sasl.oauthbearer.client.secret"
    answering(monkeypatch, "sasl", "no", "oauthbearer", f"{name}=hunter2", "nonsense", f"{name}.file=/run/s", "")
    properties = ASKING.login("--property")
    assert properties[f"{name}.file"] == "/run/s"
    assert {name, "nonsense"}.isdisjoint(properties)
    shown = capsys.readouterr()
    assert f"use {name}.file=PATH" in shown.err
    assert "SASL_SSL; [hidden] is not" in shown.err
    assert "hunter2" not in shown.err + shown.out


def test_an_unknown_login_is_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, "kerberos5")
    with pytest.raises(typer.Exit) as ended:
        ASKING.login("--property")
    assert ended.value.exit_code == Exit.INPUT


def test_the_end_of_the_input_ends_the_command_as_ctrl_c_does(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        ASKING.answer("the brokers", "host:port", "--bootstrap")


def test_accepted_defaults_answer_only_what_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    accepting = Questions(terminal=True, defaults=True)
    assert accepting.answer("the rack", "az1", "--rack", "") == ""
    answering(monkeypatch, "b:1")
    assert accepting.answer("the brokers", "host:port", "--bootstrap") == "b:1"
