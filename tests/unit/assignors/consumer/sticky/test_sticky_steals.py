"""Mixed subscriptions that need chains of moves: franz-go's hard cases, given as who subscribes to and owns what.

All topics have one partition. `kept` is how many partitions at least must stay where they are; where a member can be
helped only through others, the JVM's sweep stops earlier (docs/internals/assignors.md#steal-graph).
"""

from dataclasses import dataclass

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer.sticky import cycles
from tests.unit.assignors.consumer.sticky.sticky_scenes import Who, decide

LETTERS = "0123456789abcdefghijklmnopqrst"


@dataclass(frozen=True, slots=True)
class Case:
    members: dict[str, tuple[str, str]]  # subscribed topics, owned topics, one character each
    sizes: list[int]
    kept: int

    def run(self) -> None:
        topics = dict.fromkeys(sorted({t for wanted, _ in self.members.values() for t in wanted if t != "x"}), 1)
        members = {
            name: Who(" ".join(wanted), " ".join(f"{t}-0" for t in owned))
            for name, (wanted, owned) in self.members.items()
        }
        outcome = decide(topics, members)
        assert outcome.sizes == self.sizes
        assert outcome.kept >= self.kept


CASES = {
    "disbalance 1": Case(
        {"A": ("123456789", "1"), "B": ("234", "234"), "C": ("56789", "56789")},
        [3, 3, 3],
        7,
    ),
    "disbalance 2": Case(
        {"A": ("123456789", "1"), "B": ("234", "2"), "C": ("3456789", "3456789")},
        [3, 3, 3],
        5,
    ),
    "disbalance 3: nobody owns 9": Case(
        {"A": ("123456789", "1"), "B": ("234", "2"), "C": ("3456789", "345678")},
        [3, 3, 3],
        5,
    ),
    "complicated steals": Case(
        {
            "A": ("12345abcde", "12"),
            "B": ("12345", "34"),
            "C": ("345", "5"),
            "D": ("abcde", "abcde"),
            "E": ("abcde", ""),
        },
        [2, 2, 2, 2, 2],
        5,
    ),
    "big disbalance to equal": Case(
        {
            "A": ("123", "12"),
            "B": ("123456", "3"),
            "C": ("456789", "45"),
            "D": ("6789abcdef", "67"),
            "E": ("6789abcdef", "89abcdef"),
        },
        [3, 3, 3, 3, 3],
        5,
    ),
    "back and forth 1": Case(
        {"A": ("123", "123"), "B": ("123", ""), "C": ("56789", "56789"), "D": ("56789", "")},
        [1, 2, 2, 3],
        5,
    ),
    "back and forth 2": Case(
        {"A": ("1234", "1234"), "B": ("2345", "5"), "C": ("1345", ""), "D": ("6789ab", "6789ab"), "E": ("6789ab", "")},
        [1, 2, 2, 3, 3],
        6,
    ),
    "back and forth 3": Case(
        {
            "A": ("912", "12"),
            "B": ("234", "34"),
            "C": ("456", "56"),
            "D": ("678", "78"),
            "E": ("891", "9"),
            "F": ("abcde", "abcde"),
            "G": ("abcde", ""),
        },
        [1, 2, 2, 2, 2, 2, 3],
        12,
    ),
    "odd pyramid": Case(
        {
            "A": ("1234", ""),
            "B": ("123456789abcd", "1234"),
            "C": ("56789abcd", "56789abcd"),
            "D": ("56789abcdefghij", "efghij"),
            **{name: (name.lower(), "") for name in "EFGHIJ"},
        },
        [1] * 6 + [3, 3, 3, 4],
        5,
    ),
    "chain stop with a deleted topic": Case(
        {"A": ("123", "12"), "B": ("345", ""), "C": ("3456789abc", "345"), "D": ("3456789abcx", "6789abcz")},
        [2, 3, 3, 4],
        6,
    ),
    "graph reachy": Case(
        {"A": ("1234", ""), "B": ("123456789abcdefg", "1234"), "C": ("56789a", "56789a"), "D": ("bcdefg", "bcdefg")},
        [4, 4, 4, 4],
        8,
    ),
    "imbalance hard: a partition that went out comes home": Case(
        {
            "A": ("0123456789ab", "0123456"),
            "B": ("0123456789ab", "789ab"),
            "C": ("789abcdef", ""),
            "D": (LETTERS[12:], "cd"),
            "E": (LETTERS[12:], "ef"),
            "F": (LETTERS[12:], LETTERS[16:]),
        },
        [5] * 6,
        14,
    ),
    "a chain through every member": Case(
        {"A": ("1", ""), "B": ("12", "1"), "C": ("23", "2"), "D": ("3456", "3456")},
        [1, 1, 1, 3],
        3,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_chains(name: str) -> None:
    CASES[name].run()


def test_a_chain_is_not_needed_to_help_the_ends() -> None:
    """E subscribes only to what D has: nothing of the other members may move."""
    outcome = decide(
        {str(i): 1 for i in range(1, 7)},
        {"A": Who("1 2 3", "1-0 2-0"), "D": Who("3 4 5 6", "3-0 4-0 5-0 6-0"), "E": Who("5 6")},
    )
    assert outcome.sizes == [2, 2, 2]
    assert outcome.kept == 4


def test_kip_54_example_one() -> None:
    topics = dict.fromkeys("1234", 2)
    members = {name: Who("1 2 3 4") for name in "ABC"}
    first = decide(topics, members)
    remaining = {name: who for name, who in first.next_rebalance(members).items() if name != "A"}
    after = decide(topics, remaining)
    assert after.sizes == [4, 4]
    assert after.kept == 8 - len(first.of("A"))


def test_kip_54_example_two() -> None:
    topics = {"1": 1, "2": 2, "3": 3}
    members = {"A": Who("1"), "B": Who("1 2"), "C": Who("1 2 3")}
    first = decide(topics, members)
    assert first.plan == {"A": ["1-0"], "B": ["2-0", "2-1"], "C": ["3-0", "3-1", "3-2"]}
    remaining = {name: who for name, who in first.next_rebalance(members).items() if name != "A"}
    after = decide(topics, remaining)
    assert after.plan == {"B": ["1-0", "2-0", "2-1"], "C": ["3-0", "3-1", "3-2"]}


def test_kip_54_example_three() -> None:
    topics = {"1": 2, "2": 2}
    first = decide(topics, {"A": Who("1 2"), "B": Who("1 2")})
    members = {"A": Who("1 2"), "B": Who("1 2", " ".join(first.of("B"))), "C": Who("1 2")}
    after = decide(topics, members)
    assert after.of("B") == first.of("B")
    assert after.sizes == [1, 1, 2]


@pytest.mark.parametrize("odd_topics", ["1", "1 2", "1 2 3"])
def test_an_odd_newcomer_takes_only_what_it_needs(odd_topics: str) -> None:
    topics = {"1": 16, "2": 16, "3": 0}
    members = {"A": Who("1 2"), "B": Who("1 2"), "C": Who("1 2")}
    first = decide(topics, members)
    after = decide(topics, first.next_rebalance(members) | {"D": Who(odd_topics)})
    assert after.sizes == [8, 8, 8, 8]
    assert after.kept == 24


def test_a_newcomer_takes_a_little_of_every_topic() -> None:
    topics = dict.fromkeys("abcdefgh", 12)
    members = {"m1": Who(" ".join(topics)), "m2": Who(" ".join(topics)), "m3": Who("a b c d e f g")}
    first = decide(topics, members)
    after = decide(topics, first.next_rebalance(members) | {"m4": Who("a b c d e f g h")})
    per_topic = [sum(part.startswith(t) for part in after.of("m4")) for t in topics]
    assert sum(per_topic) == 24
    assert max(per_topic) <= 6


def test_the_cheapest_of_equally_balanced_plans_is_found() -> None:
    """Small random groups against all plans there are: the same balance, and never more moves than the best of them."""
    seed = np.random.default_rng(7)
    for _ in range(25):
        topics = {f"t{i}": 1 for i in range(5)}
        wanted = [[t for t in topics if seed.random() < 0.6] or ["t0"] for _ in range(3)]
        owner = {t: int(seed.integers(0, 3)) for t in topics}
        members = {
            f"m{m}": Who(" ".join(wanted[m]), " ".join(f"{t}-0" for t in topics if owner[t] == m and t in wanted[m]))
            for m in range(3)
        }
        outcome = decide(topics, members)
        assert (sum(n * n for n in outcome.sizes), -outcome.kept) == min(
            (
                sum(plan.count(m) ** 2 for m in range(3)),
                -sum(f"{t}-0" in members[f"m{m}"].owned.split() for t, m in zip(choosable, plan, strict=True)),
            )
            for choosable, plan in every_plan(topics, wanted)
        )


@pytest.mark.slow
def test_a_search_for_cheaper_plans_that_is_cut_short_leaves_a_plan_with_the_same_balance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = np.random.default_rng(7)
    costlier = 0
    for _ in range(20):
        topics = {f"t{i:02}": 3 for i in range(12)}
        wanted = [" ".join(t for t in topics if seed.random() < 0.6) for _ in range(6)]
        owner = {f"{t}-{p}": int(seed.integers(0, 6)) for t in topics for p in range(3)}
        members = {
            f"m{m}": Who(mine, " ".join(p for p, o in owner.items() if o == m and p[:3] in mine))
            for m, mine in enumerate(wanted)
        }
        full = decide(topics, members)
        with monkeypatch.context() as patch:
            patch.setattr(cycles, "BUDGET", 1)
            cut = decide(topics, members)
        assert sorted(cut.sizes) == sorted(full.sizes)
        assert cut.kept <= full.kept
        costlier += cut.kept < full.kept
    assert costlier > 0


def every_plan(topics: dict[str, int], wanted: list[list[str]]) -> list[tuple[list[str], list[int]]]:
    choosable = [t for t in topics if any(t in mine for mine in wanted)]
    plans: list[list[int]] = [[]]
    for topic in choosable:
        plans = [[*plan, m] for plan in plans for m, mine in enumerate(wanted) if topic in mine]
    return [(choosable, plan) for plan in plans]
