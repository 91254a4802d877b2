"""The command that carries out a written plan. It checks that the group is as the plan found it."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from bellwether_kafka.assignors.shared import GroupPlan
from bellwether_kafka.coordinator import control
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, Topic, Wait
from bellwether_kafka.coordinator.cli.orders.service import DryRun, Reason, now_ms, order_service, owner
from bellwether_kafka.coordinator.cli.output import As, Output, echo, fail
from bellwether_kafka.coordinator.cli.plan_file import (
    GroupStateOfPlan,
    PlanFile,
    PlanFileError,
    differences,
    group_state,
    read_plan_file,
)
from bellwether_kafka.coordinator.names import for_shell
from bellwether_kafka.coordinator.observation import Observation

PlanPath = Annotated[Path, typer.Argument(metavar="FILE", help="A plan that 'bellwether plan --out' has written.")]


def apply(
    file: PlanPath,
    reason: Reason = "",
    wait: Wait = 0.0,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    config: Config = None,
    topic: Topic = None,
    output: As = Output.TABLE,
) -> None:
    to = order_service(bootstrap, config, topic, output, retry_s=wait)
    plan = _read(file)
    group, seen = plan.before.group, to.at_rest(plan.before.group, wait)
    present = _present(seen)
    _refuse(file, group, [*differences(plan.before, present), *_impossible(plan, seen)])
    order = applied(plan, present, reason)
    size = len(control.encode(order)[1])
    if size > control.VALUE_BYTES_MAX:
        fail(f"The plan needs a record of {size:,} bytes, more than {control.VALUE_BYTES_MAX:,}. Nothing was ordered.")
    ends = f"'bellwether unpin {for_shell(group)} --plan'"
    sentence = control.traits_of(order).says.format(file=file, group=group, ends=ends)
    to.give(order, sentence, wait_s=wait, force=False, dry_run=dry_run)


def applied(plan: PlanFile, present: GroupStateOfPlan, reason: str) -> control.AppliedPlan:
    """Returns the order. Members have their keys, which survive a restart; those of an application their ids, because
    its threads are known to plans by these only."""
    names = present.keys
    of_processes = not {*plan.owners.values()} <= {member.member_id for member in plan.before.members}
    keys = plan.before.keys
    items: dict[str, list[str]] = defaultdict(list)
    for item, name in plan.owners.items():
        items[keys.get(name, name)].append(item)
    return control.AppliedPlan(
        target=plan.before.group,
        digest=plan.digest,
        members=tuple(sorted(names if of_processes else names.values())),
        items={name: tuple(of_one) for name, of_one in sorted(items.items())},
        owner=owner(),
        at_ms=now_ms(),
        expires_ms=control.NO_END_MS,
        reason=reason,
    )


def _read(file: Path) -> PlanFile:
    try:
        return read_plan_file(file)
    except OSError as error:
        fail(f"The plan {file} cannot be read: {error.strerror}.")
    except PlanFileError as error:
        fail(f"The plan {file} cannot be used: {error}.")


def _present(seen: Observation) -> GroupStateOfPlan:
    if seen.shadow is None:
        fail(f"Nothing can be placed in {seen.group_id} now: {seen.no_plan}. Nothing was ordered.")
    return group_state(seen, seen.shadow)


def _refuse(file: Path, group: str, reasons: list[str]) -> None:
    """Ends the process if there is any reason. Each is named on a line of its own."""
    if not reasons:
        return
    for reason in reasons:
        echo(f"{reason[:1].upper()}{reason[1:]}.", err=True)
    again = f"'bellwether plan {for_shell(group)} --out {for_shell(str(file))}'"
    fail(f"The plan is not for {group} as it is now. Nothing was ordered; {again} makes another.")


def _impossible(plan: PlanFile, seen: Observation) -> Iterator[str]:
    """Yields what the plan gives to an owner that cannot have it, as clauses. A plan can have been edited."""
    if seen.shadow is None:
        return
    of_group: GroupPlan = seen.shadow.decision.plan
    keys, keys_now = plan.before.keys, group_state(seen, seen.shadow).keys
    owners = {keys_now.get(each.name, each.name): each for each in of_group.owners}
    names = set(of_group.names(np.arange(len(of_group.owner), dtype=np.int32)))
    for item, name in plan.owners.items():
        each, topic = owners.get(keys.get(name, name)), item.rpartition("-")[0]
        if item not in names:
            yield f"{item}, to which the plan gives an owner, does not exist"
        elif each is None:
            yield f"{name}, to which the plan gives {item}, is not in the group"
        elif each.topics and topic not in each.topics:
            yield f"{name}, to which the plan gives {item}, does not subscribe to {topic}"
