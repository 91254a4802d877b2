"""What a membership asks for in random scenarios, made by a seed: `python -m` writes the file.

A step is an event, the commands that came of it, and a fingerprint of all that they say, the state and the next
deadline. A difference is either a mistake or meant: then write the file anew and look at the difference.
"""

import json
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, GroupMembership, MembershipConfig

FILE = Path(__file__).with_name("membership-scenarios.jsonl")
SEEDS = range(120)
STEPS = 90
NODES = tuple(membership.Node(number, f"broker{number}", 9092) for number in (1, 2))
CODES = (14, 15, 16, 22, 25, 27) * 9 + (79, 81, -1, 3, 999) * 3 + (23, 24, 26, 30, 82, 69)
PEOPLE = ("a", "d", "app-1", "consumer-2", "x-0b5f", "x-9c1d", "zz", *(f"m-{n:x}" for n in range(100, 107)))
CROWDS = (0, 1, 2, 2, 3, 3, 11, 12, 13)
ORDERS = (
    *[membership.RebalanceWanted("told", "told")] * 3,
    membership.StepAsideWanted("told"),
    *[membership.RebalanceOrdered("told")] * 2,
    membership.OrdersInForce("leave", ""),
    membership.OrdersInForce("", "pause"),
    *[membership.OrdersInForce("", "")] * 2,
    *[membership.ActiveRoleChanged(True, "")] * 3,
    membership.ActiveRoleChanged(False, "told"),
)


def random_config(random: Random) -> MembershipConfig:
    instance = random.choice([None, None, "bw"])
    return MembershipConfig(
        group_id="g",
        mode=random.choice(["lead"] * 9 + ["assist"]),
        adopt=random.choice(["when-empty", "succeed", "take-over", "take-over"]),
        instance_id=instance,
        client_id=random.choice([None, "bw"]),
        standby=instance is not None and random.random() < 0.4,
        protocols=random.choice([(STREAMS_PROTOCOL,), ("range", "sticky"), ("range", "sticky")]),
        topics=random.choice([(), ("control",)]),
        leave_on_stop=random.random() < 0.7,
        adopt_empty=random.random() < 0.8,
        subscribes=True,
        linger_ms=random.choice([None, 1_000, 60_000]),
        coalesce_running_ms=random.choice([0, 0, 500]),
    )


class Scenario:
    """A broker that mostly answers as one would wish. `crowd` are the other members."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"story {seed}")
        self.config = random_config(self.random)
        self.machine = GroupMembership(self.config)
        self.now, self.generation = 50.0, 0
        self.crowd = self.random.sample(PEOPLE, self.random.choice(CROWDS))
        self.leads = self.config.adopt != "take-over" and self.random.random() < 0.7
        self.mine: set[str] = set()
        self.open: dict[int, membership.Request] = {}
        self.asked: list[membership.Decide | membership.RebuildMemory] = []
        self.steps: list[str] = []
        self._step("start", self.machine.start(self.now))

    def reported(self) -> list[str]:
        for number in range(STEPS):
            if "MembershipStopped" in self.steps[-1]:
                break
            self._send(self._next() if number != STEPS - 10 else membership.StopRequested())
        return self.steps

    def _send(self, event: membership.Event) -> None:
        name = type(event).__name__
        error = getattr(event, "error", 0)
        self._step(f"{name} {error}" if error else name, self.machine.handle(event, self.now))

    def _step(self, event: str, commands: tuple[membership.Command, ...]) -> None:
        for command in commands:
            match command:
                case membership.Abandon():
                    self.open.pop(command.request_id, None)
                case membership.Decide():
                    self.asked.append(command)
            if isinstance(command, membership.Request):
                self.open[command.request_id] = command
        deadline = self.machine.deadline()
        due = "never" if deadline is None else f"{deadline - self.now:.6f}"
        everything = repr((_values(commands), self.machine.view.state.name, due))
        print_of = blake2b(everything.encode(), digest_size=3).hexdigest()
        asked = " ".join(type(command).__name__ for command in commands)
        self.steps.append(f"{event} > {asked} {print_of}")

    def _next(self) -> membership.Event:
        pick = self.random.random()
        if pick < 0.05:
            return self.random.choice(ORDERS)
        if pick < 0.09:
            self.crowd = self.random.sample(PEOPLE, self.random.choice(CROWDS))
            self.leads = self.random.random() < 0.5
        if self.asked and pick < 0.4:
            return self._planned(self.asked.pop())
        if self.open and pick < 0.85:
            number = self.random.choice(sorted(self.open))
            request = self.open.pop(number)
            if pick < 0.11:
                return membership.RequestFailed(
                    number, self.random.choice([*membership.Failure, *[membership.Failure.DISCONNECTED] * 4]), "told"
                )
            return self._answer(number, request, 0 if pick < 0.8 else self.random.choice(CODES))
        deadline = self.machine.deadline()
        if deadline is None or pick > 0.98:
            self.now += self.random.choice([0.001, 0.5, 3.0, 11.0, 400.0])
        else:
            self.now = max(self.now, deadline)
        return membership.Wake()

    def _planned(self, asked: membership.Decide | membership.RebuildMemory) -> membership.Event:
        good, number = self.random.random() < 0.85, asked.generation
        if isinstance(asked, membership.Decide) and asked.dry:
            worth = self.random.random() < 0.5
            return (
                membership.ComparisonReady(number, worth, "told", ("t",))
                if good
                else membership.ComparisonFailed(number, "told")
            )
        plan = tuple((member.member_id, b"for " + member.member_id.encode()) for member in asked.members)
        pending = self.random.random() < 0.3
        return (
            membership.DecisionReady(number, plan, pending, ("t",))
            if good
            else membership.DecisionFailed(number, "told")
        )

    def _answer(self, number: int, request: membership.Request, error: int) -> membership.Event:
        match request:
            case membership.FindCoordinator():
                return membership.CoordinatorAnswer(
                    number, error, None if error else self.random.choice((NODES[0], *NODES))
                )
            case membership.Describe():
                return self._described(number, error)
            case membership.Join() if not error and not request.member_id and request.instance_id is None:
                self.mine.add(f"bw-{number}")
                return membership.JoinAnswer(number, 79, member_id=f"bw-{number}")
            case membership.Join():
                return self._joined(number, error, request)
            case membership.Sync():
                return membership.SyncAnswer(number, error, b"" if error else b"bytes")
            case membership.Heartbeat():
                return membership.HeartbeatAnswer(number, error)
            case membership.Evict():
                self.crowd = [m for m in self.crowd if error or m not in request.member_ids]
                self.leads = self.leads or not error
                return membership.LeaveAnswer(number, error)
            case membership.Leave():
                self.mine.discard(request.member_id)
                return membership.LeaveAnswer(number, error)

    def _described(self, number: int, error: int) -> membership.Event:
        state = self.random.choice(["Stable"] * 4 + ["PreparingRebalance"] * 2 + ["CompletingRebalance", "Dead"])
        ids = self.random.sample([*self.crowd, *sorted(self.mine)], len(self.crowd) + len(self.mine))
        members = tuple(
            membership.DescribedMember(m, f"i-{m}" if m == "d" else None, b"metadata", b"assignment", m) for m in ids
        )
        kind = "consumer" if self.random.random() < 0.99 else "connect"
        if not members:
            return membership.DescribeAnswer(number, error, "Empty")
        return membership.DescribeAnswer(number, error, state, kind, self.config.protocols[0], members)

    def _joined(self, number: int, error: int, request: membership.Join) -> membership.Event:
        own = request.member_id or f"bw-{number}"
        if error:
            return membership.JoinAnswer(number, error, member_id=own if error == 79 else "")
        self.generation += 1
        leads = self.leads or not self.crowd
        leader = own if leads else self.crowd[0]
        crowd = (membership.JoinedMember(m, f"i-{m}" if m == "d" else None, b"theirs") for m in self.crowd)
        members = (membership.JoinedMember(own, request.instance_id, b"own"), *crowd)
        skip = leads and request.instance_id is not None and self.random.random() < 0.3
        protocol = request.protocols[0][0]
        return membership.JoinAnswer(number, 0, self.generation, protocol, leader, own, skip, members if leads else ())


def _values(thing: Any) -> Any:
    """Names of classes and values of fields, whatever fields are called."""
    if isinstance(thing, Enum):
        return thing.name
    if isinstance(thing, tuple):
        return tuple(map(_values, thing))
    if hasattr(thing, "__dataclass_fields__"):
        return (type(thing).__name__, *(_values(getattr(thing, field.name)) for field in fields(thing)))
    return thing


def record(seed: int) -> dict[str, Any]:
    return {"seed": seed, "steps": Scenario(seed).reported()}


def records() -> Iterator[dict[str, Any]]:
    return map(record, SEEDS)


if __name__ == "__main__":
    FILE.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records()), "utf-8")
