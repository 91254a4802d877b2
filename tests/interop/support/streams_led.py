"""A Streams application and `bellwether run` as its leader: how both are set up, and who led which rebalance."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bellwether_kafka.assignors.streams.application import InternalTopic, Subtopology, Topology
from bellwether_kafka.coordinator.topology import write_topology
from tests.interop.support.bellwether import INSTANCE, Bellwether, run_to_end
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.groups import until_led, until_unrivalled
from tests.interop.support.raw import GroupMember
from tests.interop.support.rebalances import Rebalance, rebalances
from tests.interop.support.streams_app import StreamsApp
from tests.interop.support.streams_application import Application
from tests.interop.support.streams_load import Load

PARTITIONS = 4
RETURNED = "came back to its group without a rebalance"
PLAIN = (("cleanup.policy", "compact"),)
WINDOWED = (("cleanup.policy", "compact,delete"), ("retention.ms", "90000000"))


def application(cluster: KafkaCluster, name: str, **settings: Any) -> Application:
    """An application with its topics; `settings` are fields of Application."""
    partitions = settings.get("partitions", PARTITIONS)
    cluster.create_topic(f"{name}-in", partitions)
    cluster.create_topic(f"{name}-out", 1)
    common = Application(name, (f"{name}-in",), f"{name}-out", partitions, acceptable_recovery_lag=100)
    return replace(common, **settings)


def create_internal_topics(cluster: KafkaCluster, app: Application) -> None:
    """What an instance makes in the first rebalance where no setting attests its topology file, if it has the time."""
    made = {t for number, topics in app.sources.items() if number for t in topics}
    for topic in sorted(made.union(*app.changelogs.values())):
        cluster.create_topic(topic, app.partitions)


def topology_of(app: Application, *, described: bool = True) -> Topology:
    """What the application's developers would write down: its subtopologies and, where `described`, how its stores are
    kept, so that missing internal topics can be made."""
    parts = []
    for number, sources in app.sources.items():
        repartition = sources if number else ()
        sinks = () if number else tuple(t for n, topics in app.sources.items() if n for t in topics)
        external = () if app.pattern is not None and not number else sources
        parts.append(Subtopology(number, external, repartition, sinks, app.changelogs.get(number, ())))
    stores = [t for topics in app.changelogs.values() for t in topics] if described else []
    return Topology(
        app.application_id,
        tuple(parts),
        "file",
        internal_topics=tuple(InternalTopic(t, configs=WINDOWED if "windowed" in t else PLAIN) for t in stores),
        patterns=((0, app.pattern),) if app.pattern is not None else (),
    )


def settings_of(app: Application, folder: Path, *, described: bool = True, **options: Any) -> dict[str, Any]:
    """Bellwether's settings of the group, its topology file written; `options` win, and one of None is left out."""
    file = folder / f"{app.application_id}.yaml"
    file.write_text(write_topology(topology_of(app, described=described)))
    reported = {
        "kind": "streams",
        "topology": str(file),
        "topology_attested": True,
        "session_timeout_ms": 6_000,
        "processing.guarantee": app.guarantee,
        "acceptable.recovery.lag": app.acceptable_recovery_lag,
        "max.warmup.replicas": app.warmups,
        "num.standby.replicas": app.standbys,
        "probing.rebalance.interval.ms": app.probing_interval_ms,
        "rack.aware.assignment.strategy": app.rack_strategy,
        **options,
    }
    return {name: value for name, value in reported.items() if value is not None}


@contextmanager
def led(
    cluster: KafkaCluster,
    app: Application,
    folder: Path,
    *,
    described: bool = True,
    control_topic: str = "",
    events: str = "",
    **options: Any,
) -> Iterator[Bellwether]:
    """Bellwether as leader of the application, from the beginning unless `adopt` says otherwise; with `control_topic`
    as one of several processes of which one leads. `events`: a topic that it records its rebalances in."""
    reported = settings_of(app, folder, described=described, **options)
    control = {"control_topic": control_topic, "standby": True} if control_topic else {}
    recording = {"events": {"topic": events}} if events else {}
    with Bellwether(cluster, [app.application_id], options=reported, **control, **recording) as process:
        yield process


def app_without_members_in_the_way(cluster: KafkaCluster, app: StreamsApp) -> None:
    """`until_unrivalled` of an application, whose tasks are settled then."""
    group = app.application.application_id
    until_unrivalled(cluster, group, lambda: app.wait_settled(spread=1), _restarting(app))


def until_app_is_led(
    cluster: KafkaCluster,
    app: StreamsApp,
    lead: Bellwether,
    limit_s: float = 60.0,
    led: Callable[[], bool] | None = None,
) -> None:
    """`until_led` of an application."""
    until_led(cluster, app.application.application_id, lead, _restarting(app), limit_s, led)


def _restarting(app: StreamsApp) -> Callable[[GroupMember], None]:
    """Restarts any instance: with two, the next turn restarts the other one."""
    instances = itertools.cycle(app.instances)

    def restart(_: GroupMember) -> None:
        name = next(instances)
        assert app.instances[name].stop() == 0, app.send()
        app.start(name, settings=dict(app.application.settings))

    return restart


@contextmanager
def sending(lead: Bellwether, app: StreamsApp) -> Iterator[None]:
    """What Bellwether and the instances said, with whatever fails inside."""
    try:
        yield
    except AssertionError as error:
        message = lead.log_of(app.application.application_id, 60)
        raise AssertionError(f"{error}\nbellwether:\n{message}\ninstances:\n{app.send()}") from error


@contextmanager
def following(
    cluster: KafkaCluster, app: Application, folder: Path, control_topic: str, keys: int = 100
) -> Iterator[tuple[Bellwether, StreamsApp, Load]]:
    """Bellwether, with a policy that carries out orders; the application's instances, none yet; a load for them."""
    with (
        led(cluster, app, folder, control_topic=control_topic, policy="streams-ha") as lead,
        StreamsApp(cluster, app) as instances,
        Load(cluster, app.topics[0], keys=keys) as load,
        sending(lead, instances),
    ):
        yield lead, instances, load


def strangers(cluster: KafkaCluster, group: str) -> list[Rebalance]:
    """The rebalances of a group that another member led."""
    return [r for r in rebalances(cluster, group) if not r.leader.startswith(INSTANCE)]


def decided_again(cluster: KafkaCluster, events: str, folder: Path) -> list[dict[str, Any]]:
    """What `bellwether debug replay` says of each rebalance that is recorded in this topic by now."""
    file = folder / "history"
    copied = run_to_end(
        ["debug", "history", "--bootstrap", cluster.bootstrap, "--events-topic", events, "--file", str(file)]
    )
    assert copied.code == 0, copied.text
    replayed = run_to_end(["debug", "replay", str(file), "--output", "json"])
    assert replayed.code in (0, 4), replayed.text
    replays: list[dict[str, Any]] = json.loads(replayed.stdout)
    assert replayed.code == (0 if all(replay["same"] for replay in replays) else 4), replayed.text
    return replays


def generation_of(cluster: KafkaCluster, group: str) -> int:
    """The newest generation whose leader delivered a plan."""
    return rebalances(cluster, group)[-1].generation


def led_by_java(cluster: KafkaCluster, group: str, generation: int) -> bool:
    """A rebalance after this generation has ended, with a member of the application as its leader."""
    return any(r.generation > generation for r in strangers(cluster, group))


def failures(app: StreamsApp) -> list[str]:
    """What killed a thread of any instance."""
    return [error for instance in app.instances.values() for error in instance.errors]
