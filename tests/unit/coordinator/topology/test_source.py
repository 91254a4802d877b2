"""A topology from a file and from the live group, what they say of each other, and internal topics that are missing."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from structlog.testing import capture_logs
from typer.testing import CliRunner

from bellwether_kafka.assignors.streams.application import InternalTopic, Subtopology, Topology
from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.membership import EXIT_CONFIG, MembershipConfig
from bellwether_kafka.coordinator.planning import ApplicationError, StreamsConfig, load_application
from bellwether_kafka.coordinator.runtime import Service, ServiceOutcome, serve
from bellwether_kafka.coordinator.settings import GroupSettings, load
from bellwether_kafka.coordinator.topology import (
    Learned,
    TopicCreationError,
    TopicDefaults,
    TopologyKeeper,
    write_topology,
)
from bellwether_kafka.coordinator.topology.changelog_search import NOTHING
from bellwether_kafka.coordinator.topology.given_topology import contradiction
from tests.kit.applications import Cluster
from tests.kit.streams import CHANGELOG, SHOP, SHOP_COUNTS, exported
from tests.unit.coordinator.topology.live_groups import keeper, shown

RETRY_S = 30.0


class Admin:
    """Creates whatever it is asked for, and remembers how. `replicas` are those of topics that exist, `default` is the
    brokers' default, None: Bellwether may not read it."""

    def __init__(self, replicas: Mapping[str, int] = NOTHING, default: int | None = 1) -> None:
        self.created: dict[str, Mapping[str, str]] = {}
        self.factors: dict[str, int] = {}
        self.replicas = dict(replicas)
        self.default = default

    def list_topics(self, timeout: float) -> Any:
        partitions = {t: {0: SimpleNamespace(replicas=[*range(n)])} for t, n in self.replicas.items()}
        return SimpleNamespace(topics={t: SimpleNamespace(partitions=of) for t, of in partitions.items()})

    def describe_cluster(self, **_: float) -> "Future[Any]":
        return answered(SimpleNamespace(nodes=[SimpleNamespace(id=1, host="b", port=9092)]))

    def describe_configs(self, resources: Any, **_: float) -> dict[Any, "Future[Any]"]:
        denied = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED))
        configs = (
            denied if self.default is None else {"default.replication.factor": SimpleNamespace(value=str(self.default))}
        )
        return {resource: answered(configs) for resource in resources}

    def create_topics(self, topics: Any, **_: float) -> dict[str, "Future[None]"]:
        self.created = {topic.topic: topic.config for topic in topics}
        self.factors = {topic.topic: topic.replication_factor for topic in topics}
        answers: dict[str, Future[None]] = {name: Future() for name in self.created}
        for answer in answers.values():
            answer.set_result(None)
        return answers


def answered(value: object) -> "Future[Any]":
    answer: Future[Any] = Future()
    if isinstance(value, Exception):
        answer.set_exception(value)
    else:
        answer.set_result(value)
    return answer


async def test_a_topology_is_learned_from_a_settled_group() -> None:
    topology_keeper = keeper()
    assert topology_keeper.topology is None
    await topology_keeper.observe(shown())
    assert topology_keeper.topology is not None
    assert topology_keeper.topology.source == "learned"
    assert topology_keeper.topology.changelogs == (CHANGELOG,)
    assert topology_keeper.learned_from_members == {"a", "b"}
    assert topology_keeper.mismatch == ""


async def test_what_cannot_be_learned_leaves_everything_as_it_was() -> None:
    topology_keeper = keeper()
    (first, second) = shown()
    await topology_keeper.observe((first, replace(second, assignment=b"")))
    assert topology_keeper.topology is None
    await topology_keeper.observe(())
    assert topology_keeper.learned_from_members == frozenset()


async def test_what_is_open_is_refreshed_again_after_a_while_and_may_be_settled() -> None:
    now, learned = [0.0], []

    async def learner(application_id: str, members: Any, *_: object) -> Learned:
        learned.append(now[0])
        return Learned(replace(SHOP, source="learned", undecided=("shop-x-changelog",)))

    topology_keeper = TopologyKeeper("shop", None, None, None, learn=learner, clock=lambda: now[0])  # type: ignore[arg-type]  # not asked
    members = shown()
    for at_s in (0.0, RETRY_S / 2, RETRY_S, RETRY_S * 1.5):
        now[0] = at_s
        await topology_keeper.observe(members)
    assert learned == [0.0, RETRY_S], "by the same members"
    topology_keeper.settle(replace(SHOP, source="learned"))
    now[0] = RETRY_S * 3
    await topology_keeper.observe(members)
    assert learned == [0.0, RETRY_S]
    assert topology_keeper.topology == replace(SHOP, source="learned")


async def test_other_members_are_learned_from_at_once() -> None:
    """A new version that came within the wait was led by the topology of the old one."""
    learned = []

    async def learner(application_id: str, members: Any, *_: object) -> Learned:
        learned.append({m.member_id for m in members})
        return Learned(replace(SHOP, source="learned", undecided=("shop-x-changelog",)))

    topology_keeper = TopologyKeeper("shop", None, None, None, learn=learner, clock=lambda: 0.0)  # type: ignore[arg-type]  # not asked
    (first, second) = shown()
    await topology_keeper.observe((first, second))
    topology_keeper.settle(replace(SHOP, source="learned"))
    await topology_keeper.observe((first, replace(second, member_id="b'")))
    assert learned == [{"a", "b"}, {"a", "b'"}]
    assert topology_keeper.learned_from_members == {"a", "b'"}


async def test_what_could_not_be_learned_is_tried_again_after_a_while() -> None:
    now = [0.0]
    topology_keeper = keeper(clock=lambda: now[0])
    (first, second) = shown()
    await topology_keeper.observe((first, replace(second, assignment=b"")))
    await topology_keeper.observe(shown())
    assert topology_keeper.topology is None
    now[0] += RETRY_S
    await topology_keeper.observe(shown())
    assert topology_keeper.topology is not None


async def test_a_file_wins_and_a_live_group_that_contradicts_it_is_reported() -> None:
    fitting = keeper(SHOP)
    with capture_logs() as logs:
        await fitting.observe(shown())
    assert (fitting.topology, fitting.mismatch) == (SHOP, "")
    assert [entry["event"] for entry in logs] == ["topology_confirmed"], "there is nothing to learn and nothing to do"
    first, second = SHOP.subtopologies
    other = Topology("shop", (first, replace(second, changelogs=("shop-sums-changelog",))), "file")
    reported = keeper(other)
    await reported.observe(shown())
    assert (
        reported.mismatch
        == f"subtopology 1 of the application has the changelog {CHANGELOG}, which the topology file lacks"
    )


def test_contradictions_name_the_subtopology_and_the_topic() -> None:
    first, second = SHOP.subtopologies
    assert contradiction(SHOP, SHOP) == ""
    assert "has a subtopology 1" in contradiction(Topology("shop", (first,), "file"), SHOP)
    more = Topology("shop", (replace(first, sources=("orders", "clicks")), second), "learned")
    assert "subtopology 0 of the application reads clicks" in contradiction(SHOP, more)
    assert contradiction(replace(SHOP, patterns=((0, "cl.*"),)), more) == ""


DESCRIBED = replace(SHOP, internal_topics=(InternalTopic(CHANGELOG, configs=(("cleanup.policy", "compact"),)),))


INTERNAL = (CHANGELOG, "shop-by-user-repartition")


def completed(topology_keeper: TopologyKeeper) -> frozenset[str] | None:
    """What it creates where only the source topic exists."""
    asked = topology_keeper.topology
    assert asked is not None
    created: frozenset[str] | None = asyncio.run(
        topology_keeper.complete(asked, asyncio.run(Cluster({"orders": 4}).snapshot(asked.topics, 0)), 1.0)
    )
    return created


def test_missing_internal_topics_are_created_with_streams_configs() -> None:
    admin = Admin()
    topology_keeper = keeper(DESCRIBED, admin)
    assert completed(topology_keeper) == {CHANGELOG, "shop-by-user-repartition"}
    assert admin.created[CHANGELOG]["cleanup.policy"] == "compact"


@pytest.mark.parametrize(
    ("asked", "orders", "default", "made"),
    [(-1, 1, 1, 1), (-1, 2, 3, 3), (3, 3, 1, 3), (3, 3, None, 3), (-1, 1, None, -1)],
    ids=["the default", "a higher default", "as set", "as set, the default hidden", "nothing to fall short of"],
)
def test_internal_topics_have_the_replicas_that_are_set_or_the_brokers_default(
    asked: int, orders: int, default: int | None, made: int
) -> None:
    admin = Admin({"orders": orders}, default)
    completed(keeper(DESCRIBED, admin, defaults=TopicDefaults(asked)))
    assert admin.factors == dict.fromkeys(INTERNAL, made)


@pytest.mark.parametrize(
    ("asked", "orders", "default", "message"),
    [
        (-1, 3, 1, 'it would have 1 replica, and topic orders of the application has 3; set "replication.factor"'),
        (2, 3, 1, "it would have 2 replicas, and topic orders of the application has 3; set"),
        (1, 1, 3, "it would have 1 replica, and the brokers' default.replication.factor is 3; set"),
        (-1, 3, None, "cannot be read; set .* or grant Bellwether's principal the ACL DESCRIBE_CONFIGS on Cluster"),
    ],
    ids=["the default is too low", "the setting is too low", "lower than the default", "nobody knows the default"],
)
def test_topics_with_fewer_replicas_than_the_application_has_are_not_created(
    asked: int, orders: int, default: int | None, message: str
) -> None:
    """Thirteen were made with one replica; when a broker went down, the application stood still."""
    admin = Admin({"orders": orders, "somebody-elses": 5}, default)
    with pytest.raises(TopicCreationError, match=message):
        completed(keeper(DESCRIBED, admin, defaults=TopicDefaults(asked)))
    assert admin.created == {}


def test_what_a_file_says_of_a_topic_wins_over_what_is_set_for_all() -> None:
    topic = InternalTopic(CHANGELOG, None, 3, (("cleanup.policy", "compact"), ("segment.bytes", "5")))
    admin = Admin()
    defaults = TopicDefaults(2, {"segment.bytes": "7", "min.insync.replicas": "2"})
    completed(keeper(replace(SHOP, internal_topics=(topic,)), admin, defaults=defaults))
    assert admin.factors == {CHANGELOG: 3, "shop-by-user-repartition": 2}
    assert admin.created[CHANGELOG]["segment.bytes"] == "5"
    assert admin.created["shop-by-user-repartition"]["segment.bytes"] == "7"
    assert {configs["min.insync.replicas"] for configs in admin.created.values()} == {"2"}


@pytest.mark.parametrize(
    ("topology", "counts"),
    [(DESCRIBED, SHOP_COUNTS), (SHOP, {"orders": 4}), (DESCRIBED, {})],
    ids=["nothing is missing", "a changelog is not described", "the source topic does not exist"],
)
async def test_otherwise_nothing_is_created(topology: Topology, counts: Mapping[str, int]) -> None:
    admin = Admin()
    topology_keeper = keeper(topology, admin)
    assert await topology_keeper.complete(topology, await Cluster(counts).snapshot(topology.topics, 0), 1.0) is None
    assert admin.created == {}


async def test_a_topic_that_may_not_be_read_is_not_taken_for_missing() -> None:
    brokers = Cluster({"orders": 4, "shop-by-user-repartition": 4})
    brokers.unreadable = frozenset({CHANGELOG})
    topology_keeper = keeper(DESCRIBED)
    assert await topology_keeper.complete(DESCRIBED, await brokers.snapshot(DESCRIBED.topics, 0), 1.0) is None


@pytest.mark.parametrize("hidden", ["orders", "shop-by-user-repartition"])
async def test_nothing_is_sized_by_a_topic_that_may_not_be_read(hidden: str) -> None:
    """It was taken to have one partition, so that the internal topics were created with one and the application died of
    them."""
    admin = Admin()
    brokers = Cluster({"orders": 4} if hidden != "orders" else {})
    brokers.unreadable = frozenset({hidden})
    with capture_logs() as lines:
        completed = keeper(DESCRIBED, admin).complete(DESCRIBED, await brokers.snapshot(DESCRIBED.topics, 0), 1.0)
        assert await completed is None
    assert admin.created == {}
    assert lines[0]["reasons"] == [f"topic {hidden} cannot be read, and sizes depend on it"]


# ---- from settings ---------------------------------------------------------------------------------------------------


def written(folder: Path, topology: Topology = SHOP) -> Path:
    file = folder / "shop.yaml"
    file.write_text(write_topology(topology))
    return file


def test_an_application_with_a_file_may_lead_an_empty_group_and_lists_its_topics(tmp_path: Path) -> None:
    application = load_application(StreamsConfig("shop", written(tmp_path)))
    assert application.topology is not None
    assert application.topology.digest == SHOP.digest
    membership = application.membership(MembershipConfig("shop", protocols=("stream",)))
    assert (membership.adopt_empty, membership.topics) == (True, SHOP.source_topics)


def test_a_file_that_cannot_lead_is_refused_with_the_words_of_topology_show(tmp_path: Path) -> None:
    """It was led with: topics were made, the application waited, and then Bellwether stepped aside."""
    file = written(tmp_path, replace(SHOP, undecided=("shop-x-changelog",)))
    config = StreamsConfig("shop", file)
    obstacle = load_application(config).obstacle
    assert obstacle == (
        f"The topology file {file} cannot be led with: move each of these from UndecidedChangelogTopics to"
        " StateChangelogTopics of its subtopology, or remove it if the application has no such store: shop-x-changelog."
    )
    shown = CliRunner().invoke(app, ["topology", "show", str(file)])
    assert obstacle.split(" led with: ")[1] in shown.stdout
    assert load_application(StreamsConfig("shop", written(tmp_path))).obstacle == ""
    assert load_application(StreamsConfig("shop")).obstacle == ""


@pytest.mark.parametrize(("mode", "code"), [("lead", EXIT_CONFIG), ("observe", 0)])
async def test_run_ends_before_it_joins_with_a_file_that_cannot_lead(
    mode: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, replace(SHOP, undecided=("shop-x-changelog",)))

    async def nothing(_: Service, *, handle_signals: bool) -> ServiceOutcome:
        return ServiceOutcome(0 if handle_signals else 1)

    monkeypatch.setattr(Service, "run", nothing)
    config = tmp_path / "bellwether.toml"
    group = f'[[groups]]\nname = "shop"\nmode = "{mode}"\nkind = "streams"\ntopology = "{file}"\n'
    config.write_text(f'http_address = ""\n[kafka]\n"bootstrap.servers" = "127.0.0.1:1"\n{group}')
    outcome = await serve(load(config), "test")
    assert (outcome.exit_code, bool(outcome.messages)) == (code, mode == "lead")


def test_an_application_without_changelogs_needs_no_word_on_its_stores(tmp_path: Path) -> None:
    """It could not be taken over: stores that it has not would have had to be restored."""
    group = GroupSettings.model_validate(
        {"name": "shop", "mode": "lead", "kind": "streams", "processing.guarantee": "at_least_once"}
    )
    stateless = replace(SHOP, subtopologies=tuple(replace(s, changelogs=()) for s in SHOP.subtopologies))
    for topology, guarded in ((SHOP, True), (stateless, False)):
        application = load_application(StreamsConfig("shop", written(tmp_path, topology)))
        config = application.membership(group.membership(None))
        assert (config.takeover_obstacle is not None) == guarded
        assert application.membership(config) == config
    eos = GroupSettings.model_validate(
        {"name": "shop", "mode": "lead", "kind": "streams", "processing.guarantee": "exactly_once_v2"}
    )
    assert application.membership(eos.membership(None)).takeover_obstacle is not None


def test_stores_in_memory_are_not_taken_for_persistent_ones(tmp_path: Path) -> None:
    """A removed leader would restore them. The exporter knows what an application has."""
    file = tmp_path / "shop.yaml"
    file.write_text(exported())
    assert load_application(StreamsConfig("shop", file)).topology is not None
    with pytest.raises(ApplicationError, match=r'"persistent", but .* in memory: totals; write stores = "in-memory"'):
        load_application(StreamsConfig("shop", file, durable=True))


def test_without_a_file_an_empty_group_is_left_to_java() -> None:
    application = load_application(StreamsConfig("shop", policy="streams-ha"))
    assert not application.membership(MembershipConfig("shop", protocols=("stream",))).adopt_empty


def test_mistakes_in_settings_are_sentences(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("x: [")
    wrong = [
        (StreamsConfig("shop", tmp_path / "nowhere.yaml"), "nowhere.yaml cannot be read"),
        (StreamsConfig("shop", bad), "bad.yaml cannot be used"),
        (StreamsConfig("other", written(tmp_path)), "is of the application 'shop', not of 'other'"),
        (StreamsConfig("shop", policy="best"), "The setting policy of group shop cannot be used"),
    ]
    for config, message in wrong:
        with pytest.raises(ApplicationError, match=message) as caught:
            load_application(config)
        assert str(caught.value).endswith(".")


def test_a_subtopology_alone_is_no_topology() -> None:
    assert contradiction(Topology("shop", (Subtopology(5, ("x",)),), "file"), SHOP) != ""
