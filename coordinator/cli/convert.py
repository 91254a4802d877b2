"""The command `bellwether convert GROUP`: what a conversion to the protocol in which the broker assigns would change,
and its steps. It changes nothing."""

import asyncio
from dataclasses import asdict

import typer
from rich.text import Text

from bellwether_kafka.coordinator.assessment import (
    MIGRATION_POLICY,
    ConversionFacts,
    ConversionPlan,
    plan_conversion,
    policy_grid,
)
from bellwether_kafka.coordinator.cli.assess import draw_grid, prices_of
from bellwether_kafka.coordinator.cli.cost import scales_for
from bellwether_kafka.coordinator.cli.doctor import draw_checks, draw_steps, settings_of_brokers
from bellwether_kafka.coordinator.cli.leader import as_led
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Group, group_settings, settings_for
from bellwether_kafka.coordinator.cli.output import As, Console, Exit, Output, print_document
from bellwether_kafka.coordinator.cli.read_groups import connected, observer_for, of_a_group, run_to_end
from bellwether_kafka.coordinator.ghosts import conversion
from bellwether_kafka.coordinator.membership import DescribeAnswer
from bellwether_kafka.coordinator.observation import CheckVerdict, worst
from bellwether_kafka.coordinator.settings import Settings

TITLE = "Its assignment now, by a broker's assignors, and by Bellwether's policies"


def convert(group: Group, bootstrap: Bootstrap = None, config: Config = None, output: As = Output.TABLE) -> None:
    settings, _ = settings_for(bootstrap, config, group)
    facts = run_to_end(_facts(settings, group))
    prices = prices_of(settings, scales_for(settings, facts.seen))
    plan = plan_conversion(facts, prices)
    if output.is_document:
        print_document(asdict(plan), output)
    else:
        _draw(plan, prices.currency)
    if worst(plan.checks) is CheckVerdict.FAIL:
        raise typer.Exit(Exit.UNEXPECTED)


async def _facts(settings: Settings, group: str) -> ConversionFacts:
    answers: list[DescribeAnswer] = []
    async with connected(settings.properties) as sources:
        leader = await asyncio.to_thread(as_led, settings, group)
        observer = observer_for(settings, group, sources, leader, on_seen=(lambda _, answer: answers.append(answer),))
        seen = of_a_group(await observer.observe())
        of_group = group_settings(settings, group)
        ready = conversion(answers[-1]) if answers else None
        return ConversionFacts(
            seen=seen,
            obstacles=None if ready is None else ready.obstacles,
            led=of_group.mode == "lead",
            blocked=of_group.mode == "lead" and of_group.online_conversion == "block",
            broker_version=sources.transport.broker_version,
            migration=await asyncio.to_thread(settings_of_brokers, sources.reader.admin, MIGRATION_POLICY),
        )


def _draw(plan: ConversionPlan, currency: str) -> None:
    console = Console(soft_wrap=True)
    console.print(Text(f"{plan.group}: to group.protocol={plan.to}", "bold"))
    draw_checks(console, plan.checks)
    if plan.policies:
        draw_grid(console, policy_grid(TITLE, plan.policies, currency))
    if plan.steps:
        draw_steps(console, "Steps:", plan.steps)
    draw_steps(console, "The way back:", plan.way_back)
