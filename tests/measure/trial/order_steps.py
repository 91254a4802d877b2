"""Steps on orders: they do what they say, start nothing that moves nothing, and are recorded as what they are."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.interop.support.bellwether import Ended, run_to_end
from tests.interop.support.members import Flock, Member
from tests.measure.trial.stage import PARTITIONS, Findings, Product, Stage, after, within

REFUSED = 2
QUIET_S = 14.0  # longer than `rebalance_interval_ms_min`
MOVED_S = 40.0


@dataclass(frozen=True, slots=True)
class Led:
    """A led group of two confluent-kafka consumers in az1 and az2, at rest, and its control topic."""

    stage: Stage
    product: Product
    members: list[Member]
    group: str
    control: str
    flock: Flock

    def order(self, *arguments: str) -> Ended:
        return self.stage.run(*arguments, "--topic", self.control)

    def in_force(self) -> list[str]:
        """The orders that stand, as sentences."""
        message = self.stage.json("orders", "--topic", self.control)
        return [order["sentence"] for order in message["orders"]]


@contextmanager
def led(stage: Stage, group: str, events: str = "") -> Iterator[Led]:
    control = f"{group}-control"
    recording = {"events": {"topic": events}} if events else {}
    with (
        stage.bellwether(group, control_topic=control, **recording) as product,
        Flock(stage.cluster.bootstrap) as flock,
    ):
        stage.led(product, group)
        members = stage.members(flock, group)
        stage.settled(members, group)
        stage.rests(group)
        assert within(20, lambda: control in stage.topics()), f"no {control}:\n{product.process.tail(10)}"
        yield Led(stage, product, members, group, control, flock)


def refused(found: Findings, what: str, ended: Ended) -> None:
    found.check(ended.code == REFUSED, f"{what}: exit code {ended.code}, {one_line(ended)}")


def one_line(ended: Ended) -> str:
    return " ".join(ended.text.split())[:160] or "no word"


def pinning_to_a_rack_without_a_member_is_refused(stage: Stage, found: Findings) -> None:
    with led(stage, "pinned-nowhere") as scene:
        item = f"{scene.group}-3"
        refused(found, "pin to az3, where nobody is", scene.order("pin", scene.group, item, "rack:az3"))
        refused(found, "pin of a partition that is not there", scene.order("pin", scene.group, "none-9", "rack:az1"))
        found.check(not scene.in_force(), f"orders that stand: {scene.in_force() or 'none'}")


def draining_without_a_standby_is_refused(stage: Stage, found: Findings) -> None:
    with led(stage, "drained-alone") as scene:
        refused(found, "drain", scene.order("drain"))
        found.check(stage.shown(scene.group).led_by_bellwether, "the group is still led")


def a_rack_that_does_not_exist_starts_no_rebalance(stage: Stage, found: Findings) -> None:
    with led(stage, "evacuated-nowhere") as scene:
        generation = stage.rests(scene.group)
        ended = scene.order("evacuate", scene.group, "rack:az9")
        refused(found, "evacuate rack:az9", ended)
        if ended.code:
            forced = scene.order("evacuate", scene.group, "rack:az9", "--force")
            found.note(f"with --force exit code {forced.code}")
        time.sleep(QUIET_S)
        passed = stage.brokers.generation(scene.group) - generation
        found.check(passed == 0, f"{passed} generations within {QUIET_S:.0f} s")


def an_order_is_recorded_as_the_cause_of_its_rebalance(stage: Stage, found: Findings) -> None:
    with led(stage, "pinned-cause") as scene:
        item, generation = _away(scene), stage.rests(scene.group)
        ended = scene.order("pin", scene.group, item, _other_rack(scene, item))
        assert ended.code == 0, ended.text
        took_s = within(MOVED_S, lambda: bool(scene.product.lines(scene.group, generation)))
        assert took_s is not None, f"no round {after(took_s, MOVED_S)}\n{scene.product.process.tail(10)}"
        cause = scene.product.lines(scene.group, generation)[-1]["cause"]
        found.check("pin" in cause and item in cause, f"/decisions: '{cause}'")
        logged = [e["cause"] for e in scene.product.process.log("decision") if e["generation"] > generation]
        found.check(bool(logged) and "pin" in logged[0] and item in logged[0], f"log: '{logged[:1]}'")


def replay_across_orders_is_all_the_same(stage: Stage, found: Findings) -> None:
    events = "replayed-events"
    with led(stage, "replayed", events) as scene:
        for order in _orders_of_a_day(scene):
            generation = stage.rests(scene.group)
            ended = scene.order(*order)
            assert ended.code == 0, ended.text
            within(MOVED_S, lambda before=generation: stage.brokers.generation(scene.group) > before)  # type: ignore[misc]
            stage.rests(scene.group)
            stage.joining(scene.flock, scene.group, rack="az3")
            within(MOVED_S, lambda before=generation + 1: stage.brokers.generation(scene.group) > before)  # type: ignore[misc]
            stage.rests(scene.group)
        file = stage.folder / "replayed.avro"
        copied = stage.run("history", "--topic", events, "--file", str(file))
        assert copied.code == 0, copied.text
        rebalances = _replayed(str(file))
        different = [one["generation"] for one in rebalances if not one["same"]]
        found.check(
            bool(rebalances) and not different, f"{len(rebalances)} rounds, different are {different or 'none'}"
        )


def _orders_of_a_day(scene: Led) -> Iterator[tuple[str, ...]]:
    """Each is made when the one before has been carried out, so that it moves something."""
    item = _away(scene)
    yield ("pin", scene.group, item, _other_rack(scene, item))
    yield ("evacuate", scene.group, "rack:az1")
    yield ("unpin", scene.group, item)


def _replayed(file: str) -> list[dict[str, object]]:
    ended = run_to_end(["replay", file, "--output", "json"])
    assert ended.code in (0, 4), ended.text
    found: list[dict[str, object]] = json.loads(ended.stdout)
    return found


def orders_to_nobody_are_refused_and_leave_no_trace(stage: Stage, found: Findings) -> None:
    for arguments in (
        ("leave", "nobody"),
        ("pause", "nobody"),
        ("evacuate", "nobody", "rack:az1"),
        ("rebalance", "nobody"),
    ):
        control = f"nowhere-{arguments[0]}"
        refused(found, arguments[0], stage.run(*arguments, "--topic", control))
        found.check(
            control not in stage.topics(), f"its topic {'was made' if control in stage.topics() else 'is not there'}"
        )
    with led(stage, "somebody") as scene:
        refused(found, "leave of a misspelt group", scene.order("leave", "somebdoy"))
        found.check(not scene.in_force(), f"orders that stand: {scene.in_force() or 'none'}")


def _away(scene: Led) -> str:
    """A partition of the first member."""
    owned = sorted(scene.members[0].owned())
    assert owned, f"the first member owns nothing of {PARTITIONS}"
    return f"{owned[0][0]}-{owned[0][1]}"


def _other_rack(scene: Led, item: str) -> str:
    holder = next(m for m in scene.members if any(f"{t}-{p}" == item for t, p in m.owned()))
    return "rack:az2" if holder.fields["rack"] == "az1" else "rack:az1"
