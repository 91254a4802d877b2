"""PrioritySet answers as Kafka's set does: checked against the heap itself, operation by operation."""

from random import Random

import pytest

from bellwether_kafka.assignors.shared import JavaHeap, PrioritySet, drain_order
from bellwether_kafka.assignors.streams.placing import Placement
from bellwether_kafka.protocol.primitives import hash_order, uuid_hash
from tests.kit.streams_views import Application, Instance, process_id, random_process_id


class JavaSet:
    """ConstrainedPrioritySet as it is: a heap of all processes, sifted on their loads at that moment."""

    def __init__(self, weights: list[float], hashes: list[int]) -> None:
        self.heap = JavaHeap(weights)
        self.hashes = hashes
        for process in range(len(weights)):
            self.heap.add(process)

    def poll(self, wanted: list[int]) -> int | None:
        rejected = []
        polled = None
        while len(self.heap):
            process = self.heap.poll()
            if process in wanted:
                polled = process
                break
            rejected.append(process)
        for process in hash_order(rejected, self.hashes):
            self.heap.add(process)
        return polled


class Movements:
    """Random movements of tasks between processes, polled for in both sets."""

    def __init__(self, random: Random, processes: int, *, share: float) -> None:
        application = Application([(1, 100)])
        application.instances = [Instance(random_process_id(random), random.randint(1, 3)) for _ in range(processes)]
        self.random = random
        self.share = share
        self.place = Placement(application.view())
        self.place.load = [random.randint(3, 9) for _ in range(processes)]
        self.hashes = [uuid_hash(instance.id) for instance in application.instances]
        self.weights = [0.0] * processes
        self._weigh()
        self.own = PrioritySet(self.place, lambda: self.hashes)
        self.java = JavaSet(self.weights, self.hashes)

    def _weigh(self) -> None:
        self.weights[:] = [load / room for load, room in zip(self.place.load, self.place.capacity, strict=True)]

    def lightest(self, wanted: list[int]) -> int:
        return min(wanted, key=lambda p: (self.weights[p], p))

    def step(self) -> tuple[int | None, int | None, list[int]]:
        """What Bellwether's and Java's answer to one poll, and the processes asked for."""
        random, size = self.random, len(self.weights)
        destination = random.randrange(size)
        wanted = [p for p in range(size) if p != destination and random.random() < self.share]
        own, java = self.own.poll(wanted), self.java.poll(wanted)
        polled = own is not None
        source = own if own is not None else random.choice([p for p in range(size) if p != destination])
        gained = 1 if not polled else random.randint(0, 1)
        lost = min(gained, random.randint(0, 3), self.place.load[destination])
        self.place.load[source] += gained
        self.place.load[destination] -= lost
        self._weigh()
        self.own.offer(source, destination, gained=gained, lost=lost, polled=polled)
        self.java.heap.offer(source)
        self.java.heap.offer(destination)
        return own, java, wanted


@pytest.mark.slow
def test_it_answers_as_the_heap_does() -> None:
    for seed in range(100):
        movements = Movements(Random(seed), Random(seed).randint(2, 14), share=seed % 10 / 10)
        for _ in range(60):
            own, java, _ = movements.step()
            assert own == java


@pytest.mark.slow
def test_the_heap_does_not_always_answer_with_the_lightest() -> None:
    """Otherwise nothing above would need a heap."""
    surprises = 0
    for seed in range(100):
        movements = Movements(Random(seed), 16, share=0.9)
        for _ in range(60):
            before = list(movements.weights)
            own, _, wanted = movements.step()
            surprises += own is not None and own != min(wanted, key=lambda p: (before[p], p))
    assert surprises > 0


def test_without_steps_left_it_takes_the_lightest() -> None:
    movements = Movements(Random(3), 10, share=0.5)
    movements.own = PrioritySet(movements.place, lambda: movements.hashes, steps=0)
    for _ in range(200):
        before = list(movements.weights)
        own, _, wanted = movements.step()
        if wanted:
            assert own == min(wanted, key=lambda p: (before[p], p))


@pytest.mark.slow
def test_steps_may_end_while_the_past_is_replayed() -> None:
    for steps in range(0, 400, 3):
        movements = Movements(Random(steps), 12, share=0.9)
        movements.own = PrioritySet(movements.place, lambda mine=movements: mine.hashes, steps=steps)
        for _ in range(60):
            own, _, wanted = movements.step()
            assert own in wanted if wanted else own is None


def test_nobody_qualifies() -> None:
    movements = Movements(Random(1), 4, share=0.5)
    assert movements.own.poll([]) is None
    assert movements.own.poll([2]) == 2


def test_equal_keys_leave_a_priority_queue_in_the_order_of_its_layout() -> None:
    assert drain_order([3, 1, 2]) == [1, 2, 0]
    # Worked out by hand on java.util.PriorityQueue: polling the first 1 moves the last one to the top.
    assert drain_order([1, 1, 1]) == [0, 2, 1]
    keys = [Random(5).randrange(4) for _ in range(200)]
    order = drain_order(keys)
    assert sorted(order) == list(range(200))
    assert [keys[item] for item in order] == sorted(keys)


def test_a_set_out_of_steps_answers_the_lightest() -> None:
    view = Application([(6, 100)], [Instance(process_id(n)) for n in range(1, 7)]).view()
    for steps in range(40):
        place = Placement(view)
        place.load = [3, 3, 3, 3, 3, 3]
        own = PrioritySet(place, lambda: list(range(6)), steps=steps)
        for number in range(8):
            wanted = [number % 6, (number + 1) % 6, (number + 3) % 6]
            lightest = min(place.load[p] for p in wanted)
            polled = own.poll(wanted)
            assert polled is not None
            assert place.load[polled] == lightest
            place.load[polled] += 1
            own.offer(polled, (polled + 1) % 6, gained=1, polled=True)
