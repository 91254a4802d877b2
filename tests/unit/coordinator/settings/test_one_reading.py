"""Client properties are read the same by every process: the service, the guard and `init`. Nothing that was written in
the wrong place is shown."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.cli.init import AnswerError, properties_of
from bellwether_kafka.coordinator.guard.arguments import GuardSettingsError, broker_settings
from bellwether_kafka.coordinator.kafka.wire import ClientConfigError, client_config
from bellwether_kafka.coordinator.names import without_secrets
from bellwether_kafka.coordinator.settings import SettingsError, load

SECRET = "hunter2-Qx71"  # noqa: S105 - of a test
BROKER = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092"}
PASSWORD = "BELLWETHER_KAFKA_SASL_PASSWORD"  # noqa: S105 - the name of a variable
IN_FILE = '[kafka]\n"bootstrap.servers" = "b:9092"\n'


def of_service(file: Path | None, environ: Mapping[str, str], bootstrap: str | None = None) -> Mapping[str, str]:
    given = {"kafka": {"bootstrap.servers": bootstrap}} if bootstrap is not None else {}
    return load(file, {**given, "groups": ["g"]}, environ).properties


def of_guard(file: Path | None, environ: Mapping[str, str], bootstrap: str | None = None) -> Mapping[str, str]:
    return broker_settings(file, bootstrap, None, environ).properties


@pytest.mark.parametrize("read", [of_service, of_guard])
@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        (IN_FILE, {}, None),
        ("", {**BROKER, f"{PASSWORD}_FILE": "pw"}, SECRET),
        ("", {"BELLWETHER_KAFKA": '{"bootstrap.servers": "b:9092", "sasl.password.file": "pw"}'}, SECRET),
        (f'{IN_FILE}"sasl.password.file" = "pw"', {}, SECRET),
        (f'{IN_FILE}sasl.password.file = "pw"', {}, SECRET),
        (f'{IN_FILE}"sasl.password" = "older"', {f"{PASSWORD}_FILE": "pw"}, SECRET),
        (f'{IN_FILE}"sasl.password.file" = "/none/at/all"', {PASSWORD: SECRET}, SECRET),
        (IN_FILE, {"BELLWETHER_KAFKA": '{"sasl.password": "older"}', f"{PASSWORD}_FILE": "pw"}, SECRET),
        (IN_FILE, {f"{PASSWORD.lower()}_file": "pw"}, None),
        (IN_FILE, {PASSWORD: SECRET, "BELLWETHER_KAFKA_PORT": "tcp://10.0.0.7:9092"}, SECRET),
    ],
)
def test_every_process_reads_the_same(
    read: object, text: str, environ: Mapping[str, str], expected: str | None, tmp_path: Path
) -> None:
    (tmp_path / "pw").write_text(f"{SECRET}\n")
    file = tmp_path / "bellwether.toml"
    file.write_text(text.replace('"pw"', f'"{tmp_path}/pw"'))
    placed = {name: value.replace("pw", f"{tmp_path}/pw") for name, value in environ.items()}
    properties = read(file, placed)  # type: ignore[operator]  # one of two functions
    assert properties["bootstrap.servers"] == "b:9092"
    assert properties.get("sasl.password") == expected
    assert not [name for name in properties if name.endswith(".file")]
    assert read(file, placed, "line:1")["bootstrap.servers"] == "line:1"  # type: ignore[operator]  # likewise
    if expected is not None:
        assert SECRET not in without_secrets(f"an error of a library: {SECRET}")


def test_a_guard_registers_what_it_has_read_from_a_variable_as_a_secret() -> None:
    of_guard(None, {**BROKER, PASSWORD: "hush-of-a-variable"})
    assert "hush" not in without_secrets("login with hush-of-a-variable failed")


@pytest.mark.parametrize(
    ("text", "environ"),
    [
        (IN_FILE, {PASSWORD: "x", f"{PASSWORD}_FILE": "pw"}),
        (f'{IN_FILE}"sasl.password" = "x"\n"sasl.password.file" = "pw"', {}),
        (IN_FILE, {f"{PASSWORD}_FILE": "/none/at/all"}),
        (f'{IN_FILE}"client.id" = ["a"]', {}),
        (IN_FILE, {"BELLWETHER_KAFKA": SECRET}),
        (f"{IN_FILE}{SECRET} = [1]", {}),
        (f'{IN_FILE}"{SECRET}.file" = "/none"', {}),
    ],
)
def test_every_process_refuses_the_same_for_the_same_reason(
    text: str, environ: Mapping[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "bellwether.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as of_settings:
        of_service(file, environ)
    with pytest.raises(GuardSettingsError) as of_the_guard:
        of_guard(file, environ)
    reason = str(of_the_guard.value).partition(": ")[2]
    assert reason
    assert reason in str(of_settings.value)
    assert SECRET not in str(of_settings.value)


def test_a_variable_without_a_topic_is_none_for_a_guard_too(tmp_path: Path) -> None:
    """Commands then use the default, whatever the file names; a guard that read the file's would read other orders."""
    file = tmp_path / "bellwether.toml"
    file.write_text(f'control_topic = "orders"\n{IN_FILE}')
    assert broker_settings(file, None, None, {"BELLWETHER_CONTROL_TOPIC": ""}).control_topic == "bellwether-control"
    assert broker_settings(file, None, None, {}).control_topic == "orders"


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.mechanism": SECRET},
        {"sasl.mechanisms": SECRET},
        {"security.protocol": SECRET},
        {"reconnect.backoff.ms": SECRET},
        {"ssl.endpoint.identification.algorithm": SECRET},
        {"enable.ssl.certificate.verification": SECRET},
        {"bellwether.api.version": SECRET},
        {"bootstrap.servers": f"user:{SECRET}"},
        {"bootstrap.servers": f"https://user:{SECRET}@host"},
        {SECRET: "sasl.password"},
        {f"sasl.password.{SECRET}": ""},
        {"correct horse battery": "x"},
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal=a {SECRET}",
        },
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal=a lifeSeconds={SECRET}",
        },
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(properties: dict[str, str]) -> None:
    with pytest.raises(ClientConfigError) as error:
        client_config({"bootstrap.servers": "b:9092", **properties})
    shown = str(error.value)
    assert SECRET not in shown
    assert "horse" not in shown


@pytest.mark.parametrize("name", ["ssl.keystore.location", "group.id", "acks", "linger.ms", "sasl.jaas.config"])
def test_the_name_of_a_property_that_is_not_supported_is_shown(name: str) -> None:
    with pytest.raises(ClientConfigError, match=name):
        client_config({"bootstrap.servers": "b:9092", name: "x"})


@pytest.mark.parametrize("given", [SECRET, f"{SECRET}=", f"sasl.password={SECRET}"])
def test_an_option_that_is_a_secret_is_not_shown(given: str) -> None:
    with pytest.raises(AnswerError) as error:
        properties_of([given])
    assert SECRET not in str(error.value)
