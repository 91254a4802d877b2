"""The commands `bellwether groups` and `bellwether describe GROUP`. They join no group."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import typer
from rich.text import Text

from bellwether_kafka.coordinator.cli.kafka_format import kafka_lines, kafka_notice
from bellwether_kafka.coordinator.cli.options import ANY_GROUP, Bootstrap, Config, Interval, Watch, settings_for
from bellwether_kafka.coordinator.cli.options import Group as GroupName
from bellwether_kafka.coordinator.cli.output import (
    As,
    AsOfGroup,
    Console,
    Exit,
    Output,
    Table,
    count_or_dash,
    count_or_unknown,
    echo,
    print_document,
    ranges,
)
from bellwether_kafka.coordinator.cli.read_groups import (
    LISTED_TYPES,
    connected,
    described_at,
    groups_by_node,
    observe_group,
    refreshes,
    run_to_end,
)
from bellwether_kafka.coordinator.kafka.client import ClusterUnreachableError
from bellwether_kafka.coordinator.kafka.wire import ListedGroup
from bellwether_kafka.coordinator.membership import (
    DescribeAnswer,
    GroupState,
    MembershipConfig,
    is_bellwether,
    is_missing,
)
from bellwether_kafka.coordinator.names import for_sentence
from bellwether_kafka.coordinator.observation import (
    BROKER,
    CONSUMERS,
    MEMBER,
    NOBODY,
    NOT_KNOWN,
    Finding,
    FindingKind,
    Group,
    LagVerdict,
    Observation,
    ObservedMember,
    Shadow,
    Sources,
    anomalies_of_members,
    as_document,
    observation,
    short_ids,
    values_of_group,
    who_assigns,
    worst_first,
)
from bellwether_kafka.coordinator.settings import Settings

LAGS_SHOWN = 20
COSTS = ("unowned", "cross_rack", "spread")


def groups(
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
) -> None:
    settings, _ = settings_for(bootstrap, config, ANY_GROUP)
    rows = run_to_end(_list(settings))
    if output.is_document:
        print_document([values_of_group(row) for row in rows])
        return
    draw_groups(rows, wide=output is Output.WIDE)
    for row in rows:
        for finding in row.findings:
            echo(f"{row.group}: {finding.message}")


def describe(
    group: GroupName,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: AsOfGroup = Output.TABLE,
    watch: Watch = False,
    interval: Interval = 10.0,
) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    as_kafka = output is Output.KAFKA

    def show(seen: Observation) -> None:
        if as_kafka:
            _draw_as_kafka(seen)
        else:
            _show_with_cost(settings, seen, output, watch=watch)

    if watch:
        _watch(settings, group, interval, show, unsubscribed=as_kafka)
    elif as_kafka:
        show(observe_group(settings, group, unsubscribed=True))
    else:
        show(observe_group(settings, group, unknown=output is not Output.TABLE, commits=True))


def _watch(
    settings: Settings,
    group: str,
    interval_s: float,
    show: Callable[[Observation], None],
    *,
    unsubscribed: bool = False,
) -> None:
    """Shows the group every `interval_s` seconds until Ctrl-C, which ends it normally."""

    async def watched() -> None:
        async for seen in refreshes(settings, group, interval_s, unsubscribed=unsubscribed):
            Console().clear()  # clears terminals only
            await asyncio.to_thread(show, seen)
            sys.stdout.flush()

    with suppress(KeyboardInterrupt):
        run_to_end(watched())


def _draw_as_kafka(seen: Observation) -> None:
    _draw_unknown(seen)
    notice = kafka_notice(seen)
    if notice:
        echo(notice, err=True)
    echo("")
    for line in kafka_lines(seen):
        echo(line)


def _show_with_cost(settings: Settings, seen: Observation, output: Output, *, watch: bool) -> None:
    from bellwether_kafka.coordinator.cli.cost import (  # noqa: PLC0415 - a list of groups does not need its imports
        cost_of,
        in_words,
        weights_in_words,
    )

    if seen.kind == "unknown" and output.is_document:
        print_document(as_document(seen), one_of_many=watch)
        if not watch:
            raise typer.Exit(Exit.NOT_SO)
        return
    cost = cost_of(settings, seen)
    if output.is_document:
        weights: dict[str, Any] = {"weights": cost and cost.pop("weights"), "traffic": cost}
        print_document(as_document(seen) | weights, one_of_many=watch)
        return
    _draw(seen, wide=output is Output.WIDE)
    for line in [*weights_in_words(cost["weights"]), *in_words(cost)] if cost is not None else ():
        echo(line)


def draw_groups(rows: Sequence[Group], *, wide: bool) -> None:
    table = Table("group", "assigned by", "protocol type", "state", *["type"] * wide)
    for row in rows:
        cells = (for_sentence(row.group), _in_full(row), row.protocol_type or "-", row.state or "-")
        table.add_row(*cells, *[row.type or "-"] * wide)
    Console().print(table)


def _in_full(row: Group) -> str:
    return f"{row.assigned_by} ({row.type})" if row.assigned_by == BROKER else row.assigned_by


async def _list(settings: Settings) -> list[Group]:
    """Returns all groups, the worst first."""
    async with connected(settings) as sources:
        return await listed_groups(sources, settings.groups[0].membership(settings.instance_id))


async def listed_groups(sources: Sources, config: MembershipConfig) -> list[Group]:
    """Returns all groups, the worst first, from these sources. `config` identifies Bellwether's members. Sends one
    request to each broker for the list, one for every fifty groups with members, and one for their topics."""
    by_node = await groups_by_node(sources.transport, sources.reader)
    asked = {node: [g.group_id for g in groups if _must_be_asked(g)] for node, groups in by_node.items()}
    answers = await described_at(sources.transport, asked)
    seen = {group: _of_members(group, answer, config) for group, answer in answers.items() if not answer.error}
    anomalies = await _anomalies(sources, seen)
    return worst_first(
        Group(
            group=listed.group_id,
            type=listed.type,
            protocol_type=listed.protocol_type,
            state=listed.state,
            assigned_by=_assigned_by(listed, answers.get(listed.group_id), seen.get(listed.group_id)),
            members=len(seen[listed.group_id].members) if listed.group_id in seen else None,
            anomalies=anomalies.get(listed.group_id),
        )
        for groups in by_node.values()
        for listed in groups
    )


async def _anomalies(sources: Sources, seen: Mapping[str, Observation]) -> dict[str, tuple[Finding, ...]]:
    """Returns the anomalies of stable groups. A partition counts as missing only if brokers describe its topic."""
    at_rest = {group: shown for group, shown in seen.items() if shown.state == GroupState.STABLE}
    topics = {topic for group in at_rest.values() for member in group.members for topic, _ in member.owned}
    try:
        counts: Mapping[str, int] = (await sources.reader.read(topics)).count_of if topics else {}
    except ClusterUnreachableError:
        counts = {}
    return {group: anomalies_of_members(members, counts, at_rest=True) for group, members in at_rest.items()}


def _of_members(group: str, answer: DescribeAnswer, config: MembershipConfig) -> Observation:
    own = {member.member_id for member in answer.members if is_bellwether(member, config)}
    return observation(group, "classic", answer, 0, bellwether_members=own)


def _must_be_asked(group: ListedGroup) -> bool:
    """Returns whether only its members show who assigns in a group, that is, whether it is classic and not empty."""
    return group.type in ("", "classic") and group.protocol_type in LISTED_TYPES and group.state != GroupState.EMPTY


def _assigned_by(group: ListedGroup, answer: DescribeAnswer | None, seen: Observation | None) -> str:
    if group.type not in ("", "classic"):
        return BROKER
    if group.protocol_type not in LISTED_TYPES:
        return MEMBER
    if group.state == GroupState.EMPTY:  # it has no protocol type before its first member
        return NOBODY if group.protocol_type else CONSUMERS
    if seen is not None:
        return who_assigns(seen)
    # else its coordinator node does not answer now
    return NOBODY if answer is not None and is_missing(answer) else NOT_KNOWN


def _draw_unknown(seen: Observation) -> None:
    """Prints why the group could not be read now, and of when what follows is."""
    if seen.unknown is not None:
        at = time.strftime("%H:%M:%S", time.localtime(seen.seen_at_ms / 1000))
        of = "" if seen.kind == "unknown" else f"; what follows is of {at}"
        echo(f"{seen.group_id} cannot be read now: {seen.unknown.reason}{of}.")


def _draw(seen: Observation, *, wide: bool) -> None:
    console = Console()
    _draw_unknown(seen)
    if seen.kind == "unknown":
        return
    facts = f"{seen.kind}, {seen.state or '-'}, {seen.assigned_with or '-'}; {seen.verdict}"
    console.print(Text(f"{for_sentence(seen.group_id)}: {facts}"))
    console.print(_members(seen, wide=wide))
    _draw_lags(console, seen)
    if seen.trouble:
        console.print(Text(seen.trouble))
    if seen.shadow is not None:
        costs = Table("", "unowned", "cross rack", "spread")
        for name, cost in zip(("now", "planned"), seen.shadow.costs().values(), strict=True):
            costs.add_row(name, *(count_or_unknown(cost[key]) for key in COSTS))
        console.print(costs)
        _draw_unknown_racks(console, seen.shadow)
        for order in seen.shadow.orders:
            console.print(Text(order))
        moves = seen.shadow.moves
        console.print(Text(f"the plan keeps {moves.kept}, moves {moves.moved}, gives {moves.new} that nobody has"))


def _draw_unknown_racks(console: Console, shadow: Shadow) -> None:
    unknown = shadow.costs()["current"]["unknown_racks"]
    if unknown:
        of = shadow.decision.plan.words.items(unknown)
        console.print(Text(f"racks of {of} are not known: no member names one, or no replica is on a broker with one"))


def _lag_of(member: ObservedMember) -> str:
    """Returns the lag, with the number of unknown lags, which the sum would hide."""
    if member.lag is None:
        return "-"
    return f"{member.lag:,}" + f" and {member.unknown_lags} unknown" * bool(member.unknown_lags)


def _draw_lags(console: Console, seen: Observation) -> None:
    """Draws the partitions with the largest lags, and what is unknown. Times and rates need more than one refresh."""
    report = seen.group_lag.report(LAGS_SHOWN) if seen.group_lag is not None else None
    if report is not None:
        columns = ("committed", "end", "lag", "behind", "written/s", "read/s", "caught up in", "verdict")
        table = Table("partition", *columns)
        read = [partition for partition in report.partitions if partition.committed is not None]
        for partition in read:
            times = _seconds(partition.lag_ms), _seconds(partition.catch_up_ms)
            rates = _rate(partition.written_per_s), _rate(partition.consumed_per_s)
            cells = (
                count_or_dash(partition.committed),
                count_or_dash(partition.end),
                count_or_dash(partition.lag),
                times[0],
                *rates,
                times[1],
                partition.verdict.words,
            )
            table.add_row(f"{partition.topic}-{partition.partition}", *cells)
        if read:
            console.print(table)
        if read and report.truncated:
            console.print(Text(f"These {len(read)} of {report.summary.partitions} are furthest behind."))
        if report.summary.unknown:
            of = f"{report.summary.unknown} of {report.summary.partitions} partitions"
            silent = ", or no broker says the end" if seen.group_lag is not None and seen.group_lag.unknown else ""
            console.print(Text(f"lag unknown of {of}: no offset is committed, or it lies beyond the end{silent}"))
    noted = [p for p in (report.partitions if report is not None else ()) if p.note]
    beyond = [p for p in noted if p.committed is not None or p.end is None or p.verdict is LagVerdict.STALLED]
    # the first line has it
    message = (anomaly.message for anomaly in seen.anomalies if anomaly.kind != FindingKind.SELF_ASSIGNED)
    for note in (*(f"{p.topic}-{p.partition}: {p.note}" for p in beyond), *seen.lag_notes, *message):
        console.print(Text(note))


def _rate(per_s: float | None) -> str:
    return "-" if per_s is None else f"{per_s:.1f}"


def _seconds(value_ms: int | None) -> str:
    return "-" if value_ms is None else f"{value_ms / 1000:.0f} s"


def _members(seen: Observation, *, wide: bool) -> Table:
    names = short_ids(seen)
    table = Table("member", *["client", "instance", "host"] * wide, "rack", "lag", "has")
    for member in seen.members:
        name = member.member_id if wide else names[member.member_id]
        more = (member.client_id or "-", member.instance_id or "-", member.client_host or "-") if wide else ()
        table.add_row(
            name, *more, for_sentence(member.rack) if member.rack else "-", _lag_of(member), _has(member, seen)
        )
    return table


def _has(member: ObservedMember, seen: Observation) -> str:
    topics = sorted({topic for topic, _ in member.owned})
    parts = [f"{t}: {ranges(sorted(p for topic, p in member.owned if topic == t))}" for t in topics]
    tasks = [f"tasks {', '.join(member.active)}"] * bool(member.active)
    tasks += [f"standby {', '.join(member.standby)}"] * bool(member.standby)
    at_rest = seen.kind != "classic" or seen.state == GroupState.STABLE
    # Brokers report assignments only when the group is stable again.
    return member.trouble or "; ".join(tasks or parts) or ("-" if at_rest else "rebalancing")
