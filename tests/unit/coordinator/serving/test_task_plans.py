"""What a broker is answered for an application: the plan of `streams-ha`, complete and valid, or a reason."""

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import ClusterView, Rule
from bellwether_kafka.assignors.streams.application import AssignmentConfigs, Subtopology, Topology
from bellwether_kafka.coordinator.planning import StreamsConfig
from bellwether_kafka.coordinator.serving import Answers, KnownApplication, KnownGroups, KnownMember, Served, TopicNames
from tests.kit.serving import lacked, refusal
from tests.seeds import seeds
from tests.unit.coordinator.serving.task_requests import AskingForTasks, Placed, Task, Thread, placed

RACKS = ("az1", "az2", "az3")
SHAPE = {"0": (12, True), "1": (12, False)}
GROUP = "wordcount"


def process_id(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def six(standbys: int = 1, threads: int = 1) -> AskingForTasks:
    """Six processes, two in each rack, that have nothing yet."""
    members = {f"m{p}-{t}": Thread(process_id(p), RACKS[p % 3]) for p in range(6) for t in range(threads)}
    return AskingForTasks(SHAPE, members, standbys)


def afterwards(asking: AskingForTasks, plan: Placed, *without: str) -> AskingForTasks:
    """The next request: members have what the plan gave them, and some have left."""
    members = {
        name: replace(
            member,
            active=[task for task, owner in plan.active.items() if owner == name],
            copies=[task for task, holders in plan.standbys.items() if name in holders],
        )
        for name, member in asking.members.items()
        if name not in without
    }
    return replace(asking, members=members)


class World:
    """Answers about one group, with what is configured and observed of it."""

    def __init__(self, config: StreamsConfig | None = None, observed: KnownApplication | None = None) -> None:
        self.served, self.groups = list[Served](), KnownGroups()
        self.rules: tuple[Rule, ...] | None = ()
        self.answers = Answers(
            self.groups,
            TopicNames(),
            lambda _: None,
            self.served.append,
            rules_of=lambda _: self.rules,
            application_of=lambda _: config,
            observed=lambda _: observed,
        )

    def answer(self, asking: AskingForTasks) -> bytes:
        answer, done = self.answers.answer(asking.encode())
        done(True)
        return answer

    def plan(self, asking: AskingForTasks) -> Placed:
        return valid(asking, placed(asking, self.answer(asking)))


def known_group(config: StreamsConfig | None = None, observed: KnownApplication | None = None) -> World:
    world = World(config, observed)
    world.groups.see(GROUP, dict.fromkeys(six().members, KnownMember()))
    return world


def valid(asking: AskingForTasks, plan: Placed) -> Placed:
    """Each task runs once; standbys are of tasks with state, and no process has a task twice."""
    assert set(plan.active) == set(asking.tasks)
    for task, holders in plan.standbys.items():
        processes = [asking.members[name].process for name in (plan.active[task], *holders)]
        assert len(set(processes)) == len(processes), (task, processes)
        if not asking.subtopologies[task[0]][1]:
            assert not holders
    return plan


def racks_of(asking: AskingForTasks, plan: Placed, task: Task) -> list[str]:
    return [asking.members[name].rack for name in (plan.active[task], *plan.standbys[task])]


def stateful(asking: AskingForTasks) -> list[Task]:
    return [task for task in asking.tasks if asking.subtopologies[task[0]][1]]


def test_tasks_are_even_and_each_standby_is_in_another_rack() -> None:
    asking = six(standbys=2)
    plan = World().plan(asking)
    for name in SHAPE:
        assert set(Counter(owner for (part, _), owner in plan.active.items() if part == name).values()) == {2}
    assert all(set(racks_of(asking, plan, task)) == set(RACKS) for task in stateful(asking))


def test_standbys_are_spread_over_the_tags_that_the_broker_names() -> None:
    zones = ("a", "a", "b", "b", "c", "c")
    members = {
        name: replace(member, rack="", tags={"zone": zones[p]})
        for p, (name, member) in enumerate(six().members.items())
    }
    asking = replace(six(standbys=2), members=members, spread_by=["zone"])
    plan = World().plan(asking)
    for task in stateful(asking):
        holders = (plan.active[task], *plan.standbys[task])
        assert {members[name].tags["zone"] for name in holders} == {"a", "b", "c"}


def test_what_runs_stays_and_the_tasks_of_a_process_that_left_go_to_their_standbys() -> None:
    world, asking = World(), six()
    first = world.plan(asking)
    assert world.plan(afterwards(asking, first)) == first, "nothing has changed"
    later = afterwards(asking, first, "m5-0")
    plan = world.plan(later)
    lost = [task for task in stateful(asking) if first.active[task] == "m5-0"]
    promoted = [task for task in lost if plan.active[task] in first.standbys[task]]
    assert (len(lost), len(promoted)) == (2, 2)
    assert all(len(plan.standbys[task]) == 1 for task in stateful(later))


def test_a_process_that_joins_gets_its_share_at_once_because_warm_ups_are_the_brokers() -> None:
    world, asking = World(), six()
    first = world.plan(asking)
    joined = afterwards(asking, first)
    joined = replace(joined, members={**joined.members, "m6-0": Thread(process_id(6), "az1")})
    plan = world.plan(joined)
    assert Counter(plan.active.values())["m6-0"] in (3, 4)
    stayed = sum(plan.active[task] == owner for task, owner in first.active.items())
    assert stayed >= len(asking.tasks) - 4


def test_the_copy_that_lags_least_becomes_the_owner() -> None:
    members = {
        "far": Thread(process_id(1), copies=[("0", 0)], offsets={("0", 0): 10}),
        "near": Thread(process_id(2), copies=[("0", 0)], offsets={("0", 0): 90}),
        "none": Thread(process_id(3)),
    }
    asking = AskingForTasks({"0": (1, True)}, members, standbys=1, ends={("0", 0): 100})
    plan = World().plan(asking)
    assert plan.active[("0", 0)] == "near"
    assert plan.standbys[("0", 0)] == ["far"]


def test_a_copy_whose_offset_is_not_known_yet_is_better_than_none() -> None:
    members = {"a": Thread(process_id(1)), "b": Thread(process_id(2), copies=[("0", 0)]), "c": Thread(process_id(3))}
    plan = World().plan(AskingForTasks({"0": (1, True)}, members))
    assert plan.active[("0", 0)] == "b"


def application(counts: int = 12) -> KnownApplication:
    """The application as observed: partition p is in rack p modulo 3."""
    parts = (
        Subtopology(0, ("clicks",), changelogs=("wordcount-counts-changelog", "wordcount-sizes-changelog")),
        Subtopology(1, ("views",)),
    )
    racks = {
        topic: [[RACKS[p % 3]] for p in range(counts)]
        for topic in ("clicks", "views", "wordcount-counts-changelog", "wordcount-sizes-changelog")
    }
    return KnownApplication(Topology(GROUP, parts, "broker"), ClusterView.of(racks))


def crossing(asking: AskingForTasks, plan: Placed) -> int:
    return sum(asking.members[owner].rack != RACKS[p % 3] for (_, p), owner in plan.active.items())


def test_an_observed_application_is_placed_by_rack_if_its_strategy_says_so() -> None:
    by_rack = StreamsConfig(GROUP, configs=AssignmentConfigs(rack_aware_assignment_strategy="min_traffic"))
    world, asking = known_group(by_rack, application()), six()
    assert crossing(asking, world.plan(asking)) == 0
    planned = world.served[-1].planned
    assert planned is not None
    assert (world.served[-1].group, planned.topics.subscribed) == (GROUP, ("clicks", "views"))
    assert not planned.decision.followup, "the broker waits for former owners itself"


def test_an_observation_of_other_tasks_is_not_used() -> None:
    world, asking = known_group(observed=application(counts=6)), six()
    world.plan(asking)
    planned = world.served[-1].planned
    assert planned is not None
    assert planned.topics.subscribed == ("subtopology-0", "subtopology-1")


def test_an_evacuated_rack_runs_no_task_and_its_copies_stay() -> None:
    world, asking = known_group(), six()
    first = world.plan(asking)
    world.rules = (Rule("ban", "*", "rack:az1"),)
    plan = world.plan(afterwards(asking, first))
    assert "az1" not in {asking.members[owner].rack for owner in plan.active.values()}
    assert any("az1" in racks_of(asking, plan, task) for task in stateful(asking))


def test_before_the_control_topic_is_read_there_is_no_plan_but_a_reason() -> None:
    world = known_group()
    world.rules = None
    assert refusal(world.answer(six())) == "the control topic has not been read yet, so orders on placement are unknown"


def test_another_assignor_is_refused_by_name() -> None:
    asking = replace(six(), assignor="bellwether-rack-first")
    assert "bellwether-rack-first" in refusal(World().answer(asking))


def test_an_evacuated_process_without_a_copy_elsewhere_gives_its_tasks_up() -> None:
    """The broker adds no warm-ups: a task that stayed until one has caught up would stay for ever."""
    world, asking = known_group(), six(standbys=0)
    first = world.plan(asking)
    world.rules = (Rule("ban", "*", f"member:{process_id(1)}"),)
    plan = world.plan(afterwards(asking, first))
    assert "m1-0" not in plan.active.values()
    moved = [task for task, owner in plan.active.items() if owner != first.active[task]]
    assert moved == [task for task, owner in first.active.items() if owner == "m1-0"]


def test_orders_on_a_client_id_hold_once_the_member_has_been_observed() -> None:
    world, asking = known_group(), six()
    world.rules = (Rule("ban", "*", "member:shop-3"),)
    joined = replace(asking, members={**asking.members, "m6-0": Thread(process_id(6), "az1")})
    assert "m6-0" in world.plan(joined).active.values()
    assert lacked(world.answers) == {}, "not observed yet"

    world.groups.see(GROUP, dict.fromkeys(asking.members, KnownMember()) | {"m6-0": KnownMember("shop-3-StreamThread")})
    assert lacked(world.answers) == {GROUP: ""}
    assert "m6-0" not in world.plan(joined).active.values()
    assert lacked(world.answers) == {}


def test_an_application_gets_orders_and_the_rules_of_its_newest_plan_are_known() -> None:
    world, asking = known_group(), six()
    world.rules = (Rule("ban", "*", "rack:az1"),)
    plan = world.plan(asking)
    assert world.answers.policies() == {GROUP: "streams-ha"}
    newest = world.answers.newest(GROUP)
    assert newest is not None
    assert newest.rules == world.rules
    assert newest.owned() == {
        process_id(p): frozenset(task for task, owner in plan.active.items() if owner == f"m{p}-0") for p in range(6)
    }


def random_application(source: random.Random) -> AskingForTasks:
    shape = {str(n): (source.randint(1, 9), source.random() < 0.6) for n in range(source.randint(1, 4))}
    processes = source.randint(1, 6)
    tasks = [(name, p) for name, (count, _) in shape.items() for p in range(count)]
    names = [f"m{p}-{t}" for p in range(processes) for t in range(source.randint(1, 3))]
    runs: dict[str, list[Task]] = {name: [] for name in names}
    copies: dict[str, list[Task]] = {name: [] for name in names}
    offsets: dict[str, dict[Task, int]] = {name: {} for name in names}
    for task in tasks:
        holders = source.sample(names, min(len(names), source.randint(0, 3)))
        for rank, name in enumerate(holders):
            (runs if rank == 0 and source.random() < 0.8 else copies)[name].append(task)
            if source.random() < 0.5:
                offsets[name][task] = source.randint(0, 120)
    racks = {p: source.choice([*RACKS, ""]) for p in range(processes)}
    members = {
        name: Thread(
            process=process_id(int(name[1:].split("-")[0])),
            rack=racks[int(name[1:].split("-")[0])],
            tags={"zone": racks[int(name[1:].split("-")[0])]} if racks[0] else {},
            active=runs[name],
            copies=copies[name],
            offsets=offsets[name],
        )
        for name in sorted(names)
    }
    ends: Mapping[Task, int] = {task: source.randint(0, 100) for task in tasks if source.random() < 0.5}
    spread = ["zone"] if source.random() < 0.3 else []
    return AskingForTasks(shape, members, source.randint(0, 2), spread, ends)


@pytest.mark.parametrize("seed", seeds(150))
def test_any_application_gets_a_valid_plan_with_as_many_standbys_as_processes_allow(seed: int) -> None:
    asking = random_application(random.Random(seed))
    plan = World().plan(asking)
    processes = len({member.process for member in asking.members.values()})
    wanted = min(asking.standbys, processes - 1)
    assert [len(plan.standbys[task]) for task in stateful(asking)] == [wanted] * len(stateful(asking))
    repeated = afterwards(asking, plan)
    assert valid(repeated, World().plan(repeated)).active == plan.active, "the plan settles"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(100))
def test_the_plans_after_an_evacuation_move_nothing(seed: int) -> None:
    """The broker asks again when the temporary member leaves, and one or two tasks of other processes moved then."""
    source = random.Random(seed)
    asking = random_application(source)
    world = known_group()
    process_of = {name: member.process for name, member in asking.members.items()}
    world.groups.see(GROUP, dict.fromkeys(asking.members, KnownMember()))
    for _ in range(3):
        plan = world.plan(asking)
        asking = afterwards(asking, plan)
    before = {task: process_of[owner] for task, owner in plan.active.items()}
    away = source.choice(sorted(process_of.values()))
    if len(set(process_of.values())) == 1:
        return
    world.rules = (Rule("ban", "*", f"member:{away}"),)
    plan = world.plan(asking)
    evacuated = {task: process_of[owner] for task, owner in plan.active.items()}
    assert away not in evacuated.values()
    assert {task: owner for task, owner in before.items() if owner != away}.items() <= evacuated.items()
    for _ in range(3):
        asking = afterwards(asking, plan)
        plan = world.plan(asking)
        assert {task: process_of[owner] for task, owner in plan.active.items()} == evacuated
