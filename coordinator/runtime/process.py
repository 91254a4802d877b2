"""The process behind `bellwether run`: creates the service, its observers and the HTTP server from the settings."""

import asyncio
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Policy
from bellwether_kafka.assignors.shared import UnknownNameError, Weights
from bellwether_kafka.coordinator.ghosts import ConversionWatch
from bellwether_kafka.coordinator.membership import EXIT_CONFIG
from bellwether_kafka.coordinator.observation import Group, Kept, LagTrends, Rhythms
from bellwether_kafka.coordinator.planning import ApplicationError, RackFileError, StreamsConfig, warm_up_soon
from bellwether_kafka.coordinator.runtime.events_out import EventsOut, weight_reader
from bellwether_kafka.coordinator.runtime.group_weights import GroupWeights
from bellwether_kafka.coordinator.runtime.groups_now import in_words, kept_out, not_ready, present_of, rows, statuses
from bellwether_kafka.coordinator.runtime.led_groups import GroupsConfig
from bellwether_kafka.coordinator.runtime.loop_watch import LoopWatch, in_background
from bellwether_kafka.coordinator.runtime.observers import Observers
from bellwether_kafka.coordinator.runtime.outside import Outside
from bellwether_kafka.coordinator.runtime.plans_for_brokers import PlansForBrokers
from bellwether_kafka.coordinator.runtime.reload import Reload, SettingsFile
from bellwether_kafka.coordinator.runtime.role_reports import log_role
from bellwether_kafka.coordinator.runtime.selection import ConfiguredSelection
from bellwether_kafka.coordinator.runtime.service import Service, ServiceOutcome
from bellwether_kafka.coordinator.serving import AssignorAddressError
from bellwether_kafka.coordinator.settings import GroupSettings, Settings, applications_of, policies_of
from bellwether_kafka.coordinator.telemetry import (
    ControlMetrics,
    CostMetrics,
    LagExporterMetrics,
    LagMetrics,
    Metrics,
    ObservedMetrics,
    PauseMetrics,
    StreamsMetrics,
    log_decision,
)
from bellwether_kafka.coordinator.web import (
    HttpAddressError,
    LagWatch,
    LedRebalances,
    Present,
    Web,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """What observes a process for metrics and the page, and what plans weigh. `weights` are those of the topic of
    weights, None without one."""

    metrics: Metrics
    rebalances: LedRebalances
    rhythms: Rhythms
    trends: LagTrends
    of_lags: tuple[LagMetrics | LagExporterMetrics, ...]
    lags: LagWatch
    weights: Callable[[], Weights] | None
    group_weights: GroupWeights

    @classmethod
    def of(
        cls, settings: Settings, version: str, outside: Outside, weights: Callable[[], Weights] | None
    ) -> "Instruments":
        metrics, rebalances, trends = Metrics(), LedRebalances(), LagTrends()
        metrics.info.info({"version": version})
        for group in settings.named:
            metrics.expect(group.name, lead=group.mode == "lead", ghosts=group.ghost_options is not None)
        rhythms = Rhythms(outside.state_file("rhythms", settings.properties.get("bootstrap.servers", "")))
        exporter = _exporter(settings, metrics)
        of_lags: tuple[LagMetrics | LagExporterMetrics, ...] = (LagMetrics(metrics),)
        if exporter is not None:
            of_lags += (exporter,)
        weighed = [group.name for group in settings.named if group.policy == LOAD_AWARE and weights is None]
        lags = LagWatch(rebalances, [each.on_lag for each in (*of_lags, trends)], rhythms=rhythms, weighed=weighed)
        return cls(
            metrics=metrics,
            rebalances=rebalances,
            rhythms=rhythms,
            trends=trends,
            of_lags=of_lags,
            lags=lags,
            weights=weights,
            group_weights=GroupWeights(weights, lags.lags_of),
        )


async def serve(
    settings: Settings, version: str, file: SettingsFile | None = None, outside: Outside | None = None
) -> ServiceOutcome:
    """Runs until SIGTERM. Errors that a setting can cause are returned as an outcome with a sentence, not raised.
    `file` is read again when it changes."""
    outside = outside or Outside()
    reader = weight_reader(settings)
    weights = reader.usable if reader is not None else None
    seen = Instruments.of(settings, version, outside, weights)
    try:
        config = _config(settings, seen)
    except (ApplicationError, UnknownNameError, RackFileError) as error:
        return ServiceOutcome(EXIT_CONFIG, (str(error),))
    led = (config.applications.get(membership.group_id) for membership in config.led)
    if obstacles := tuple(each.obstacle for each in led if each is not None and each.obstacle):
        return ServiceOutcome(EXIT_CONFIG, obstacles)
    events = EventsOut.of(settings, seen.metrics.registry)
    service = Service(config, outside)
    brokers = _plans_for_brokers(settings, config, service, seen)
    service.observers = _observers(settings, seen, events, brokers)
    service.served = brokers if settings.assignor_address else None
    reload = (
        Reload(settings, file, lambda new_settings: service.observe(ConfiguredSelection(new_settings, weights)))
        if file
        else None
    )
    turning = LoopWatch()
    server = outside.page(
        _web(service, seen, turning, lambda: (reload.settings if reload is not None else settings).named)
    )
    watching: asyncio.Task[None] | None = None
    try:
        if settings.http_address:
            await server.start(settings.http_address)
        await brokers.start()
        watching = in_background(turning.run)
        outside.started()
        with _reloading(reload):
            return await service.run(handle_signals=outside.signals)
    except (HttpAddressError, AssignorAddressError) as error:
        return ServiceOutcome(EXIT_CONFIG, (str(error),))
    finally:
        if watching is not None:
            watching.cancel()
        await server.stop()
        await brokers.stop()
        await asyncio.to_thread(events.close)
        if reader is not None:
            await asyncio.to_thread(reader.close)


def _config(settings: Settings, seen: Instruments) -> GroupsConfig:
    """Raises ApplicationError, UnknownNameError and RackFileError with a sentence."""
    return GroupsConfig(
        properties=settings.properties,
        groups=settings.memberships,
        policies=policies_of([group for group in settings.named if group.streams is None]),
        applications=applications_of(settings.named, seen.group_weights.source),
        ghosts={group.name: group.ghost_options for group in settings.named if group.ghost_options is not None},
        weights=seen.weights,
        control=settings.control,
        selection=ConfiguredSelection(settings, seen.weights),
        rhythms=seen.rhythms,
        lags_of=seen.lags.lags_of,
        message_bytes_max=settings.message_bytes_max,
        racks=settings.racks.rules(),
    )


def _plans_for_brokers(
    settings: Settings, config: GroupsConfig, service: Service, seen: Instruments
) -> PlansForBrokers:
    return PlansForBrokers(
        settings.assignor_address,
        partial(observed_policy, service),
        seen.metrics.registry,
        seen.rebalances.on_decision,
        weights=lambda group: seen.group_weights.of_observed(service.observed.get(group)),
        rules_of=service.rules_of,
        application_of=partial(observed_application, service),
        racks_configured=bool(config.racks),
    )


def _observers(settings: Settings, seen: Instruments, events: EventsOut, brokers: PlansForBrokers) -> Observers:
    metrics = seen.metrics
    return Observers.of(
        metrics,
        PauseMetrics(metrics),
        Observers(on_decision=(log_decision,), on_role=(log_role,), beside=(warm_up_soon,)),
        seen.rebalances,
        *events.observers,
        CostMetrics(metrics, settings.cost, seen.weights),
        seen.lags,
        *seen.of_lags,
        seen.trends,
        seen.rhythms,
        StreamsMetrics(metrics, by_task=settings.metrics_by_task),
        ObservedMetrics(metrics),
        ConversionWatch(metrics.on_conversion),
        ControlMetrics(metrics.registry),
        *brokers.observers,
    )


def _web(service: Service, seen: Instruments, turning: LoopWatch, named: Callable[[], Sequence[GroupSettings]]) -> Web:
    """`turning` is that of the loop of the process; `named` returns the groups that the settings name now."""

    def groups() -> list[Group]:
        return statuses(named(), service)

    def overview(group: str) -> list[Group]:
        return rows([each for each in groups() if group in ("", each.group)], service, seen.rebalances, seen.trends)

    seen.metrics.lateness.set_function(service.loop_watch.lateness_s)
    newest: Kept[Present] = Kept()  # the page polls more often than groups are refreshed
    return Web(
        seen.metrics.registry,
        lambda: not_ready(service),
        groups,
        seen.rebalances,
        lambda group: seen.lags.picture(group) if service.plan_in_force(group) else None,
        lambda group: present_of(service.watched(group), newest),
        overview,
        lambda: service.loop_watch.stuck() or turning.stuck(),
        lambda: in_words(kept_out(service)),
    )


def _exporter(settings: Settings, metrics: Metrics) -> LagExporterMetrics | None:
    if not settings.lag_exporter_cluster_name:
        return None
    exporter = LagExporterMetrics(settings.lag_exporter_cluster_name)
    metrics.registry.register(exporter)
    return exporter


def observed_policy(service: Service, group: str) -> Policy | None:
    """Returns the policy by which an observed group would be assigned; None if the group is not observed."""
    observer = service.observed.get(group)
    return observer.policy if observer is not None else None


def observed_application(service: Service, group: str) -> StreamsConfig | None:
    """Returns the configuration by which an observed group is planned if it is an application; None if the group is not
    observed."""
    observer = service.observed.get(group)
    return observer.application if observer is not None else None


@contextmanager
def _reloading(reload: Reload | None) -> Iterator[None]:
    if reload is None:
        yield
        return
    task, loop = in_background(reload.run), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, reload.ask)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        task.cancel()
