from random import Random

import numpy as np

from bellwether_kafka.assignors.shared import Moves, Words, moves


def test_every_partition_is_kept_moved_new_lost_or_never_owned() -> None:
    random = Random(4)
    for _ in range(50):
        before, after = ([random.randint(-1, 3) for _ in range(20)] for _ in range(2))
        pairs = [*zip(before, after, strict=True)]
        assert moves(np.array(before, dtype=np.int32), np.array(after, dtype=np.int32)) == Moves(
            kept=sum(a == b != -1 for a, b in pairs),
            moved=sum(-1 not in (a, b) and a != b for a, b in pairs),
            new=sum(a == -1 != b for a, b in pairs),
            lost=sum(b == -1 != a for a, b in pairs),
        )


def test_things_are_counted_in_words() -> None:
    words = Words("streams", "task", "process", "processes")
    assert [words.items(number) for number in (0, 1, 2)] == ["0 tasks", "1 task", "2 tasks"]
