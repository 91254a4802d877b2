"""Short ids distinguish members, and lead back to the whole ones."""

import random
import uuid

import pytest

from bellwether_kafka.coordinator.observation import Observation, ObservedMember, full_ids, short_ids

A, B = "app-0af1c2d3-1111-4222-8333-444455556666", "app-0bc2c2d3-1111-4222-8333-444455556666"


def seen(*members: tuple[str, str, str | None]) -> Observation:
    """Of members by id, client id and instance id."""
    items = tuple(ObservedMember(name, instance, client, "/h") for name, client, instance in members)
    return Observation("g", "classic", "Stable", "range", 0, items)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([(A, "app", None)], ["app"]),
        ([(A, "app", None), (B, "app", None)], ["app-0af1", "app-0bc2"]),
        ([(A, "app", None), (A[:-1] + "7", "app", None)], [A, A[:-1] + "7"]),
        ([(A, "app", "pod-1"), (B, "app", "pod-2")], ["pod-1", "pod-2"]),
        ([(A, "", None), (B, "", None)], ["app-0af1", "app-0bc2"]),
        ([("m1", "m2", None), ("m2", "m1", None)], ["m1", "m2"]),
        ([("m", "", None), ("mm", "", None)], ["m", "mm"]),
        ([], []),
    ],
)
def test_the_shortest_form_that_nobody_else_has(
    members: list[tuple[str, str, str | None]], expected: list[str]
) -> None:
    assert [short_ids(seen(*members))[name] for name, _, _ in members] == expected


def test_every_short_id_leads_back_to_one_member() -> None:
    rng = random.Random(5)
    for _ in range(300):
        clients = [rng.choice(["app", "app-0", "orders-1", "", "a"]) for _ in range(rng.randint(1, 12))]
        ids = [f"{client}-{uuid.UUID(int=rng.getrandbits(rng.choice([4, 128])))}" for client in clients]
        instances = [f"pod-{i}" if rng.random() < 0.3 else None for i in range(len(ids))]
        group = seen(*dict(zip(ids, zip(ids, clients, instances, strict=True), strict=True)).values())
        for full, short in short_ids(group).items():
            assert full_ids(group, short) == (full,), (short, full)


def test_what_may_be_several_is_all_of_them() -> None:
    group = seen((A, "app", None), (B, "app", None))
    assert full_ids(group, "app") == full_ids(group, "app-0") == (A, B)
    assert full_ids(group, A) == full_ids(group, "app-0a") == (A,)
    assert full_ids(group, "nobody") == full_ids(group, "") == ()
