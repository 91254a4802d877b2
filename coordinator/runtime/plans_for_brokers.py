"""Creates the server of plans for brokers from the settings, with its sources and the observers of its plans."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import Rule, Weights
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.kafka import client, wire
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.observation import Observation, notify
from bellwether_kafka.coordinator.planning import StreamsConfig
from bellwether_kafka.coordinator.runtime.asking import Asking, ServedGroup
from bellwether_kafka.coordinator.runtime.observers import DecisionObserver
from bellwether_kafka.coordinator.serving import (
    RETRY_S,
    Answers,
    AssignorServer,
    BrokerRebalances,
    KnownApplication,
    KnownGroups,
    KnownMember,
    Served,
    TopicNames,
)
from bellwether_kafka.coordinator.telemetry import ServedMetrics, decision_fields

NAMES_INTERVAL_S = 1.0
TOPICS_AT_ONCE = 1_000
FAILED_AGAIN_S = 30.0
TIMEOUT_MS = 5_000
REFUSED_AGAIN_S = 60.0  # a broker of another version asks twice a second
REFUSALS_MAX = 1_000

log = structlog.get_logger(__name__)


class PlansForBrokers:
    """The server and its sources. Everything but `answer` belongs to the event loop in which `start` was called.
    `policy_of` returns the configured policy of an observed group, `application_of` its configuration as an
    application. Without an address nothing is served. `on_decision` receives plans for known groups. `rules_of` is
    called on the threads of connections. `retry_s`: when a rebalance is tried again that could not be begun, in seconds
    after each failure."""

    def __init__(
        self,
        address: str,
        policy_of: Callable[[str], Policy | None],
        registry: CollectorRegistry,
        on_decision: DecisionObserver,
        *,
        weights: Callable[[str], Weights] | None = None,
        rules_of: Callable[[str], tuple[Rule, ...] | None] | None = None,
        application_of: Callable[[str], StreamsConfig | None] | None = None,
        racks_configured: bool = False,
        retry_s: Sequence[float] = RETRY_S,
    ) -> None:
        self._groups, self._topics, self._asking = KnownGroups(), TopicNames(), Asking()
        self._rules_of, self._weights = rules_of, weights
        self._applications: dict[str, KnownApplication] = {}
        self._protocols: dict[str, wire.BrokerProtocol] = {}
        self._not_asking: dict[str, float] = {}  # groups with another assignor, and when each was last observed
        self._rebalances = BrokerRebalances(self._groups.has_members, retry_s)
        self._metrics = ServedMetrics(registry)
        self._on_decision = on_decision
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refusal_logged_at: dict[tuple[str, str, str], float] = {}
        self._answers = Answers(
            self._groups,
            self._topics,
            policy_of,
            self._served,
            weights=weights,
            rules_of=rules_of,
            application_of=application_of,
            observed=self._applications.get,
            racks_configured=racks_configured,
        )
        self._server = AssignorServer(address, self._answers.answer) if address else None

    @property
    def observers(self) -> tuple[object, ...]:
        """The observers that keep the server's sources up to date."""
        return () if self._server is None else (self,)

    async def start(self) -> None:
        """Starts the server. Raises AssignorAddressError."""
        if self._server is None:
            return
        self._loop = asyncio.get_running_loop()
        address = await asyncio.to_thread(self._server.start)
        log.info("plans_for_brokers", address=address)

    async def stop(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)

    def on_observation(self, seen: Observation) -> None:
        """Records the members and topics of a group whose broker assigns; one that was converted back is forgotten."""
        if seen.kind not in ("consumer", "streams"):
            self.on_gone(seen.group_id)
            return
        self._protocols[seen.group_id] = seen.kind
        plan = None if seen.shadow is None else seen.shadow.decision.plan
        members = {m.member_id: KnownMember(m.client_id, m.rack, m.leader_only) for m in seen.members}
        self._groups.see(seen.group_id, members, None if plan is None else plan.cluster)
        if seen.kind == "consumer":
            self._topics.expect({topic for member in seen.members for topic in member.topics})
        elif isinstance(plan, TaskPlan):
            self._applications[seen.group_id] = KnownApplication(plan.topology, plan.cluster)
        self._forget_plans(seen)
        self._ask(seen.group_id, seen=seen)

    def _forget_plans(self, seen: Observation) -> None:
        """Forgets the plans of a group whose broker assigns with another assignor now. A plan that is newer than the
        observation before this one may have been made after the broker described the group."""
        if not seen.assignor or seen.asks_bellwether:
            self._not_asking.pop(seen.group_id, None)
            return
        self._answers.forget(seen.group_id, self._not_asking.get(seen.group_id, float("-inf")))
        self._not_asking[seen.group_id] = clocks.monotonic()

    def _ask(self, group: str, **known: Any) -> None:
        """Has the broker ask again where what is known of the group is a reason to."""
        group_now = ServedGroup(
            rules=() if self._rules_of is None else self._rules_of(group),
            newest=self._answers.newest(group),
            weights=None if self._weights is None else partial(self._weights, group),
            **known,
        )
        if cause := self._asking.step(group, group_now, clocks.monotonic()):
            self.begin_rebalance(group, cause)

    # ---- orders, from the controller ---------------------------------------------------------------------------------

    def policies(self) -> dict[str, str]:
        return self._answers.policies()

    def compare(self, group: str, *, first: bool, ended: Mapping[str, str]) -> None:
        """Has the broker ask again where its newest plan does not follow the orders in force, or lacks something."""
        self._ask(group, by_orders=True, first=first, ended=ended, lacked=self._answers.lacked(group))

    def begin_rebalance(self, group: str, cause: str) -> None:
        """Has the broker of the group compute its assignment anew."""
        self._rebalances.begin(group, self._protocols.get(group, "consumer"), cause)

    # ---- what is observed --------------------------------------------------------------------------------------------

    def on_gone(self, group: str) -> None:
        self._groups.forget(group)
        self._applications.pop(group, None)
        self._protocols.pop(group, None)
        self._not_asking.pop(group, None)
        self._rebalances.forget(group)
        self._answers.forget(group)
        self._asking.forget(group)

    async def beside(self, _: client.OffsetReader, transport: wire.Transport, admin: AdminClient) -> None:
        """Reads the names of topics that brokers identified by id. Runs until cancelled."""
        self._rebalances.transport = transport
        while True:
            await asyncio.sleep(NAMES_INTERVAL_S)
            ids, names = self._topics.take_missing()
            if not ids and not names:
                continue
            try:
                node = await asyncio.to_thread(client.any_node, admin, TIMEOUT_MS / 1000)
                asked = wire.TopicIds(node, ids[:TOPICS_AT_ONCE], names[:TOPICS_AT_ONCE], TIMEOUT_MS)
                self._topics.learn(await transport.ask(asked))
                self._topics.of(ids[TOPICS_AT_ONCE:])  # notes them as missing again
            except (KafkaException, TimeoutError, wire.TransportError) as error:
                log.warning("topic_names_unread", reason=str(error))
                self._topics.of(ids)
                await asyncio.sleep(FAILED_AGAIN_S)

    def _served(self, served: Served) -> None:
        """Passes the result to the event loop. Called on the thread of a connection."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._report, served)

    def _report(self, served: Served) -> None:
        self._metrics.on_served(served)
        planned = served.planned
        if planned is None:
            self._log_refusal(served, clocks.monotonic())
            return
        decision = planned.decision
        log.info(
            "plan_late" if served.late else "plan_served",
            assignor=served.assignor,
            group=served.group,
            topics=listed(planned.topics.subscribed),
            policy=decision.policy,
            **({} if served.group else {"unknown": "no observed group has these members yet"}),
            cause=planned.cause.sentence,
            **decision_fields(decision),
            plan_ms=round(served.took_s * 1000, 1),
            warnings=list(decision.warnings),
        )
        if not served.group:
            return
        if not served.late:
            notify(self._on_decision, planned)
        else:
            self._ask(served.group, late=True)  # a consumer that joined has nothing until then

    def _log_refusal(self, served: Served, now: float) -> None:
        """Logs why there was no plan, the same reason once in REFUSED_AGAIN_S."""
        key = served.assignor, served.group, served.refusal
        if now < self._refusal_logged_at.get(key, float("-inf")) + REFUSED_AGAIN_S:
            return
        if len(self._refusal_logged_at) >= REFUSALS_MAX:
            self._refusal_logged_at.clear()
        self._refusal_logged_at[key] = now
        log.warning("plan_refused", assignor=served.assignor, group=served.group, reason=served.refusal)
