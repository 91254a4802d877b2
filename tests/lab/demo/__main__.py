"""`make demo`: three brokers in three racks inside this process, real consumers in processes of their own, Bellwether
leading both of their groups. A topic appears. In one group the only member of a rack is killed, and another joins
there; in the other, load begins to count, a third of which is on one partition. Every rebalance is shown, then both
repairs in one picture, and at the end the members themselves are asked what they own.

The brokers are librdkafka's mock: `embedded_brokers` says what that changes. Above all a rebalance lasts the session
timeout less a second, hence the short sessions of `group`.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from rich.console import Console

from bellwether_kafka.coordinator.runtime import ServiceOutcome
from bellwether_kafka.coordinator.telemetry import configure_logs
from tests.kit.brokers import EmbeddedCluster, EmbeddedClusterError
from tests.lab.demo.repair_picture import repair_picture, svg
from tests.lab.demo.screen import show_summary
from tests.lab.demo.stage import DemoError, Stage

TOTAL_SECONDS = 58.0
WIDTH = 100
EXIT_INTERRUPTED = 130
TOPICS = {"clicks": 6, "orders": 6}
LATE_TOPIC = ("refunds", 4)


async def play(stage: Stage, file: Path | None = None) -> None:
    """The scenes, in order. The last picture is also written to `file`, as SVG. Raises DemoError."""
    bootstrap, subscribed = stage.brokers.bootstrap, [*TOPICS, LATE_TOPIC[0]]
    for name, partitions in TOPICS.items():
        stage.create_topic(name, partitions)
    await stage.leading()
    for number, rack in enumerate(("az1", "az2", "az3"), 1):
        await stage.billing.start_member(f"b{number}", "", bootstrap, subscribed)
        await stage.shipping.start_member(f"s{number}", rack, bootstrap, subscribed)
    await stage.settled("Three consumers start in each group, those of shipping in three racks")
    stage.create_topic(*LATE_TOPIC)
    await stage.settled(f"The topic {LATE_TOPIC[0]}, long subscribed to, is created with {LATE_TOPIC[1]} partitions")
    await stage.shipping.kill_member("s2")
    await stage.settled("s2, the only one in az2, is killed (kill -9: its session must expire first)")
    before = {group.group_id: group.decisions[-1] for group in stage.groups}
    await stage.load_counts()
    await stage.shipping.start_member("s4", "az2", bootstrap, subscribed)
    await stage.settled(
        "s4 joins in az2; what is written to each partition is known now, and billing is rebalanced by it"
    )
    picture = repair_picture(stage.repairs(before))
    stage.console.print(picture)
    if file is not None:
        await asyncio.to_thread(file.write_text, svg(picture, WIDTH), encoding="utf-8")


async def perform(console: Console, file: Path | None = None) -> int:
    """Runs the whole demo. Returns the exit code. `file` is as in `play`."""
    began = time.monotonic()
    with EmbeddedCluster() as brokers:
        stage = Stage(brokers, console)
        console.print(
            "Three brokers in the racks az1, az2, az3 (librdkafka's mock), two groups of real consumers, "
            "[bold]Bellwether[/] leads both.\n"
        )
        service = asyncio.create_task(stage.service.run(handle_signals=False))
        writing = asyncio.create_task(stage.hot.write())
        try:
            async with asyncio.timeout(TOTAL_SECONDS):
                await _unless_ended(play(stage, file), service)
        except TimeoutError:
            console.print(f"[bold red]The demo was not over after {TOTAL_SECONDS:.0f} s; is the machine very busy?")
            return 1
        except DemoError as error:
            console.print(f"[bold red]{error}")
            return 1
        else:
            show_summary(console, stage.groups, sum(stage.topics.values()), time.monotonic() - began)
            return 0
        finally:
            writing.cancel()
            await stage.close()
            stage.service.stop()
            await service


async def _unless_ended(scenes: Coroutine[Any, Any, None], service: asyncio.Task[ServiceOutcome]) -> None:
    """Plays the scenes; raises DemoError at once when Bellwether ends meanwhile."""
    playing = asyncio.create_task(scenes)
    try:
        await asyncio.wait({playing, service}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            raise DemoError(f"Bellwether has ended: {' '.join(service.result().messages) or 'without a message'}")
        playing.result()
    finally:
        playing.cancel()


def main() -> int:
    """The entry point of `python -m tests.lab.demo`."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--picture", type=Path, help="write the picture before and after to this file, as SVG")
    file = parser.parse_args().picture
    configure_logs("error", "console")
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    try:
        return asyncio.run(perform(console, file))
    except EmbeddedClusterError as error:
        console.print(f"[bold red]{error}")
        return 1
    except KeyboardInterrupt:
        console.print("Stopped.")
        return EXIT_INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
