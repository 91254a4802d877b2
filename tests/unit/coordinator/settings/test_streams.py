"""Settings of Streams applications: Kafka's names, defaults and bounds, and sentences for what cannot be."""

from pathlib import Path

import pytest

from bellwether_kafka.assignors.streams.application import AssignmentConfigs
from bellwether_kafka.assignors.streams.stages import StageConfigs
from bellwether_kafka.coordinator.settings import GroupSettings, SettingsError, load

ENVIRONMENT = {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": "b:9092"}
HEAD = '[[groups]]\nname = "app"\nkind = "streams"\n'
HA = HEAD + 'policy = "streams-ha"\n'


def group(folder: Path, text: str) -> GroupSettings:
    file = folder / "bellwether.toml"
    file.write_text(text)
    (only,) = load(file, environ=ENVIRONMENT).groups
    return only


def test_the_least_application_has_kafkas_defaults(tmp_path: Path) -> None:
    configured = group(tmp_path, HEAD)
    streams = configured.streams
    assert streams is not None
    assert (streams.application_id, streams.topology, streams.topology_attested) == ("app", None, False)
    assert streams.configs == AssignmentConfigs()
    assert not streams.exactly_once
    assert configured.membership("bw").protocols == ("stream",)
    assert configured.membership("bw").heartbeat_interval_ms == 250
    assert configured.membership("bw").streams


def test_kafkas_names_may_have_quotes_or_not(tmp_path: Path) -> None:
    text = """
        topology = "wordcount.yaml"
        topology_attested = true
        policy = "streams-ha"
        processing.guarantee = "exactly_once_v2"
        "acceptable.recovery.lag" = 5
        max.warmup.replicas = 3
        num.standby.replicas = 1
        "probing.rebalance.interval.ms" = 60000
        rack.aware.assignment.strategy = "min_traffic"
        "rack.aware.assignment.tags" = "zone, cluster"
        "rack.aware.assignment.traffic_cost" = 7
        rack.aware.assignment.non_overlap_cost = 2
        """
    streams = group(tmp_path, HEAD + text).streams
    assert streams is not None
    assert (streams.application_id, streams.topology, streams.topology_attested, streams.policy) == (
        "app",
        tmp_path / "wordcount.yaml",
        True,
        "streams-ha",
    )
    assert streams.exactly_once
    assert streams.configs == AssignmentConfigs(5, 3, 1, 60_000, ("zone", "cluster"), 7, 2, "min_traffic")


@pytest.mark.parametrize("given", ["topologies/app.yaml", "../app.yaml", "/etc/app.yaml"])
def test_a_topology_file_is_searched_beside_the_configuration_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Not in the folder in which the process was started."""
    monkeypatch.chdir("/")
    streams = group(tmp_path, f'{HEAD}topology = "{given}"\n').streams
    assert streams is not None
    assert streams.topology == tmp_path / given


def test_a_topology_file_that_the_environment_names_is_relative_to_the_process() -> None:
    groups = '[{"name": "app", "kind": "streams", "topology": "app.yaml"}]'
    (configured,) = load(environ={**ENVIRONMENT, "BELLWETHER_GROUPS": groups}).groups
    assert configured.streams is not None
    assert configured.streams.topology == Path("app.yaml")


def test_what_the_application_sets_for_internal_topics_is_reported_by_kafkas_names(tmp_path: Path) -> None:
    text = 'replication.factor = 3\n"topic.segment.bytes" = 1048576\ntopic.min.insync.replicas = "2"\n'
    streams = group(tmp_path, HEAD + text + "topic.preallocate = true").streams
    assert streams is not None
    assert streams.replication_factor == 3
    configs = {"segment.bytes": "1048576", "min.insync.replicas": "2", "preallocate": "true"}
    assert dict(streams.topic_configs) == configs
    streams = group(tmp_path, HEAD).streams
    assert streams is not None
    assert (streams.replication_factor, streams.topic_configs) == (-1, ())


def test_stages_of_streams_ha_are_off_unless_set(tmp_path: Path) -> None:
    streams = group(tmp_path, HA).streams
    assert streams is not None
    assert streams.stages == StageConfigs()
    text = 'host_affinity_ms = 1000\ncolocate = [[0, 2], [1, 3]]\ncapacity_tag = "cores"\nmax_concurrent_moves = 4'
    streams = group(tmp_path, HA + text).streams
    assert streams is not None
    assert streams.stages == StageConfigs(
        host_affinity_ms=1000, colocate=((0, 2), (1, 3)), capacity_tag="cores", max_concurrent_moves=4
    )


def test_a_group_of_consumers_has_no_application(tmp_path: Path) -> None:
    configured = group(tmp_path, '[[groups]]\nname = "orders"\n')
    assert configured.streams is None
    assert not configured.membership("bw").streams


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "num.standby.replicas = -1", "num.standby.replicas must be at least 0, but it is -1"),
        (HEAD + 'num.standby.replicas = "x"', "groups[0].num.standby.replicas cannot be used"),
        (HEAD + "num.standby.replica = 1", "perhaps num.standby.replicas is meant"),
        (HEAD + "probing.rebalance.interval.ms = 1", "probing.rebalance.interval.ms must be at least 60000"),
        (HEAD + 'rack.aware.assignment.strategy = "fast"', "must be one of none, min_traffic, balance_subtopology"),
        (HEAD + "replication.factor = 0", "replication.factor must be at least 1, or -1"),
        ('[[groups]]\nname = "a"\ntopic.segment.bytes = 1', "topic is for Streams applications only"),
        (
            HEAD + 'mode = "lead"\nsession_timeout_ms = 45000',
            "session_timeout_ms must be 6000 to 10000 for a Streams application",
        ),
        (HEAD + 'protocols = ["range"]', 'protocols must be ["stream"]'),
        (HEAD + 'processing.guarantee = "exactly_once"', "processing.guarantee cannot be used"),
        ('[[groups]]\nname = "a"\nkind = "stream"', "groups[0].kind cannot be used"),
        ('[[groups]]\nname = "a"\nnum.standby.replicas = 1', "num.standby.replicas is for Streams applications only"),
        (HEAD + "max_concurrent_moves = 2", 'max_concurrent_moves is a stage of the policy "streams-ha"; set policy ='),
        (HA + "max_concurrent_moves = -2", "max_concurrent_moves must be 0 to 2147483647, but it is -2"),
        (HA + "colocate = [[1]]", "colocate must hold groups of two or more subtopology ids"),
        (HA + 'colocate = [[1, "x"]]', "groups[0].colocate[0][1] cannot be used"),
        ('[[groups]]\nname = "a"\ncapacity_tag = "x"', "capacity_tag is for Streams applications only"),
        ('[[groups]]\nname = "a"\ntopology = "x"', 'topology is for Streams applications only; add kind = "streams"'),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        group(tmp_path, text)
    assert message in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ('stores = "persistent"', "processing.guarantee is not declared"),
        ('"processing.guarantee" = "at_least_once"', 'stores = "persistent" is not declared'),
        ('"processing.guarantee" = "at_least_once"\nstores = "in-memory"', 'stores = "persistent" is not declared'),
        ('"processing.guarantee" = "exactly_once_v2"\nstores = "persistent"', "exactly_once_v2"),
        ('"processing.guarantee" = "at_least_once"\nstores = "persistent"', ""),
        ("takeover_forced = true", ""),
    ],
)
def test_a_leader_is_removed_only_where_that_is_declared_harmless(tmp_path: Path, more: str, word: str) -> None:
    configured = group(tmp_path, f'{HEAD}mode = "lead"\nadopt = "take-over"\n{more}\n')
    guard = configured.membership(None).takeover_obstacle
    assert word in (guard.sentence if guard is not None else "")
    assert bool(word) == (guard is not None)


STATEFUL = '[[groups]]\nname = "counts"\nkind = "stateful"\n'


def test_stateful_members_have_the_policy_streams_ha_and_weigh_by_capacity(tmp_path: Path) -> None:
    configured = group(tmp_path, STATEFUL + "num.standby.replicas = 1\nmax_concurrent_moves = 2")
    streams = configured.streams
    assert streams is not None
    assert (streams.stateful, streams.policy, streams.application_id) == (True, "streams-ha", "counts")
    assert streams.stages == StageConfigs(capacity_tag="capacity", max_concurrent_moves=2)
    assert configured.membership("bw").protocols == ("bellwether-stateful",)
    assert not configured.membership("bw").streams
    streams = group(tmp_path, STATEFUL + 'policy = "kafka"').streams
    assert streams is not None
    assert streams.stages == StageConfigs()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topology_attested = true", "topology_attested has no effect on stateful members"),
        ('processing.guarantee = "exactly_once_v2"', "processing.guarantee has no effect on stateful members"),
        ("standby_lag_max = 5", "standby_lag_max has no effect on stateful members"),
        ('protocols = ["range"]', 'protocols must be ["bellwether-stateful"] for stateful members'),
        ("max.warmup.replicas = 0", "max.warmup.replicas must be at least 1"),
    ],
)
def test_a_mistake_with_stateful_members_is_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        group(tmp_path, STATEFUL + text)
    assert message in str(caught.value)


@pytest.mark.parametrize("older", ["exactly_once", "exactly_once_beta"])
def test_an_older_name_of_a_value_says_what_to_write(older: str, tmp_path: Path) -> None:
    """at_least_once was offered as its equal."""
    config = tmp_path / "b.toml"
    config.write_text(
        f'[kafka]\n"bootstrap.servers" = "b:9092"\n[[groups]]\nname = "g"\nmode = "lead"\nkind = "streams"\n'
        f'"processing.guarantee" = "{older}"\n'
    )
    with pytest.raises(SettingsError) as raised:
        load(config, environ=ENVIRONMENT)
    assert f'write "exactly_once_v2", which is what {older} means' in str(raised.value)
    assert "at_least_once" not in str(raised.value)


OF_A_CLASS = 'write "exactly_once_v2"'


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ('"processing.guarantee" = "EXACTLY_ONCE"', 'write "exactly_once_v2", which is what exactly_once means'),
        ('"processing.guarantee" = "StreamsConfig.EXACTLY_ONCE_BETA"', OF_A_CLASS),
        ('"processing.guarantee" = "EXACTLY_ONCE_V2"', OF_A_CLASS),
        ('"processing.guarantee" = "exactly-once-v2"', OF_A_CLASS),
        ('"PROCESSING_GUARANTEE_CONFIG" = "x"', "perhaps processing.guarantee is meant"),
        ("NUM_STANDBY_REPLICAS = 1", "perhaps num.standby.replicas is meant"),
        ('"StreamsConfig.NUM_STANDBY_REPLICAS_CONFIG" = 1', "perhaps num.standby.replicas is meant"),
        ('"partition.assignment.strategy" = "x"', "the names that they may use are in protocols"),
        ('"group.instance.id" = "x"', "instance_id is that of Bellwether, which must be another one"),
        ("capacity = { a = 2.0 }", "capacity is for plain consumers"),
    ],
)
def test_what_is_copied_from_java_code_says_what_to_write(tmp_path: Path, written: str, sentence: str) -> None:
    """All 66 settings were listed, at_least_once was offered as an equal, and strategies of tasks in place of names."""
    with pytest.raises(SettingsError) as raised:
        group(tmp_path, f'[[groups]]\nname = "g"\nkind = "streams"\n{written}\n')
    assert sentence in str(raised.value)
    assert "at_least_once" not in str(raised.value)
