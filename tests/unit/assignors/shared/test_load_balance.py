"""Moving weighted items between places: held to what a reader would do by hand, step by step, with plain numbers."""

from random import Random

import numpy as np
import pytest

from bellwether_kafka.assignors.shared import Balancer, Rules, Terms, excess
from bellwether_kafka.assignors.shared.load_balance import Targets
from tests.seeds import seeds

HERE, ACROSS, CLOSED = 0, 1, None


def balancer(
    weight: list[float],
    owner: list[int],
    capacity: list[float],
    prices: list[list[int | None]] | None = None,
    base: list[float] | None = None,
) -> Balancer:
    """`prices[item][place]` is HERE, ACROSS or CLOSED (the place may not have the item)."""
    table = prices or [[HERE] * len(capacity)] * len(weight)
    terms = Terms(
        item=np.arange(len(weight), dtype=np.int32),
        place=np.arange(len(capacity), dtype=np.int32),
        open=np.array([[price is not CLOSED for price in row] for row in table], dtype=np.bool_),
        price=np.array([[price or 0 for price in row] for row in table], dtype=np.int32),
    )
    return Balancer(
        np.array(weight),
        np.array(owner, dtype=np.int32),
        np.array(capacity),
        terms,
        0.0 if base is None else np.array(base),
    )


def loads(of: Balancer) -> list[float]:
    """Per unit of capacity."""
    owned = of.owner >= 0
    load = np.bincount(of.owner[owned], of.weight[owned], len(of.capacity)) + of.base
    return (load / of.capacity).tolist()


def random_balancer(random: Random) -> Balancer:
    items, places = random.randint(1, 25), random.randint(1, 6)
    prices: list[list[int | None]] = []
    for _ in range(items):
        row = [random.choice([HERE, HERE, ACROSS, CLOSED]) for _ in range(places)]
        row[random.randrange(places)] = random.choice([HERE, ACROSS])
        prices.append(row)
    owner = [random.choice([p for p, price in enumerate(row) if price is not CLOSED]) for row in prices]
    capacity = [random.choice([1.0, 1.0, 2.0, 0.5]) for _ in range(places)]
    return balancer([float(random.choice([1, 2, 5, 20])) for _ in range(items)], owner, capacity, prices)


def price(of: Balancer, item: int) -> int:
    return int(of.terms.price[item, of.owner[item]])


# ---- what is too much -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weight", "owner", "capacity", "expected"),
    [
        ([], [], [], 0.0),
        ([0.0, 0.0], [0, 1], [1, 1], 0.0),
        ([5.0, 5.0, 5.0, 5.0], [0, 0, 1, 1], [1, 1], 0.0),
        ([5.0, 5.0, 5.0, 5.0], [0, 0, 0, 1], [1, 1], 0.4),
        ([5.0, 5.0, 5.0, 5.0], [0, 0, 0, 1], [3, 1], 0.0),
        ([5.0, 5.0, 5.0, 5.0], [0, 0, 0, 1], [1, 3], 1.9),  # a mean of 5
        ([30.0, 2.0, 2.0], [0, 1, 2], [1, 1, 1], 0.0),  # nobody can split the heaviest
        ([30.0, 2.0, 2.0], [0, 1, 1], [1, 1, 1], 0.9),  # but others have the rest, 2 each
        ([30.0, 2.0, 2.0], [0, 0, 1], [1, 1, 1], 0.0),  # in the band of 30 by itself
        ([30.0, 2.0, 2.0], [0, 1, 2], [1, 2, 1], 0.9),  # it would weigh half there
        ([30.0, 20.0, 4.0, 4.0], [0, 1, 2, 3], [1, 1, 1, 1], 0.0),  # the two heaviest fill two places
        ([30.0, 20.0, 4.0, 4.0], [0, 1, 2, 2], [1, 1, 1, 1], 0.9),
        ([30.0, 20.0, 4.0, 4.0], [0, 0, 2, 3], [1, 1, 1, 1], 50 / 30 - 1.1),
        ([30.0, 20.0, 4.0, 4.0], [0, 1, 1, 3], [1, 1, 1, 1], 0.0),  # beside the second one there is room
    ],
)
def test_what_is_too_much(weight: list[float], owner: list[int], capacity: list[int], expected: float) -> None:
    places, items = np.array(owner, dtype=np.int32), np.array(weight)
    load = np.bincount(places, items, len(capacity))
    assert excess(load, np.array(capacity, dtype=float), items, places, 0.1) == pytest.approx(expected)


def test_an_item_without_a_place_fills_none() -> None:
    targets = Targets.of(np.array([9.0, 1.0, 1.0]), np.ones(3), np.array([9.0, 1.0, 1.0]))
    assert targets.of_places(np.array([-1, 1, 2]), 3).tolist() == [1, 1, 1]
    assert targets.of_places(np.array([0, 1, 2]), 3).tolist() == [9, 1, 1]


def test_an_item_without_a_place_is_in_no_load() -> None:
    """Its weight was taken from the loads of the others, whose mean was nothing then."""
    owner, weight = np.array([0, 1, 2, -1]), np.array([1.0, 1.0, 1.0, 5.0])
    assert excess(np.ones(3), np.ones(3), weight, owner, 0.1) == 0.0


def test_a_place_that_joins_gets_its_share_also_beside_an_item_that_outweighs_the_mean() -> None:
    """The five others are within the band of the heavy item, so that nothing would have to move for them."""
    of = balancer([13.0, *[2.0] * 24], [0, *[1 + n % 4 for n in range(24)]], [1.0] * 6)
    of.run(Rules())
    assert max(loads(of)[1:]) - min(loads(of)[1:]) <= 4


@pytest.mark.parametrize(("items", "limit"), [(0, 4), (40, 4), (49, 4), (50, 5), (1_000, 100)])
def test_a_tenth_of_all_may_move_and_at_least_four(items: int, limit: int) -> None:
    assert Rules().limit(items) == limit
    assert Rules(moves_max=7).limit(items) == 7


# ---- dealing --------------------------------------------------------------------------------------------------------


def dealt_by_hand(of: Balancer) -> list[int]:
    owner, places = of.owner.tolist(), range(len(of.capacity))
    for item in sorted((i for i in range(len(owner)) if owner[i] < 0), key=lambda i: (-of.weight[i], i)):
        mine = [p for p in places if of.terms.open[item, p]]
        cheapest = min(of.terms.price[item, p] for p in mine)
        load = {p: sum(of.weight[i] for i, o in enumerate(owner) if o == p) for p in places}
        count = {p: owner.count(p) / of.capacity[p] for p in places}
        owner[item] = min(
            (p for p in mine if of.terms.price[item, p] == cheapest),
            key=lambda p: (round((load[p] + of.weight[item]) / of.capacity[p], 9), count[p], p),
        )
    return owner


@pytest.mark.parametrize("seed", seeds(40))
def test_the_heaviest_item_goes_first_to_the_cheapest_place_that_is_least_full(seed: int) -> None:
    random = Random(seed)
    of = random_balancer(random)
    for item in range(len(of.owner)):
        if random.random() < 0.6:
            of.owner[item] = -1
    expected = dealt_by_hand(of)
    of.deal(np.flatnonzero(of.owner < 0))
    assert of.owner.tolist() == expected


def test_what_is_there_anyway_counts_when_items_are_dealt() -> None:
    of = balancer([5.0, 4.0, 3.0], [-1, -1, -1], [1.0, 1.0], base=[8.0, 0.0])
    of.deal(np.arange(3))
    assert of.owner.tolist() == [1, 1, 0]


# ---- evening out ----------------------------------------------------------------------------------------------------


def test_one_item_moves_where_one_is_enough() -> None:
    of = balancer([6.0, 4.0, 2.0, 4.0], [0, 0, 0, 1], [1.0, 1.0])
    assert of.run(Rules(moves_max=9)) == 1
    assert loads(of) == [8.0, 8.0]


def test_two_items_change_places_where_one_alone_would_only_turn_it_around() -> None:
    of = balancer([4.0, 4.0, 3.0, 3.0], [0, 0, 1, 1], [1.0, 1.0])
    assert of.run(Rules(moves_max=2)) == 2
    assert loads(of) == [7.0, 7.0]
    of = balancer([4.0, 4.0, 3.0, 3.0], [0, 0, 1, 1], [1.0, 1.0])
    assert of.run(Rules(moves_max=1)) == 0


def test_a_large_place_takes_more() -> None:
    of = balancer([1.0] * 12, [0] * 12, [1.0, 2.0, 3.0])
    of.run(Rules(moves_max=12))
    assert np.bincount(of.owner).tolist() == [2, 4, 6]


def test_a_load_within_the_band_is_left_and_one_beyond_it_is_brought_below_the_lower_mark() -> None:
    of = balancer([1.0] * 109 + [1.0] * 91, [0] * 109 + [1] * 91, [1.0, 1.0])
    assert of.run(Rules(moves_max=99)) == 0
    of = balancer([1.0] * 111 + [1.0] * 89, [0] * 111 + [1] * 89, [1.0, 1.0])
    assert of.run(Rules(moves_max=99)) == 7
    assert loads(of) == [104.0, 96.0]


def test_what_is_there_anyway_is_made_up_for() -> None:
    of = balancer([1.0] * 10, [0] * 5 + [1] * 5, [1.0, 1.0], base=[4.0, 0.0])
    assert of.run(Rules(moves_max=9)) == 2
    assert loads(of) == [7.0, 7.0]


def test_no_item_goes_across_racks_for_load_unless_another_comes_back() -> None:
    prices: list[list[int | None]] = [[HERE, ACROSS]] * 4
    of = balancer([1.0] * 4, [0] * 4, [1.0, 1.0], prices)
    assert of.run(Rules(moves_max=9)) == 0
    prices = [[HERE, ACROSS], [HERE, ACROSS], [HERE, ACROSS], [ACROSS, HERE], [ACROSS, HERE]]
    of = balancer([3.0, 9.0, 4.0, 1.0, 1.0], [0, 0, 0, 1, 0], [1.0, 1.0], prices)
    of.run(Rules(moves_max=9))
    assert [price(of, item) for item in range(5)] == [0] * 5


def test_items_stay_out_of_places_that_are_closed_to_them() -> None:
    of = balancer([1.0] * 6, [0] * 6, [1.0, 1.0, 1.0], [[HERE, CLOSED, HERE]] * 6)
    of.run(Rules(moves_max=9))
    assert np.bincount(of.owner, minlength=3).tolist() == [3, 0, 3]


# ---- coming home ----------------------------------------------------------------------------------------------------


def test_an_item_comes_home_where_there_is_room() -> None:
    of = balancer([2.0, 2.0, 2.0], [1, 0, 1], [1.0, 2.0], [[HERE, ACROSS], [HERE, HERE], [HERE, HERE]])
    assert of.run(Rules(moves_max=9)) >= 1
    assert price(of, 0) == HERE


def test_an_item_comes_home_to_an_empty_place_where_items_are_fewer_than_places() -> None:
    """Each of them outweighs the mean, and that of all others was nothing."""
    prices: list[list[int | None]] = [[HERE, ACROSS, ACROSS], [ACROSS, ACROSS, HERE]]
    of = balancer([2.0, 2.0], [0, 1], [1.0] * 3, prices)
    assert of.run(Rules()) == 1
    assert of.owner.tolist() == [0, 2]


def test_two_items_come_home_in_exchange_where_there_is_no_room() -> None:
    prices: list[list[int | None]] = [[ACROSS, HERE], [HERE, ACROSS]]
    of = balancer([5.0, 5.0], [0, 1], [1.0, 1.0], prices)
    assert of.run(Rules(moves_max=2)) == 2
    assert of.owner.tolist() == [1, 0]
    of = balancer([5.0, 5.0], [0, 1], [1.0, 1.0], prices)
    assert of.run(Rules(moves_max=1)) == 0


def test_nobody_is_sent_away_for_one_that_comes_home() -> None:
    of = balancer([5.0, 5.0], [0, 1], [1.0, 1.0], [[ACROSS, HERE], [ACROSS, HERE]])
    assert of.run(Rules(moves_max=2)) == 0


# ---- what holds always ----------------------------------------------------------------------------------------------


def beside_heavy_items(of: Balancer) -> float:
    """The mean of the places that no item fills that is heavier than the mean."""
    weights, capacities = sorted(of.weight, reverse=True), sorted(of.capacity, reverse=True)
    while len(capacities) > 1 and weights and weights[0] / capacities[0] > sum(weights) / sum(capacities):
        weights, capacities = weights[1:], capacities[1:]
    return max(1e-9, sum(weights) / sum(capacities))


@pytest.mark.parametrize("home_first", [False, True])
@pytest.mark.parametrize("seed", seeds(60))
def test_nothing_gets_worse_and_nothing_is_left_that_one_step_would_fix(seed: int, home_first: bool) -> None:
    random = Random(seed)
    of = random_balancer(random)
    rules = Rules(moves_max=random.choice([0, 1, 2, 5, 100]))
    before, across, start = max(loads(of)), sum(price(of, i) for i in range(len(of.owner))), of.owner.copy()
    total, capacity = sum(of.weight), sum(of.capacity)
    target = max(total / capacity, max(of.weight) / max(of.capacity))
    moved = of.run(rules, home_first=home_first)
    now = loads(of)
    assert moved <= (rules.moves_max or 0)
    assert np.count_nonzero(of.owner != start) <= moved
    assert all(of.terms.open[item, place] for item, place in enumerate(of.owner.tolist()))
    assert sum(price(of, i) for i in range(len(of.owner))) <= across
    share = 1 + (rules.settle + rules.band) / 2
    settled, home = target * share, beside_heavy_items(of) * share
    assert max(now) <= max(before, settled) * (1 + 1e-9)
    if moved + 2 > (rules.moves_max or 0):
        return
    for item, place in enumerate(of.owner.tolist()):
        for other in range(len(of.capacity)):
            gain = price(of, item) - int(of.terms.price[item, other])
            after = (now[other] * of.capacity[other] + of.weight[item]) / of.capacity[other]
            if of.terms.open[item, other] and gain > 0:
                assert after > home * (1 - 1e-9), "it could have come home"
            if (
                of.terms.open[item, other]
                and gain >= 0
                and not home_first
                and max(before, 0) > target * (1 + rules.band)
            ):
                left = (now[place] * of.capacity[place] - of.weight[item]) / of.capacity[place]
                if now[place] > settled * (1 + 1e-9):
                    assert max(after, left) >= now[place] * (1 - 1e-6), "it could have been relieved"
