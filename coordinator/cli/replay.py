"""The commands on recorded rebalances: `bellwether history` copies them into a file, from which `simulate --history`
and `bellwether replay` decide them again.

`replay_tasks` does that for applications. Each rebalance is decided on its own, from exactly what its leader had,
memory included; the plan to compare with is the one that was published beside it. What is not recorded: weights, so
`load-aware` may differ for want of them, and what a custom assignor keeps to itself.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import KafkaException

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.consumer import POLICIES
from bellwether_kafka.assignors.consumer import policy as named
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.assignors.streams.policies import LOAD_AWARE, STREAMS_POLICIES
from bellwether_kafka.coordinator import planning
from bellwether_kafka.coordinator.cli.options import Bootstrap, Config, settings_without_group
from bellwether_kafka.coordinator.cli.output import As, Exit, Output, counted, fail, print_document, say, tell
from bellwether_kafka.coordinator.kafka import LoginError, librdkafka_properties
from bellwether_kafka.coordinator.telemetry import ACTIVE, HistoryUnreadError, assignment_entries, recorded
from bellwether_kafka.pipeline import records

TIMEOUT_S = 10.0
EventRecord = Mapping[str, Any]
DIFFERENCES_SHOWN = 5


def history(
    file: Annotated[Path, typer.Option(help="The file to write: Avro, or JSON if its name ends with .jsonl.")],
    config: Config = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[str, typer.Option(help="The events topic.")] = "bellwether.events",
    registry_url: Annotated[
        str | None, typer.Option(help="The Schema Registry, if events are framed for it; else the file's.")
    ] = None,
    output: As = Output.TABLE,
) -> None:
    try:
        settings = settings_without_group(bootstrap, config)
        registry_url = registry_url or (settings.events.registry_url if settings.events is not None else None)
        ids = records.registered(registry_url, topic, records.SchemaSet.load()) if registry_url else {}
        values = recorded(librdkafka_properties(settings.properties), topic, TIMEOUT_S, ids)
        count = (records.write_json_lines if file.suffix == ".jsonl" else records.write_history)(file, values)
    except (HistoryUnreadError, records.RegistryError) as error:
        fail(str(error))
    except LoginError as error:
        fail(f"The topic {topic} cannot be read: {error.clause}.")
    except KafkaException as error:
        fail(f"The topic {topic} cannot be read: {error.args[0].str()}; check bootstrap.servers and the ACL READ.")
    except OSError as error:
        fail(f"The file {file} cannot be written ({error.strerror}); check --file.")
    tell(output, f"Wrote {count} records to {file}.", records=count, file=str(file))


def replay(
    file: Annotated[Path, typer.Argument(help="A file that `bellwether history` has written.")],
    policy: Annotated[list[str] | None, typer.Option(help="Decide by this policy instead; may be repeated.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="Only this group; may be repeated.")] = None,
    output: As = Output.TABLE,
) -> None:
    try:
        of_tasks = [name for name in policy or [] if name in STREAMS_POLICIES]
        wanted = [name for name in policy or [] if name in POLICIES or name not in STREAMS_POLICIES]
        plugins = shared.load_plugins([name for name in wanted if name not in POLICIES])
        policies = {name: named(name, plugins) for name in wanted}
        recorded = records.read_history(file)
    except shared.UnknownNameError as error:
        fail(f"The policy cannot be used: {error}; stock ones are {', '.join(POLICIES)}.")
    except records.HistoryError as error:
        fail(str(error))
    groups = recorded.snapshots.keys() | recorded.rounds.keys()
    unknown = sorted(set(group or []) - groups)
    if unknown:
        fail(f"The history has no group {unknown[0]}; it has {', '.join(sorted(groups))}.")
    for reason, count in sorted(recorded.refused.items()):
        say(f"{count} records were left out: {reason}.", err=True)
    left_out = sorted(recorded.assignments.keys() - groups)
    if left_out:
        say(f"Left out, as their rebalances were not recorded whole: {', '.join(left_out)}.", err=True)
    found: list[records.Replayed] = []
    weights = recorded.weights()
    for name in sorted(group or groups):
        rounds, plans = recorded.snapshots.get(name, []), recorded.assignments.get(name, [])
        if policies or not policy:
            found += records.replay_rounds(records.rounds_of(rounds, plans, recorded.sources), policies, weights)
        if of_tasks or not policy:
            found += replay_tasks(recorded.rounds.get(name, []), plans, of_tasks, weights, recorded.sources)
    if not found:
        fail(f"The history {file} holds no plan beside its snapshots; record it again with `bellwether history`.")
    if output.is_document:
        print_document([{**asdict(one), "same": one.same} for one in found], output)
    else:
        _draw_replayed(found)
    if not all(one.same for one in found):
        raise typer.Exit(Exit.DIFFERS)


def _draw_replayed(found: Sequence[records.Replayed]) -> None:
    for one in found:
        if one.same:
            continue
        what = one.failed or f"{one.differs} of {one.partitions} would be placed otherwise"
        doubt = f" ({one.doubt})" if one.doubt else ""
        policies = f"{one.recorded_policy} then, {one.policy} now"
        when = f"generation {one.generation}" if one.generation >= 0 else f"at {_at(one.decided_at_ms)}"
        say(f"{one.group}, {when}: {policies}: {what}{doubt}")
        for name in ("moved", "unowned", "cross_rack", "spread") if one.now and one.recorded else ():
            then, now = getattr(one.recorded, name), getattr(one.now, name)
            if then != now:
                say(f"    {name.replace('_', ' ')}: {then} then, {now} now")
        for change in one.differences[:DIFFERENCES_SHOWN]:
            say(f"    {change.item}: {change.recorded or 'nobody'} then, {change.now or 'nobody'} now")
    same = sum(one.same for one in found)
    say(f"Replayed {counted(len(found), 'rebalance')}: {same} the same, {len(found) - same} different.")


def _at(ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(ms / 1000))


@dataclass(slots=True)
class Placed:
    """A plan as its events tell it, by task: who runs it, and who has which kind of copy."""

    active: dict[str, str] = field(default_factory=dict)
    copies: dict[str, set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    moved: set[str] = field(default_factory=set)
    cross_rack: int = 0

    @classmethod
    def of(cls, entries: Iterable[EventRecord]) -> "Placed":
        found = cls()
        for entry in entries:
            if entry["role"] != ACTIVE:
                found.copies[entry["task"]].add((entry["role"], entry["member"]))
                continue
            found.active[entry["task"]] = entry["member"]
            if entry["previous"] not in (None, entry["member"]):
                found.moved.add(entry["task"])
            racks = entry["replica_racks"]
            found.cross_rack += bool(racks and entry["rack"]) and entry["rack"] not in racks
        return found

    def of_task(self, task: str) -> str | None:
        """In words: `a, standby b`."""
        words = [self.active[task]] if task in self.active else []
        words += [f"{role} {member}" for role, member in sorted(self.copies.get(task, ()))]
        return ", ".join(words) or None

    def cost(self, tasks: int, processes: Sequence[str]) -> records.PlanCost:
        held = Counter(self.active.values())
        counts = [held[name] for name in processes] or [0]
        return records.PlanCost(len(self.moved), tasks - len(self.active), self.cross_rack, max(counts) - min(counts))


def replay_tasks(
    rounds: Iterable[EventRecord],
    assignments: Iterable[EventRecord],
    policies: Sequence[str],
    weights: shared.Weights,
    sources: Mapping[tuple[str, int, int], str],
) -> Iterator[records.Replayed]:
    """Every recorded rebalance of one application under each of these policies; none: under the one that it was made
    by. `sources`: as in `records.rounds_of`.

    Raises ApplicationError for a policy that cannot be used. A rebalance without its plan is left out.
    """
    parts: dict[tuple[int, int], list[EventRecord]] = defaultdict(list)
    for part in assignments:
        parts[part["generation"], part["decided_at_ms"]] += part["entries"]
    for one in sorted(rounds, key=lambda r: (r["decided_at_ms"], r["generation"])):
        entries = parts.get((one["generation"], one["decided_at_ms"]))
        observed = sources.get((one["group"], one["generation"], one["decided_at_ms"])) == records.OBSERVED
        for name in policies or (one["policy"],):
            if entries:
                found = _replayed(one, Placed.of(entries), name, weights)
                yield _not_led(found) if observed else found


def _not_led(found: records.Replayed) -> records.Replayed:
    return replace(found, recorded_policy=records.OBSERVED, doubt="" if found.same else records.ANOTHERS)


def _replayed(one: EventRecord, recorded: Placed, policy: str, weights: shared.Weights) -> records.Replayed:
    head = (one["group"], one["generation"], one["decided_at_ms"], policy, one["policy"])
    count = len(recorded.active)
    try:
        decision = _decided(asked := planning.unpack(one["inputs"]), policy, weights)
    except (planning.UnreadableRoundError, shared.RefusalError) as error:
        return records.Replayed(*head, 0, count, count, failed=str(error))
    now, table = Placed.of(assignment_entries(decision.plan)), decision.plan.view.tasks
    names = [str(process.process_id) for process in decision.plan.view.processes]
    tasks = [str(table.task_id(task)) for task in range(table.size)]
    different = [task for task in tasks if recorded.of_task(task) != now.of_task(task)]
    shown = different[: records.DIFFERENCES_MAX]
    listed = tuple(records.Difference(task, recorded.of_task(task), now.of_task(task)) for task in shown)
    return records.Replayed(
        *head,
        members=len(asked.world.raw.others),
        partitions=len(tasks),
        differs=len(different),
        differences=listed,
        recorded=recorded.cost(len(tasks), names),
        now=now.cost(len(tasks), names),
        doubt="weights are not recorded" if policy == LOAD_AWARE and different else "",
    )


def _decided(asked: planning.TaskRequest, policy: str, weights: shared.Weights) -> shared.Decision[TaskPlan]:
    config = replace(asked.config, policy=policy)
    try:
        assignors = planning.load_application(replace(config, topology=None), lambda: weights).assignors
    except planning.ApplicationError as error:
        raise shared.RefusalError(shared.RefusalCause.CONFIG, str(error)) from error
    return planning.make_tasks(assignors, replace(asked, config=config)).decision


def replay_history(history: Path, policies: Sequence[str], output: Output) -> None:
    """`bellwether simulate --history`: replays recorded groups and says what each policy would have cost."""
    wanted = tuple(policies or POLICIES)
    unknown = sorted(set(wanted) - set(POLICIES))
    if unknown:
        fail(f"The policy {unknown[0]} is not known; stock ones are {', '.join(POLICIES)}.")
    try:
        found = records.read_history(history)
    except records.HistoryError as error:
        fail(str(error))
    if not found.snapshots:
        fail(
            f"The history {history} holds no consumer group; `bellwether replay` decides rebalances of applications"
            " again."
        )
    began = time.perf_counter()
    outcomes = records.replay_here(found, wanted)
    took_s = time.perf_counter() - began
    for reason, count in sorted(found.refused.items()):
        say(f"{count} records were left out: {reason}.", err=True)
    if output.is_document:
        print_document(records.summary(outcomes), output)
        return
    say(records.recommendation(outcomes))
    say(f"Replayed {counted(len(outcomes), 'rebalance')} in {took_s:.2f} s.")
