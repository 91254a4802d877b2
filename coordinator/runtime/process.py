"""The process behind `bellwether run`: creates the service, its observers and the HTTP server from the settings."""

import asyncio
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bellwether_kafka.assignors.consumer import LOAD_AWARE, Policy
from bellwether_kafka.assignors.shared import Rule, UnknownNameError
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.ghosts import ConversionWatch
from bellwether_kafka.coordinator.membership import EXIT_CONFIG, MembershipView, NotLeading
from bellwether_kafka.coordinator.observation import GroupObserver, Kept, Observation, Rhythms
from bellwether_kafka.coordinator.planning import ApplicationError, RackFileError, StreamsConfig, warm_up_soon
from bellwether_kafka.coordinator.runtime.events_out import EventsOut, weight_reader
from bellwether_kafka.coordinator.runtime.group_weights import GroupWeights
from bellwether_kafka.coordinator.runtime.groups_now import group_now
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
    Emptying,
    GroupStatus,
    HttpAddressError,
    LagTrends,
    LagWatch,
    LedRebalances,
    Present,
    Row,
    Web,
    overview,
    present,
    role_status,
)

NAMED_MAX = 10  # groups in the answer to a probe


async def serve(
    settings: Settings, version: str, file: SettingsFile | None = None, outside: Outside | None = None
) -> ServiceOutcome:
    """Runs until SIGTERM. Errors that a setting can cause are returned as an outcome with a sentence, not raised.
    `file` is read again when it changes."""
    outside = outside or Outside()
    metrics, rebalances = Metrics(), LedRebalances()
    metrics.info.info({"version": version})
    for group in settings.named:
        metrics.expect(group.name, lead=group.mode == "lead", ghosts=group.ghost_options is not None)
    reader = weight_reader(settings)
    weights = reader.usable if reader is not None else None
    rhythms = Rhythms(outside.state_file("rhythms", settings.properties.get("bootstrap.servers", "")))
    lag_metrics, trends, exporter = LagMetrics(metrics), LagTrends(), _exporter(settings, metrics)
    of_lags = (lag_metrics, exporter) if exporter is not None else (lag_metrics,)
    weighed = [group.name for group in settings.named if group.policy == LOAD_AWARE and weights is None]
    lags = LagWatch(rebalances, [each.on_lag for each in (*of_lags, trends)], rhythms=rhythms, weighed=weighed)
    group_weights = GroupWeights(weights, lags.lags_of)
    try:
        policies = policies_of([group for group in settings.named if group.streams is None])
        applications = applications_of(settings.named, group_weights.source)
        selection = ConfiguredSelection(settings, weights)
        racks = settings.racks.rules()
    except (ApplicationError, UnknownNameError, RackFileError) as error:
        return ServiceOutcome(EXIT_CONFIG, (str(error),))
    lead = [group.name for group in settings.named if group.mode == "lead"]
    obstacles = [applications[name].obstacle for name in lead if name in applications]
    if any(obstacles):
        return ServiceOutcome(EXIT_CONFIG, tuple(filter(None, obstacles)))
    events = EventsOut.of(settings, metrics.registry)

    def policy_of(group: str) -> Policy | None:
        return observed_policy(service, group)

    def rules_of(group: str) -> tuple[Rule, ...] | None:
        return service.rules_of(group)

    costs = CostMetrics(metrics, settings.cost, weights)
    brokers = PlansForBrokers(
        settings.assignor_address,
        policy_of,
        metrics.registry,
        rebalances.on_decision,
        weights=lambda group: group_weights.of_observed(service.observed.get(group)),
        rules_of=rules_of,
        application_of=lambda group: observed_application(service, group),
        racks_configured=bool(racks),
    )
    observers = Observers.of(
        metrics,
        PauseMetrics(metrics),
        Observers(on_decision=(log_decision,), on_role=(log_role,), beside=(warm_up_soon,)),
        rebalances,
        *events.observers,
        costs,
        lags,
        *of_lags,
        trends,
        rhythms,
        StreamsMetrics(metrics, by_task=settings.metrics_by_task),
        ObservedMetrics(metrics),
        ConversionWatch(metrics.on_conversion),
        ControlMetrics(metrics.registry),
        *brokers.observers,
    )
    service = Service(
        settings.properties,
        settings.memberships,
        Policy(),
        policies=policies,
        applications=applications,
        ghosts={group.name: group.ghost_options for group in settings.named if group.ghost_options is not None},
        observers=observers,
        weights=weights,
        control=settings.control,
        served=brokers if settings.assignor_address else None,
        selection=selection,
        rhythms=rhythms,
        lags_of=lags.lags_of,
        watch_interval_ms=settings.metadata_interval_ms,
        message_bytes_max=settings.message_bytes_max,
        racks=racks,
        outside=outside,
    )

    def groups() -> list[GroupStatus]:
        return statuses((reload.settings if reload is not None else settings).named, service)

    turning = LoopWatch()
    metrics.lateness.set_function(service.loop_watch.lateness_s)
    newest: Kept[Present] = Kept()  # the page polls more often than groups are refreshed
    web = Web(
        metrics.registry,
        lambda: not_ready(service),
        groups,
        rebalances,
        lambda group: lags.picture(group) if service.plan_in_force(group) else None,
        lambda group: present_of(service.watched(group), newest),
        lambda group: rows([status for status in groups() if group in ("", status.group)], service, rebalances, trends),
        lambda: service.loop_watch.stuck() or turning.stuck(),
        lambda: _named(kept_out(service)),
    )
    server = outside.page(web)
    reload = (
        Reload(settings, file, lambda new_settings: service.observe(ConfiguredSelection(new_settings, weights)))
        if file
        else None
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


def statuses(named: Sequence[GroupSettings], service: Service) -> list[GroupStatus]:
    """Returns the status of the configured groups, followed by those that patterns have found."""
    names = {group.name for group in named}
    by_pattern = [GroupSettings(name=group) for group in sorted(list(service.observed)) if group not in names]  # noqa: C414 - of another thread
    return [_status(group, service) for group in (*named, *by_pattern)]


def _status(group: GroupSettings, service: Service) -> GroupStatus:
    """Returns one group as the page lists it."""
    runner, observer = service.runners.get(group.name), service.watched(group.name)
    seen = observer.last if observer is not None else None
    if runner is not None:
        member, role = runner.membership, runner.role
        state, others = member.state.name.lower(), _others(member) if role.leading or observer is None else _shown(seen)
        status = role_status(role, clocks.wall() - clocks.monotonic())
        return GroupStatus(
            group.name,
            group.mode,
            state,
            role.leading,
            status,
            member.generation,
            others,
            _emptying(service, group.name),
            service.applied_plan(group.name),
        )
    state = (
        "not seen yet"
        if seen is None
        else seen.state.lower() or ("does not exist" if seen.kind == "missing" else "not known")
    )
    return GroupStatus(group.name, group.mode, state, False, None, -1, _shown(seen))


def _others(member: MembershipView) -> int:
    """Returns the number of members other than Bellwether."""
    return max(0, len(member.members) - 1)


def _shown(seen: Observation | None) -> int | None:
    """Returns the number of members in the last answer; None if there is none."""
    return len(seen.members) if seen is not None and seen.kind != "unknown" else None


def _emptying(service: Service, group: str) -> tuple[Emptying, ...]:
    return tuple(
        Emptying(
            order.where,
            order.sentence,
            absence.stage.value if absence is not None else "",
            absence.since_ms if absence is not None else None,
        )
        for order, absence in service.emptying(group)
    )


def rows(groups: Sequence[GroupStatus], service: Service, rebalances: LedRebalances, trends: LagTrends) -> list[Row]:
    """Returns the overview of these groups."""
    now_ms = int(clocks.wall() * 1000)
    return overview(group_now(status, service.watched(status.group), rebalances, trends, now_ms) for status in groups)


def present_of(observer: GroupObserver | None, newest: Kept[Present]) -> Present | None:
    """Returns what the page shows of an observed group; None if it is not observed or has not been refreshed yet."""
    if observer is None or observer.last is None:
        return None
    seen, lines = observer.last, observer.rebalances.lines()
    return newest.of((seen, lines), lambda: present(seen, lines))


def not_ready(service: Service) -> str | None:
    """Returns why the service is not ready, or None: it has not connected yet, is stuck, or serves none of its groups,
    because brokers refuse them or it has given them up. One whose patterns match no group is ready."""
    if not (service.connected or service.runners):
        return ": ".join(filter(None, ("not connected yet", service.connecting.trouble)))
    if stuck := service.loop_watch.stuck():
        return stuck
    out = kept_out(service)
    return _named(out) if out and len(out) == len(service.runners) and not service.observed else None


def kept_out(service: Service) -> dict[str, str]:
    """Returns, by group, why the service is out of it until an operator acts: it has given the group up, or the brokers
    deny it."""
    runners = list(service.runners.items())
    given_up = {group: f"given up: {runner.fatal.message}" for group, runner in runners if runner.fatal is not None}
    denied = {
        group: f"denied: {runner.role.detail}" for group, runner in runners if runner.role.reason is NotLeading.DENIED
    }
    return dict(sorted({**denied, **given_up}.items()))


def _named(out: Mapping[str, str]) -> str:
    shown = "; ".join(why if group in why else f"{group}: {why}" for group, why in [*out.items()][:NAMED_MAX])
    more = len(out) - NAMED_MAX
    return f"{shown}; and {more} groups more" if more > 0 else shown
