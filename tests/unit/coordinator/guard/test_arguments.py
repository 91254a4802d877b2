"""The arguments of the guard: as the documented command has them, and mistakes as sentences."""

import dataclasses
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.guard import GRACE_S, GuardArguments, arguments
from bellwether_kafka.coordinator.guard.arguments import GuardOptions, GuardSettingsError, broker_settings, parsed
from tests.kit.commands import bellwether
from tests.unit.coordinator.cli.every_command import ALL

COMMAND = ["--", "java", "-jar", "app.jar", "--group", "its own"]


def test_what_is_read_is_what_is_documented() -> None:
    documented = {parameter.name: parameter for parameter in ALL["guard"].params}
    fields = {field.name: field for field in dataclasses.fields(GuardArguments)}
    assert documented.keys() == fields.keys()
    for name in fields.keys() - {"command"}:
        assert documented[name].opts == [f"--{name.replace('_', '-')}"]
    assert documented["grace"].default == fields["grace"].default == GRACE_S


def test_a_guard_goes_past_the_table_of_commands_in_a_process_that_has_read_it() -> None:
    """`ALL` has imported every command by now, the module that documents this one included."""
    assert ALL["guard"]
    ended = bellwether("guard", "--group", "g")
    assert ended.returncode == 2
    assert "Name the command to run, behind --" in ended.stderr


def test_every_option_is_read_and_the_command_is_left_alone() -> None:
    words = [
        "--group",
        "g",
        "--state-dir",
        "/s",
        "--client-id",
        "a",
        "--client-id",
        "b",
        "--grace",
        "2.5",
        "--no-fence",
    ]
    more = ["--bootstrap", "h:1", "--config", "/c", "--topic", "t"]
    assert parsed([*words, *more, *COMMAND]) == GuardArguments(
        group="g",
        command=tuple(COMMAND[1:]),
        state_dir=Path("/s"),
        client_id=("a", "b"),
        grace=2.5,
        fence=False,
        bootstrap="h:1",
        config=Path("/c"),
        topic="t",
    )
    assert parsed(["--pid", "7"]).pid == 7
    assert parsed(["--pid-file", "/run/app.pid"]).pid_file == Path("/run/app.pid")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--client-id a --bootstrap h:1 -- true", "Name the group by --group."),
        ("--group g --client-id a --bootstrap h:1", "Name the command to run, behind --, or a process by --pid or"),
        ("--group g --client-id a --pid 1 --bootstrap h:1 -- true", "Name the command to run, behind --,"),
        ("--group g --client-id a --pid 1 --pid-file f --bootstrap h:1", "Name the command to run, behind --,"),
        ("--group g --bootstrap h:1 -- true", "Name --state-dir"),
        ("--group g --client-id a --grace -1 --bootstrap h:1 -- true", "--grace is a number of seconds"),
        ("--group g --client-id a --grace nan --bootstrap h:1 -- true", "--grace is a number of seconds"),
        ("--group g --client-id a --grace inf --bootstrap h:1 -- true", "--grace is a number of seconds"),
        ("--group g --client-id a --grace soon -- true", "Argument --grace: invalid float value: 'soon'; see"),
        ("--group g --client-id a -- true", "bootstrap.servers is not set; use --bootstrap"),
        ("--group g --client-id a --config /none -- true", "The configuration file /none cannot be read"),
        ("--group g true", "'true' is no option of the guard; the command goes behind --."),
        ("--groups g -- true", "'--groups' is no option of the guard"),
    ],
)
def test_mistakes_are_sentences(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "guard_child", lambda *_: pytest.fail("it was started"))
    assert arguments.guard(words.split()) == 2
    assert capsys.readouterr().err.startswith(f"bellwether guard: {sentence}")


def test_what_is_found_reaches_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[tuple[str, ...], GuardOptions]] = []
    monkeypatch.setattr(arguments, "guard_child", lambda *given: started.append(given) or 7)
    given = GuardArguments("g", ("true",), client_id=("a",))
    assert arguments.run_guard(given, {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "h:1"}) == 7
    ((command, options),) = started
    assert command == ("true",)
    assert options == GuardOptions("g", {"bootstrap.servers": "h:1"}, "bellwether-control", client_ids=("a",))


def test_the_file_the_environment_and_the_command_line_are_read_and_the_last_wins(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hunter2\n")
    file = tmp_path / "bellwether.toml"
    file.write_text(
        f'control_topic = "orders"\n[kafka]\nbootstrap.servers = "file:1"\n"sasl.password.file" = "{secret}"\n'
        '[[groups]]\nname = "g"\nmode = "lead"\n'
    )
    properties = broker_settings(file, None, None, {})
    assert properties.properties == {"bootstrap.servers": "file:1", "sasl.password": "hunter2"}
    assert properties.control_topic == "orders"
    environ = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "environ:1", "BELLWETHER_CONTROL_TOPIC": "other"}
    assert broker_settings(file, None, None, environ).properties["bootstrap.servers"] == "environ:1"
    assert broker_settings(file, None, None, environ).control_topic == "other"
    assert broker_settings(file, "given:1", "third", environ).properties["bootstrap.servers"] == "given:1"
    assert broker_settings(file, "given:1", "third", environ).control_topic == "third"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[kafka", "is not valid TOML"),
        ('kafka = "x"', "The setting kafka is wrong: it must be a table"),
        ('[kafka]\n"a.file" = "/none/at/all"', "cannot be read"),
    ],
)
def test_a_wrong_file_is_a_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "bellwether.toml"
    file.write_text(text)
    with pytest.raises(GuardSettingsError, match=sentence):
        broker_settings(file, None, None, {})
