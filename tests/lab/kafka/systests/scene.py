"""What a scenario acts on: brokers, the instances of the application, load, and who leads."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from confluent_kafka.admin import NewTopic

from tests.interop.support.bellwether import INSTANCE, Bellwether
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import SYSTEM_TESTS, Release, java
from tests.interop.support.rebalances import Rebalance, rebalances
from tests.lab.kafka.systests.programs import FailedError, Program
from tests.lab.kafka.systests.topologies import topology_file

TESTS = "org.apache.kafka.streams.tests"
TOOLS = "org.apache.kafka.tools"
JVM = (
    "-Xmx320m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.consumer.ConsumerConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.producer.ProducerConfig=warn",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.admin.AdminClientConfig=warn",
)
RUNNING = "State transition from REBALANCING to RUNNING"
# What all services of Kafka's tests set: assignments in one step, and sessions of ten seconds.
ONE_STEP = {"acceptable.recovery.lag": "9223372036854775807"}
SHORT_SESSIONS = {"session.timeout.ms": "10000"}


@dataclass(frozen=True, slots=True)
class Application:
    """A program of the system tests that is an instance of a Streams application.

    `properties` are in the file that it is given, `arguments` come after that file. With `bare` there is no file: the
    arguments are all, where `{bootstrap}`, `{name}` and `{state}` stand for what they say. `settings` are Bellwether's
    of the group, as the program has them. `java_policy` is what the leader "kafka" follows: what Java would do with the
    assignor that the program sets."""

    application_id: str
    main_class: str
    properties: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    bare: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    java_policy: str = "kafka"
    debug: Sequence[str] = ()
    release: Release = SYSTEM_TESTS


@dataclass(slots=True)
class Scene:
    """One run of a scenario. `leader` is "java" or a policy of Bellwether. `made` has the topology files that earlier
    runs of the scenario made, and how they came to be, by application."""

    cluster: KafkaCluster
    leader: str
    folder: Path
    deadline: float
    made: dict[str, tuple[str, str]] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _programs: list[Program] = field(default_factory=list)
    _topics: list[NewTopic] = field(default_factory=list)
    _files: dict[str, Path] = field(default_factory=dict)
    _dry_run_for: set[Rebalance] = field(default_factory=set)
    bellwether: Bellwether | None = None
    group: str = ""
    described: str = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs:
            if program.running:
                program.kill()
        self._stack.close()

    @property
    def own(self) -> bool:
        return self.leader != "java"

    def topics(self, partitions: Mapping[str, int], *, replicas: int = 1, **configs: str) -> None:
        self._topics += [
            NewTopic(name, num_partitions=count, replication_factor=replicas, config=dict(configs))
            for name, count in partitions.items()
        ]
        self._create_topics()

    def renew_topics(self) -> None:
        """Empties the topics of the scenario: they are deleted and made again."""
        for future in self.cluster.admin.delete_topics([topic.topic for topic in self._topics]).values():
            future.result(timeout=60)
        self._create_topics()

    def _create_topics(self) -> None:
        for future in self.cluster.admin.create_topics(self._topics).values():
            future.result(timeout=60)
        for topic in self._topics:
            self.cluster.wait_for_topic(topic.topic, topic.num_partitions)

    def instance(self, app: Application, name: str, **properties: str) -> Program:
        """An instance, not yet started. It keeps its state over restarts; `properties` are added to those of `app`."""
        home = self.folder / name
        home.mkdir(parents=True, exist_ok=True)
        state = str(home / "state")
        if app.bare:
            reported = {"bootstrap": self.cluster.bootstrap, "name": name, "state": state}
            arguments = [argument.format(**reported) for argument in app.arguments]
        else:
            file = home / f"{len(self._programs)}.properties"
            write_properties(
                file, {"bootstrap.servers": self.cluster.bootstrap, "state.dir": state, **app.properties, **properties}
            )
            arguments = [str(file), *app.arguments]
        debug = [f"-Dorg.slf4j.simpleLogger.log.{logger}=debug" for logger in app.debug]
        return self.program(name, app.main_class, *arguments, options=debug, release=app.release)

    def program(
        self, name: str, main_class: str, *arguments: str, options: Sequence[str] = (), release: Release = SYSTEM_TESTS
    ) -> Program:
        command = java(release).command(main_class, *arguments, options=(*JVM, *options))
        made = Program(name, command, self.folder / name, self.deadline)
        self._programs.append(made)
        return made

    def lead(self, app: Application, **options: Any) -> None:
        """Lets the leader of this run lead the application from its first start, with the topology file that a user
        gets from Bellwether, as it is. Java needs nothing."""
        self.prepare(app)
        if not self.own:
            return
        file = self._files[repr(app)]
        reported = {
            "kind": "streams",
            "policy": app.java_policy if self.leader == "kafka" else self.leader,
            "topology": str(file),
            "topology_attested": True,
            "stores": "persistent",
            "session_timeout_ms": 6_000,
            **own_of(app.properties),
            **app.settings,
            **options,
        }
        self.bellwether = Bellwether(self.cluster, [app.application_id], options=reported)
        self._stack.enter_context(self.bellwether)

    def prepare(self, app: Application) -> None:
        """Gets the topology file beforehand, where more than one version of an application is led in a scenario."""
        self.group = app.application_id
        if not self.own or repr(app) in self._files:
            return
        number = len(self._files)
        if repr(app) not in self.made:
            file, how = topology_file(self, app, number)
            self.made[repr(app)] = file.read_text(encoding="utf-8"), how
        text, self.described = self.made[repr(app)]
        self._files[repr(app)] = self.folder / f"topology-{number}.yaml"
        self._files[repr(app)].write_text(text, encoding="utf-8")

    def stop_leading(self) -> None:
        """Ends Bellwether, where it leads."""
        if self.bellwether is not None:
            self.bellwether.stop()

    def produce(self, topic: str, *, throughput: int = 1000, **options: str) -> Program:
        """Kafka's verifiable producer, started. `options` are its options, with underscores."""
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
        name = f"producer-{len(self._programs)}"
        made = self.program(
            name,
            f"{TOOLS}.VerifiableProducer",
            *("--bootstrap-server", self.cluster.bootstrap, "--topic", topic, "--throughput", str(throughput)),
            *words,
        )
        made.start()
        return made

    def produced(self, topic: str, messages: int, limit_s: float = 60.0, **options: str) -> None:
        """Sends so many messages and waits until all are acknowledged. Raises FailedError."""
        producer = self.produce(topic, throughput=1000, max_messages=str(messages), **options)
        producer.wait_for_end(limit_s)
        acked = producer.count('"name":"producer_send_success"')
        if acked < messages:
            raise FailedError(f"only {acked} of {messages} messages to {topic} were acknowledged:\n{producer.tail()}")

    def consumed(self, topic: str, messages: int, limit_s: float = 60.0) -> None:
        """Reads a topic with a new group until there are so many records. Raises FailedError."""
        name = f"consumer-{len(self._programs)}"
        consumer = self.program(
            name,
            f"{TOOLS}.VerifiableConsumer",
            *("--bootstrap-server", self.cluster.bootstrap, "--topic", topic, "--group-id", name),
            *("--max-messages", str(messages), "--reset-policy", "earliest"),
        )
        consumer.start()
        consumer.wait_for_end(limit_s)

    def rebalances(self) -> list[Rebalance]:
        """The rebalances in which the application took part; those of Bellwether alone and of dry runs are not."""
        completed = rebalances(self.cluster, self.group)
        return [
            rebalance
            for rebalance in completed
            if rebalance not in self._dry_run_for and (rebalance.members > 1 or not own(rebalance))
        ]

    @contextmanager
    def rehearsing(self) -> Iterator[None]:
        """What happens inside is no part of the scenario."""
        before = set(rebalances(self.cluster, self.group))
        yield
        self._dry_run_for |= set(rebalances(self.cluster, self.group)) - before

    def check_lead(self) -> None:
        """That Bellwether led the first start. Raises FailedError."""
        completed = self.rebalances()
        if self.own and self.group and completed and not own(completed[0]):
            assert self.bellwether is not None
            raise FailedError(f"{completed[0].leader} led the first start:\n{self.bellwether.log_of(self.group)}")

    def reported(self) -> str:
        """What everybody said last, for a report of a failure."""
        message = [f"{program.name}:\n{program.tail(8)}" for program in self._programs]
        return "\n".join([*message, *([self.bellwether.log_of(self.group, 25)] if self.bellwether else [])])

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, max(0.0, self.deadline - time.monotonic())))


def own(rebalance: Rebalance) -> bool:
    return rebalance.leader.startswith(INSTANCE)


SHARED = re.compile(
    r"acceptable\.recovery\.lag|num\.standby\.replicas|replication\.factor|processing\.guarantee|max\.warmup\.replicas"
    r"|probing\.rebalance\.interval\.ms"
)


def own_of(properties: Mapping[str, str]) -> dict[str, str | int]:
    """Settings of the group that must be the application's own."""
    shared = {name: value for name, value in properties.items() if SHARED.fullmatch(name)}
    return {name: int(value) if value.lstrip("-").isdigit() else value for name, value in shared.items()}


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
