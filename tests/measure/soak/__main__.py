"""`make soak`: real brokers, a producer that never stops, groups of mixed clients with joins, leaves, kills and growing
topics at random, all led by one Bellwether. After each action every partition must settle on exactly one member, and at
the end no record may have been skipped. Exit code 1 on a violation.
"""

import argparse
import random
import secrets
import sys
import threading
import time
from collections.abc import Callable
from statistics import median

from rich.console import Console
from rich.table import Table

from tests.interop.support.bellwether import INSTANCE, Bellwether, cpu_s, resident_mb
from tests.interop.support.brokers import KafkaCluster
from tests.interop.support.jvm import MissingToolError, java
from tests.interop.support.members import Flock, Member, consumed_gaps, why_unavailable
from tests.interop.support.rounds import rounds
from tests.measure.soak.world import GROUPS, Actor, Story, Topics

CATCH_UP_S = 60.0
GROWTH_PAUSE_S = (20.0, 60.0)


def soak(cluster: KafkaCluster, minutes: float, seed: int, console: Console) -> bool:
    """Runs it all and prints the table; whether every promise held."""
    began = time.monotonic()
    until = began + minutes * 60
    topics = Topics(cluster)
    names = [group.name for group in GROUPS]

    def said(text: str) -> None:
        console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {text}", highlight=False)

    with Bellwether(cluster, names) as lead, Flock(cluster.bootstrap) as flock:
        actors = [
            Actor(group, tuple(k for k in group.kinds if why_unavailable(k) is None), flock, topics, lead, seed)
            for group in GROUPS
        ]
        topics.start()
        threads = [threading.Thread(target=actor.run, args=(until, said)) for actor in actors]
        for thread in threads:
            thread.start()
        _grow(topics, random.Random(f"{seed} growth"), until, said)
        for thread in threads:
            thread.join()
        topics.stop()
        if topics.trouble is not None:
            actors[0].story.violations.append(topics.trouble)
        consumed = {actor.story.group.name: _read_to_the_end(actor, topics, flock) for actor in actors}
        for actor in actors:
            actor.judge_ownership()
        _judge_leadership(cluster, lead, [actor.story for actor in actors])
        cost = f"{resident_mb(lead.pid):.0f} MB resident, {cpu_s(lead.pid) / (time.monotonic() - began):.1%} of a core"
    stories = [actor.story for actor in actors]
    console.print(_table(cluster, stories, consumed))
    console.print(f"{topics.produced:,} records produced; bellwether: {cost}")
    for story in stories:
        for violation in story.violations:
            console.print(f"[red]VIOLATION[/red] {story.group.name}: {violation}", highlight=False)
    return not any(story.violations for story in stories)


def _grow(topics: Topics, dice: random.Random, until: float, said: Callable[[str], None]) -> None:
    while (pause := dice.uniform(*GROWTH_PAUSE_S)) < until - time.monotonic():
        time.sleep(pause)
        what = topics.grow(dice)
        if what is not None:
            said(what)
    time.sleep(max(0.0, until - time.monotonic()))


def _read_to_the_end(actor: Actor, topics: Topics, flock: Flock) -> int:
    """Waits until the group has read everything; notes what it has skipped. Returns how many records it reported."""
    story = actor.story
    ends = topics.ends(story.group.topics)
    everybody = [m for m in flock.members if m.group == story.group.name]
    deadline = time.monotonic() + CATCH_UP_S
    while (gaps := consumed_gaps(everybody, ends)) and time.monotonic() < deadline:
        time.sleep(0.5)
    for (topic, partition), missing in sorted(gaps.items()):
        story.violations.append(f"{topic}-{partition}: offsets {missing} of {ends[topic, partition]} were never read")
    return sum(_reported(member) for member in everybody)


def _reported(member: Member) -> int:
    return sum(last - first + 1 for spans in member.consumed.values() for first, last in spans)


def _judge_leadership(cluster: KafkaCluster, lead: Bellwether, stories: list[Story]) -> None:
    if not lead.running:
        stories[0].violations.append(f"bellwether ended: {lead.tail(10)}")
    for story in stories:
        strangers = [r for r in rounds(cluster, story.group.name) if not r.leader.startswith(f"{INSTANCE}-")]
        if strangers:
            story.violations.append(f"somebody else led: {strangers}\n{lead.said_of(story.group.name)}")


def _table(cluster: KafkaCluster, stories: list[Story], consumed: dict[str, int]) -> Table:
    table = Table(title="Soak: groups led by one Bellwether on three brokers")
    table.add_column("group", overflow="fold")
    table.add_column("clients", overflow="fold")
    for name in (
        "joins",
        "leaves",
        "kills",
        "generations",
        "settled rounds",
        "settling s: median / most",
        "records read",
    ):
        table.add_column(name, justify="right")
    table.add_column("violations", justify="right")
    for story in stories:
        table.add_row(
            f"{story.group.name} ({', '.join(story.group.assignors)})",
            ", ".join(story.group.kinds),
            str(story.joins),
            str(story.leaves),
            str(story.kills),
            str(len(rounds(cluster, story.group.name))),
            str(len(story.settled_s)),
            f"{median(story.settled_s):.1f} / {max(story.settled_s):.1f}" if story.settled_s else "-",
            f"{consumed[story.group.name]:,}",
            f"[{'red' if story.violations else 'green'}]{len(story.violations)}",
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.measure.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats the choices of an earlier run")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    console = Console(width=None if sys.stdout.isatty() else 180)
    try:
        java()
    except MissingToolError as missing:
        console.print(f"The soak needs real brokers, and {missing}.")
        return 2
    console.print(f"seed {seed}, {options.minutes:g} minutes")
    with KafkaCluster() as cluster:
        held = soak(cluster, options.minutes, seed, console)
    console.print("every promise held" if held else f"[red]violated[/red]; run again with --seed {seed}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
