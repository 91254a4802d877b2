"""The command `bellwether convert GROUP`: what a conversion to the protocol in which the broker assigns would change,
and its steps. With --watch it follows the conversion. It changes nothing."""

import asyncio
import time
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.text import Text

from bellwether_kafka.coordinator.assessment import (
    ASSIGNORS_LISTED,
    MIGRATION_POLICY,
    SIZES_MAX,
    ConversionFacts,
    ConversionFollower,
    ConversionPlan,
    ConversionProgress,
    ConversionStart,
    PlacementCounts,
    modelled_release,
    plan_conversion,
    policy_grid,
    protocol_of,
)
from bellwether_kafka.coordinator.cli.assess import draw_grid, prices_of
from bellwether_kafka.coordinator.cli.cost import scales_for
from bellwether_kafka.coordinator.cli.doctor import draw_checks, draw_steps, settings_of_brokers
from bellwether_kafka.coordinator.cli.leader import membership_of, under_orders
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, Wait, group_settings, settings_for
from bellwether_kafka.coordinator.cli.output import (
    As,
    Console,
    Exit,
    Output,
    count_or_unknown,
    counted,
    echo,
    fail,
    print_document,
)
from bellwether_kafka.coordinator.cli.read_groups import connected, observer_for, of_a_group, run_to_end
from bellwether_kafka.coordinator.ghosts import conversion
from bellwether_kafka.coordinator.kafka.client import read_supported
from bellwether_kafka.coordinator.kafka.wire import OWN_ASSIGNORS, policy_in
from bellwether_kafka.coordinator.membership import DescribeAnswer
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Level, Observation, worst
from bellwether_kafka.coordinator.settings import Settings

TITLE = "Its assignment now, by a broker's assignors{}, and by Bellwether's policies"
REFRESH_S = 1.0
COUNTS_SHOWN = {"unowned": "unowned", "cross_rack": "cross rack", "moved": "moved"}


def convert(
    group: Group,
    bootstrap: Bootstrap = None,
    config: Config = None,
    output: As = Output.TABLE,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Print each change until the group has settled in the other protocol.")
    ] = False,
    back: Annotated[bool, typer.Option("--back", help="With --watch: follow the way back to classic.")] = False,
    members: Annotated[
        int | None,
        typer.Option(help="With --watch: how many members the settled group has; at least as many as now.", min=1),
    ] = None,
    wait: Wait = 600.0,
) -> None:
    if not watch and (back or members is not None):
        fail("--back and --members are for --watch; add it, or leave them out.")
    settings, _ = settings_for(bootstrap, config, group)
    facts = run_to_end(_facts(settings, group))
    if watch:
        start = ConversionStart.of(facts, back=back, members_min=members)
        if not run_to_end(_follow(settings, facts, start, wait, output)):
            raise typer.Exit(Exit.NOT_SO)
        return
    prices = prices_of(settings, scales_for(settings, facts.seen))
    plan = plan_conversion(facts, prices)
    if output.is_document:
        print_document(asdict(plan))
    else:
        _draw(plan, prices.currency)
    if worst(plan.checks) is Level.FAIL:
        raise typer.Exit(Exit.NOT_SO)


async def _facts(settings: Settings, group: str) -> ConversionFacts:
    answers: list[DescribeAnswer] = []
    async with connected(settings) as sources:
        leader = await asyncio.to_thread(under_orders, settings, group)
        observer = observer_for(settings, group, sources, leader, on_seen=(lambda _, answer: answers.append(answer),))
        seen = of_a_group(await observer.observe())
        of_group = group_settings(settings, group)
        membership = membership_of(settings, group)
        blocked = of_group.mode == "lead" and of_group.online_conversion == "block"
        ready = conversion(_unblocked(answers[-1], seen) if blocked else answers[-1]) if answers else None
        admin, application = sources.reader.admin, leader.application
        protocol = protocol_of(seen, application=of_group.streams is not None)
        supported = await read_supported(sources.transport, sources.reader)
        return ConversionFacts(
            seen=seen,
            obstacles=None if ready is None else ready.obstacles,
            led=of_group.mode == "lead",
            waits=membership.waits_for_restart,
            when_empty=membership.adopt == "when-empty",
            blocked=blocked,
            application=of_group.streams is not None,
            patterns=application is not None
            and application.topology is not None
            and bool(application.topology.patterns),
            broker_version=supported.release,
            features=supported.features,
            sizes_max={
                name: await asyncio.to_thread(settings_of_brokers, admin, name)
                for name in (SIZES_MAX["classic"], SIZES_MAX[protocol])
            },
            migration=await asyncio.to_thread(settings_of_brokers, admin, MIGRATION_POLICY),
            assignors=await asyncio.to_thread(settings_of_brokers, admin, ASSIGNORS_LISTED[protocol]),
        )


def _unblocked(answer: DescribeAnswer, seen: Observation) -> DescribeAnswer:
    """Returns the group without the userData by which Bellwether blocks a conversion: what else prevents it counts."""
    own = {member.member_id for member in seen.bellwether_members}
    return replace(answer, members=tuple(member for member in answer.members if member.member_id not in own))


async def _follow(
    settings: Settings, facts: ConversionFacts, start: ConversionStart, timeout_s: float, output: Output
) -> bool:
    """Prints each change, from `facts` on, until the group has settled or the time is up. Returns whether it has. An
    interruption ends it with what is pending."""
    began, watch = time.monotonic(), ConversionFollower(start)
    try:
        async with connected(settings) as sources:
            observer = observer_for(settings, facts.seen.group_id, sources)
            seen = facts.seen
            while True:
                progress = watch.on_refresh(seen)
                if progress is not None:
                    _print_progress(progress, output)
                past_s = time.monotonic() - began
                if watch.settled or past_s >= timeout_s:
                    break
                await asyncio.sleep(min(REFRESH_S, timeout_s - past_s))
                seen = await observer.observe()
    except asyncio.CancelledError:  # by Ctrl-C
        back = "--back " if start.back else ""
        again = f"bellwether convert {for_shell(facts.seen.group_id)} --watch {back}--members {start.members_min}"
        echo(f"Interrupted; pending: {watch.pending or 'nothing'}. To go on: {again}.", err=True)
        raise
    if watch.settled:
        echo(f"Settled after {past_s:.0f} s.", err=True)
    else:
        echo(
            f"Not settled within {timeout_s:g} s: {watch.pending or 'it has been complete for a moment only'}.",
            err=True,
        )
    return watch.settled


def _print_progress(progress: ConversionProgress, output: Output) -> None:
    if output.is_document:
        print_document(asdict(progress), one_of_many=True)
    else:
        at = time.strftime("%H:%M:%S", time.localtime(progress.at_ms / 1000))
        echo(f"{at} {progress_in_words(progress)}")


def progress_in_words(progress: ConversionProgress) -> str:
    """Returns one line: type, state, members by protocol, epoch, and the placement beside the predicted one."""
    classic = progress.members.get("classic", 0) if progress.protocol != "classic" else 0
    members = counted(sum(progress.members.values()), "member") + (f", {classic} of them classic" if classic else "")
    parts = [
        f"{count_or_unknown(getattr(progress.placement, name))} {words}{_beside(progress.predicted, name)}"
        for name, words in COUNTS_SHOWN.items()
    ]
    epoch = [] if progress.epoch is None else [f"epoch {progress.epoch}"]
    pending = [f"pending: {progress.pending}"] if progress.pending else []
    parts += _predicted_for_another(progress)
    return "; ".join([f"{progress.protocol}, {progress.state}: {members}", *epoch, *parts, *pending])


def _predicted_for_another(progress: ConversionProgress) -> list[str]:
    """Returns a clause if the members chose another assignor than the brokers' default, which was predicted."""
    by, chosen = progress.predicted_by, progress.assignor
    if progress.predicted is None or progress.protocol != "consumer" or not chosen:
        return []
    own = chosen == OWN_ASSIGNORS and not by.startswith("broker-")  # by the configured policy
    if own or by in (f"broker-{chosen}", policy_in(chosen)):
        return []
    return [f"predicted for {by}, but its assignor is {chosen}"]


def _beside(predicted: PlacementCounts | None, name: str) -> str:
    value = None if predicted is None else getattr(predicted, name)
    return "" if value is None else f" ({value} predicted)"


def _draw(plan: ConversionPlan, currency: str) -> None:
    console = Console(soft_wrap=True)
    console.print(Text(f"{plan.group}: to group.protocol={plan.to}", "bold"))
    draw_checks(console, plan.checks)
    if plan.policies:
        release = modelled_release(plan.policies)
        title = TITLE.format(f" of Kafka {release}" if release else "")
        draw_grid(console, policy_grid(title, plan.policies, currency))
    if plan.steps:
        draw_steps(console, "Steps:", plan.steps)
    if plan.way_back:
        draw_steps(console, "The way back:", plan.way_back)
