"""Settings: layers, secrets from files, and one sentence for every mistake."""

import json
from pathlib import Path

import pytest

from bellwether_kafka.coordinator.control import ControlSettings
from bellwether_kafka.coordinator.ghosts import GhostOptions
from bellwether_kafka.coordinator.guard.arguments import broker_settings
from bellwether_kafka.coordinator.membership import MembershipConfig, check_timing
from bellwether_kafka.coordinator.names import without_secrets
from bellwether_kafka.coordinator.planning import MESSAGE_BYTES_MAX
from bellwether_kafka.coordinator.properties import service_links
from bellwether_kafka.coordinator.settings import LEAD_FIELDS, SettingsError, load
from tests.kit.commands import BROKER, complaint, from_toml

BOTH = {**BROKER, "BELLWETHER_GROUPS": "orders"}


def test_the_least_configuration_is_a_broker_and_a_group() -> None:
    settings = load(environ=BOTH)
    (membership,) = settings.memberships
    assert (membership.group_id, membership.instance_id) == ("orders", "bellwether")
    assert settings.properties == {"bootstrap.servers": "b:9092"}
    assert settings.http_address.startswith("127.0.0.1:")
    assert check_timing(membership) is None


def test_a_file_says_it_all(tmp_path: Path) -> None:
    settings = from_toml(
        tmp_path,
        """
        instance_id = "wether-1"
        log_level = "debug"
        http_address = ""
        [kafka]
        bootstrap.servers = "b:9092"
        "security.protocol" = "SASL_SSL"
        "socket.keepalive.enable" = true
        "socket.timeout.ms" = 5000
        [[groups]]
        name = "orders"
        policy = "rack-first"
        protocols = ["range"]
        mode = "lead"
        session_timeout_ms = 12000
        [[groups]]
        name = "payments"
        instance_id = "own"
        """,
    )
    assert settings.properties == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "socket.keepalive.enable": "true",
        "socket.timeout.ms": "5000",
    }
    assert [g.policy for g in settings.groups] == ["rack-first", "kafka"]
    assert [m.instance_id for m in settings.memberships] == ["wether-1", "own"]
    assert (settings.memberships[0].protocols, settings.memberships[0].session_timeout_ms) == (("range",), 12000)


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('log_level = "error"\n[kafka]\n"bootstrap.servers" = "file:1"\n"client.id" = "kept"\n')
    environ = {**BOTH, "BELLWETHER_LOG_LEVEL": "debug"}
    settings = load(file, environ=environ)
    assert (settings.log_level, settings.properties["bootstrap.servers"]) == ("debug", "b:9092")
    assert settings.properties["client.id"] == "kept"
    settings = load(file, {"kafka": {"bootstrap.servers": "line:1"}, "groups": ["a", "b"]}, environ)
    assert settings.properties == {"bootstrap.servers": "line:1", "client.id": "kept"}
    assert [g.name for g in settings.groups] == ["a", "b"]


def test_groups_in_a_variable_are_names_or_json() -> None:
    names = load(environ={**BROKER, "BELLWETHER_GROUPS": "a, b"}).groups
    assert [g.name for g in names] == ["a", "b"]
    (group,) = load(environ={**BROKER, "BELLWETHER_GROUPS": '[{"name": "a", "policy": "rack-first"}]'}).groups
    assert group.policy == "rack-first"


def test_secrets_come_from_files_and_show_nowhere(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("hunter2\n")
    settings = load(environ={**BOTH, "BELLWETHER_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "pw")})
    assert settings.properties["sasl.password"] == "hunter2"
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()


def test_a_mistake_elsewhere_does_not_print_the_password(tmp_path: Path) -> None:
    text = '[kafka]\n"sasl.password" = "hunter2"\n[[groups]]\nnam = "hunter2"\n'
    message = complaint(tmp_path, text)
    assert "hunter2" not in message
    assert "groups[0].nam does not exist; perhaps name is meant" in message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = [", "is not valid TOML"),
        ("groups = 3", "The setting groups cannot be used: it must be a list of tables"),
        (
            '[kafka]\nstandby = true\n"bootstrap.servers" = "b:9092"',
            "standby is a setting of the process and not of a client; move it above [kafka]",
        ),
        ("kafka = 3", "The setting kafka cannot be used: it must be a table of librdkafka properties"),
        ('log_level = "loud"', "The setting log_level cannot be used"),
        ("log_lvel = 1", "The setting log_lvel does not exist; perhaps log_level is meant"),
        ('http_address = "9790"', "The setting http_address cannot be used: write it as host:port"),
        ('http_address = "h:65536"', "The setting http_address cannot be used: write it as host:port"),
        ('assignor_address = "/run/a.sock"', "The setting assignor_address cannot be used: write it as unix:/path"),
        ('instance_id = "a b"', "The setting instance_id cannot be used"),
        ("[[groups]]\n", "The setting groups[0] cannot be used: it has neither name nor match; set one of them"),
        ('[[groups]]\nname = "a"\nsession_timeout_ms = "x"', "The setting groups[0].session_timeout_ms cannot be used"),
        ('[[groups]]\nname = "a"\nprotocols = []', "The setting groups[0].protocols cannot be used"),
        (
            '[[groups]]\nname = "a"\nmode = "lead"\nsession_timeout_ms = 5000',
            "must be less than session_timeout_ms (5000)",
        ),
        ('[[groups]]\nname = "a"\n[[groups]]\nname = "a"', "groups names a twice"),
        ('[kafka]\n"sasl.password.file" = "/nowhere/pw"', "the file named by sasl.password.file cannot be read"),
        ('[kafka]\n"client.id" = ["a"]', "the property client.id is no plain value"),
    ],
)
def test_a_mistake_in_the_file_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    sentence = complaint(tmp_path, text, BROKER)
    assert message in sentence
    assert sentence.endswith(".")
    assert not sentence.endswith("..")
    assert "\n" not in sentence.replace(text, "")


def test_missing_pieces_say_where_to_put_them() -> None:
    with pytest.raises(SettingsError, match=r"bootstrap\.servers is not set; .*BELLWETHER_KAFKA_BOOTSTRAP_SERVERS"):
        load(environ={"BELLWETHER_GROUPS": "a"})
    with pytest.raises(SettingsError, match=r"groups is empty; .*BELLWETHER_GROUPS"):
        load(environ=BROKER)


def test_a_value_given_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("x")
    environ = {
        **BOTH,
        "BELLWETHER_KAFKA_SASL_PASSWORD": "y",
        "BELLWETHER_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "pw"),
    }
    with pytest.raises(SettingsError, match=r"sasl\.password is given twice"):
        load(environ=environ)


def test_a_variable_that_is_no_setting_is_refused() -> None:
    with pytest.raises(SettingsError, match="BELLWETHER_LOGLEVEL is no setting; perhaps BELLWETHER_LOG_LEVEL is meant"):
        load(environ={**BOTH, "BELLWETHER_LOGLEVEL": "debug"})


def test_bad_json_in_a_variable_is_not_echoed() -> None:
    with pytest.raises(SettingsError) as caught:
        load(environ={"BELLWETHER_KAFKA": "hunter2", "BELLWETHER_GROUPS": "a"})
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml cannot be read .*; check --config"):
        load(tmp_path / "nowhere.toml", environ={})


def test_many_mistakes_are_counted(tmp_path: Path) -> None:
    message = complaint(tmp_path, "a1 = 1\na2 = 1\na3 = 1\na4 = 1\na5 = 1\n", BOTH)
    assert message.endswith("(and 2 more problems).")


def test_a_group_is_only_observed_unless_it_says_lead(tmp_path: Path) -> None:
    assert load(environ=BOTH).memberships[0].mode == "observe"
    head = '[kafka]\nbootstrap.servers = "b:1"\n[[groups]]\nname = "orders"\n'
    led = from_toml(tmp_path, head + 'mode = "lead"\nadopt = "take-over"\n').memberships[0]
    assert (led.mode, led.adopt) == ("lead", "take-over")
    assert complaint(tmp_path, head + 'adopt = "succeed"\n').startswith(
        "The setting groups[0] (orders) cannot be used: adopt is for groups that are led"
    )


@pytest.mark.parametrize("name", LEAD_FIELDS)
def test_a_setting_that_only_a_leader_uses_is_refused_elsewhere(name: str, tmp_path: Path) -> None:
    given = json.dumps(getattr(MembershipConfig("orders"), name, True))
    line = f"{name} = {given if given != 'null' else 1000}\n"
    kind = 'kind = "streams"\n' if name == "takeover_forced" else ""
    head = f'[kafka]\nbootstrap.servers = "b:1"\n[[groups]]\nname = "orders"\n{kind}'
    for mode in ("observe", "assist"):
        assert f'{name} is for groups that are led; add mode = "lead"' in complaint(
            tmp_path, f'{head}mode = "{mode}"\n{line}'
        )
    assert from_toml(tmp_path, f'{head}mode = "lead"\n{line}').groups[0].mode == "lead"


def test_ghosts_are_removed_in_the_modes_that_act(tmp_path: Path) -> None:
    head = '[kafka]\nbootstrap.servers = "b:1"\n[[groups]]\nname = "orders"\n'
    (observed,) = from_toml(tmp_path, head).groups
    assert observed.ghost_options is None
    (assisted,) = from_toml(tmp_path, head + 'mode = "assist"\nclient_ids_unique = true\n').groups
    assert assisted.ghost_options == GhostOptions(client_ids_unique=True)
    (led,) = from_toml(tmp_path, head + 'mode = "lead"\n').groups
    assert led.ghost_options == GhostOptions()
    (strict,) = from_toml(tmp_path, head + 'mode = "lead"\nghosts = false\nevict_malformed = true\n').groups
    assert strict.ghost_options == GhostOptions(remove=False, evict_malformed=True)
    streams = 'mode = "assist"\nkind = "streams"\n"processing.guarantee" = "exactly_once_v2"\n'
    (exact,) = from_toml(tmp_path, head + streams).groups
    assert exact.ghost_options == GhostOptions(exactly_once=True), "a rebalance that waits for long is dangerous there"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ghosts = true", 'mode = "assist" always removes them'),
        ('mode = "assist"\nghosts = false', 'mode = "observe" never does'),
        ("client_ids_unique = true", 'add mode = "assist" or "lead"'),
        ('mode = "assist"\nevict_malformed = true', "evict_malformed is for groups that are led"),
        ('online_conversion = "block"', "online_conversion is for groups that are led"),
        ('mode = "lead"\nonline_conversion = "perhaps"', "online_conversion"),
    ],
)
def test_what_a_mode_does_not_do_cannot_be_set(tmp_path: Path, text: str, message: str) -> None:
    assert message in complaint(tmp_path, f'[kafka]\nbootstrap.servers = "b:1"\n[[groups]]\nname = "orders"\n{text}\n')


def test_standby_instances_share_an_instance_id_and_each_has_a_name(tmp_path: Path) -> None:
    both = (
        'standby = true\ncontrol_topic = "control"\n[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "g"\n'
    )
    settings = from_toml(tmp_path, both, {"BELLWETHER_INSTANCE_NAME": "pod-0"})
    assert [m.standby for m in settings.memberships] == [True]
    assert settings.control == ControlSettings("control", "pod-0", standby=True)
    assert from_toml(tmp_path, both).control.instance_name != ""


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ('[[groups]]\nname = "g"', ""),
        ('[[groups]]\nname = "g"\nmode = "assist"', ""),
        ('[[groups]]\nname = "g"\nmode = "lead"', "bellwether-control"),
        ('[[groups]]\nmatch = "*"\n[[groups]]\nname = "g"\nmode = "lead"', "bellwether-control"),
        ('assignor_address = "unix:/run/a"\n[[groups]]\nname = "g"', "bellwether-control"),
        ('control_topic = "own"\n[[groups]]\nname = "g"', "own"),
        ('control_topic = ""\n[[groups]]\nname = "g"\nmode = "lead"', ""),
    ],
)
def test_who_leads_or_serves_uses_the_control_topic_and_who_observes_makes_none(
    tmp_path: Path, text: str, topic: str
) -> None:
    control = from_toml(tmp_path, text, {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:1"}).control
    assert (control.topic, control.standby) == (topic, False)
    assert control.instance_name != ""


def test_a_setting_that_was_renamed_is_answered_with_its_new_name(tmp_path: Path) -> None:
    text = '[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "g"\n'
    assert complaint(tmp_path, f'sidecar_id = "pod-0"\n{text}') == (
        "The setting sidecar_id is called instance_name now; rename it."
    )
    with pytest.raises(SettingsError, match="BELLWETHER_SIDECAR_ID is called BELLWETHER_INSTANCE_NAME now; rename it"):
        from_toml(tmp_path, text, {"BELLWETHER_SIDECAR_ID": "pod-0"})


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"BELLWETHER_STANDBY": "true", "BELLWETHER_CONTROL_TOPIC": ""}, "standby needs control_topic"),
        ({"BELLWETHER_CONTROL_TOPIC": "no such/topic"}, "control_topic"),
    ],
)
def test_a_standby_that_could_reach_nobody_is_refused(environ: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(environ={**BOTH, **environ})


@pytest.mark.parametrize("name", [".", "..", "a b", "orders\\u0000", "\u00e9", "a" * 250])
@pytest.mark.parametrize("before", ["control_topic = {}", "[events]\ntopic = {}", "[weights]\ntopic = {}"])
def test_what_no_topic_can_be_called_is_sent_to_nobody(tmp_path: Path, before: str, name: str) -> None:
    head = before.format(f'"{name}"')
    message = complaint(tmp_path, f'{head}\n[[groups]]\nname = "orders"', BROKER)
    assert "no topic can have this name" in message
    assert "topic" in message.split(" cannot be used")[0]


def test_capacities_are_a_table_by_member(tmp_path: Path) -> None:
    text = '[[groups]]\nname = "orders"\nmode = "lead"\npolicy = "load-aware"\n'
    inline = from_toml(tmp_path, text + 'capacity = { "large-consumer" = 2.0, "eu.small" = 0.5 }', BROKER)
    assert inline.groups[0].capacity == {"large-consumer": 2.0, "eu.small": 0.5}
    table = from_toml(tmp_path, text + "[groups.capacity]\nlarge-consumer = 2.0", BROKER)
    assert table.groups[0].capacity == {"large-consumer": 2.0}
    assert "capacity" in complaint(tmp_path, text + "capacity = { a = 0 }", BROKER)


def test_cost_needs_weights(tmp_path: Path) -> None:
    weights = '[weights]\ntopic = "w"\n'
    rest = '[cost]\nprice_per_gb = 0.02\n[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "orders"\n'
    settings = from_toml(tmp_path, weights + rest)
    assert settings.cost is not None
    assert (settings.cost.price_per_gb, settings.cost.currency, settings.cost.follower_fetching) == (0.02, "USD", None)
    assert "[weights]" in complaint(tmp_path, rest)
    declared = from_toml(tmp_path, rest.replace("price_per_gb = 0.02", "follower_fetching = true"))
    assert declared.cost is not None
    assert declared.cost.follower_fetching is True
    assert "price_per_gb" in complaint(tmp_path, weights + rest.replace("0.02", "-1"))


def test_the_record_of_a_group_is_limited_as_brokers_limit_it(tmp_path: Path) -> None:
    rest = '[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "orders"\n'
    assert from_toml(tmp_path, rest).message_bytes_max == MESSAGE_BYTES_MAX
    assert from_toml(tmp_path, "message_bytes_max = 4_000_000\n" + rest).message_bytes_max == 4_000_000
    assert "message_bytes_max" in complaint(tmp_path, "message_bytes_max = 0\n" + rest)


def links(service: str, port: int) -> dict[str, str]:
    """What Kubernetes sets for a Service with a port that has a name."""
    name = service.upper().replace("-", "_")
    return {
        f"{name}_SERVICE_HOST": "10.0.0.7",
        f"{name}_SERVICE_PORT": str(port),
        f"{name}_SERVICE_PORT_TCP_METRICS": str(port),
        f"{name}_PORT": f"tcp://10.0.0.7:{port}",
        f"{name}_PORT_{port}_TCP": f"tcp://10.0.0.7:{port}",
        f"{name}_PORT_{port}_TCP_PROTO": "tcp",
        f"{name}_PORT_{port}_TCP_PORT": str(port),
        f"{name}_PORT_{port}_TCP_ADDR": "10.0.0.7",
    }


@pytest.mark.parametrize("service", ["bellwether", "bellwether-metrics", "bellwether-kafka-bootstrap"])
def test_service_links_of_kubernetes_are_no_settings(service: str) -> None:
    written = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092", "BELLWETHER_GROUPS": "orders"}
    linked = load(environ=written | links(service, 9790))
    assert linked == load(environ=written).model_copy(update={"instance_name": linked.instance_name})
    assert service_links(written | links(service, 9790)) == links(service, 9790).keys()
    assert broker_settings(None, None, None, written | links(service, 9092)).properties == {
        "bootstrap.servers": "b:9092"
    }


def test_a_variable_that_only_resembles_a_service_link_is_judged_as_before() -> None:
    with pytest.raises(SettingsError, match="BELLWETHER_METRICS_PORT is no setting"):
        load(environ={"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092", "BELLWETHER_METRICS_PORT": "9790"})


def test_the_password_of_a_registry_is_shown_nowhere(tmp_path: Path) -> None:
    rest = '[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "orders"\n'
    events = '[events]\ntopic = "e"\nregistry_url = "https://user:hush%2F4713@registry:8081"\n'
    assert from_toml(tmp_path, rest + events).events is not None
    for text in ("cannot reach https://user:hush%2F4713@registry", "401 for hush/4713"):
        assert "4713" not in without_secrets(text)
