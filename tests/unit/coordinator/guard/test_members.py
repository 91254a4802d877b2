"""Which members belong to a process: what shows it, and everything that only looks like it."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.guard.members import (
    Belonging,
    Identity,
    SeenMembers,
    StreamThread,
    belonging,
    updated,
)
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from tests.kit.membership import GROUP, P1, P2, plain, thread, thread_id

SETTLED_S = 10.0

LONG_S = 60.0
STREAMS = Identity(GROUP, process_id=P1)
NAMED = Identity(GROUP, client_ids=("app-1",))


def answer(*members: DescribedMember, state: str = "Stable") -> DescribeAnswer:
    shown = members if state == "Stable" else tuple(replace(m, metadata=b"", assignment=b"") for m in members)
    return DescribeAnswer(0, 0, state, "consumer", "range", shown)


def seen(*answers: DescribeAnswer) -> SeenMembers:
    seen_members = SeenMembers()
    for answer in answers:
        seen_members = updated(seen_members, answer)
    return seen_members


def belonging_of(identity: Identity, *answers: DescribeAnswer, lived_s: float = LONG_S) -> Belonging:
    return belonging(identity, seen(*answers), lived_s)


def test_threads_of_the_process_are_its_own_and_nobody_elses() -> None:
    own = belonging_of(STREAMS, answer(thread("a", number=1), thread("b", number=2), thread("c", P2)))
    assert own == Belonging(("a", "b"), (StreamThread(P1, 1), StreamThread(P1, 2)))


def test_a_thread_is_known_by_its_client_id_before_its_subscription_is_shown() -> None:
    assert belonging_of(STREAMS, answer(thread("a"), state="PreparingRebalance")).member_ids == ("a",)


def test_a_subscription_that_says_another_process_outweighs_a_client_id() -> None:
    typed = replace(thread("a", P2), client_id=thread_id(P1))
    assert belonging_of(STREAMS, answer(typed)).member_ids == ()


def test_what_a_subscription_reported_is_remembered_while_the_group_waits() -> None:
    typed = replace(thread("a", P2), client_id=thread_id(P1))
    assert belonging_of(STREAMS, answer(typed), answer(typed, state="PreparingRebalance")).member_ids == ()


def test_an_application_with_a_client_id_of_its_own_is_known_by_its_subscription() -> None:
    named = replace(thread("a"), client_id="shop-StreamThread-3-consumer")
    assert belonging_of(STREAMS, answer(named)) == Belonging(("a",), (StreamThread(P1, 3),))


def test_another_application_of_the_same_process_id_is_not_bellwethers() -> None:
    foreign = DescribedMember("a", None, client_id=thread_id(P1, group="other"), client_host="/10.0.0.1")
    assert belonging_of(STREAMS, answer(foreign)).member_ids == ()


def test_a_copied_state_directory_on_another_host_frees_nobody() -> None:
    own = belonging_of(STREAMS, answer(thread("a"), thread("b", number=2, host="/10.0.0.2")))
    assert own.member_ids == ()
    assert "several hosts (/10.0.0.1, /10.0.0.2)" in own.objections[0]


def test_two_threads_of_one_name_in_one_generation_free_nobody() -> None:
    own = belonging_of(STREAMS, answer(thread("a"), thread("b")), answer(thread("b")))
    assert own.member_ids == ()
    assert "state directory is a copy" in own.objections[0]


def test_a_successor_with_a_client_id_and_a_state_of_its_own_is_no_copy() -> None:
    """Its predecessor died while it waited for the generation in which both are. Without a volume that outlives a pod
    only the client id is the same; the guard of such a pod knew none of its members as long as it lived."""
    ghost, own = (replace(thread(m, p), client_id="shop-StreamThread-1-consumer") for m, p in (("a", P2), ("b", P1)))
    completing = answer(ghost, own, state="CompletingRebalance")
    assert belonging_of(STREAMS, answer(ghost), completing, answer(ghost, own)).member_ids == ("b",)
    assert belonging_of(Identity(GROUP, client_ids=("shop",)), completing, answer(own)).member_ids == ()


def lived(*answers: tuple[DescribeAnswer, bool]) -> Belonging:
    """Of the guarded Streams process, after answers that came before it could join or later."""
    seen_members = SeenMembers()
    for answer, joins in answers:
        seen_members = updated(seen_members, answer, joins=joins)
    return belonging(STREAMS, seen_members, LONG_S)


def test_a_predecessor_that_died_in_a_rebalance_does_not_hide_its_successor() -> None:
    """A pod was killed with its guard and started again on the same volume: the same client ids and process id."""
    ghost, own = thread("ghost"), thread("own")
    both = (answer(ghost, state="PreparingRebalance"), False), (answer(ghost, own), True)
    assert lived(*both).member_ids == ("own",)
    assert lived(*both, (answer(own), True)).member_ids == ("own",)


def test_a_copy_that_was_there_before_is_never_bellwethers_and_known_when_it_is_back() -> None:
    """It may come back in the very moment in which the guarded process dies."""
    copy, own, back = thread("copy"), thread("own"), thread("back")
    began = (answer(copy), False), (answer(copy, own), True), (answer(own), True)
    assert lived(*began).member_ids == ("own",)
    ended = lived(*began, (answer(own, back, state="PreparingRebalance"), True))
    assert ended.member_ids == ()
    assert "state directory is a copy" in ended.objections[0]


def test_a_restarted_thread_beside_its_former_self_is_no_copy() -> None:
    """While the group waits a dead member and its successor are both listed, and both are of this process."""
    own = belonging_of(STREAMS, answer(thread("a")), answer(thread("a"), thread("b"), state="PreparingRebalance"))
    assert own.member_ids == ("a", "b")


def test_a_static_member_replaces_itself() -> None:
    assert belonging_of(STREAMS, answer(replace(thread("a"), instance_id="one"))).member_ids == ()
    own = belonging_of(NAMED, answer(replace(plain("a"), instance_id="one")))
    assert own.member_ids == ()
    assert "static" in own.objections[0]


@pytest.mark.parametrize("client_id", ["app-1", "app-1-StreamThread-2-consumer"])
def test_the_client_id_that_was_named_is_the_process_own(client_id: str) -> None:
    own = belonging_of(NAMED, answer(plain("a", client_id), plain("b", "app-11"), plain("c", "app-2")))
    assert own.member_ids == ("a",)


def test_a_named_client_id_on_two_hosts_frees_nobody() -> None:
    own = belonging_of(NAMED, answer(plain("a"), plain("b", host="/10.0.0.2"), state="PreparingRebalance"))
    assert own.member_ids == ()
    assert "--client-id must be this process' own" in own.objections[0]


def test_a_named_client_id_that_two_members_had_in_one_generation_frees_nobody_ever() -> None:
    own = belonging_of(NAMED, answer(plain("a"), plain("b"), state="CompletingRebalance"), answer(plain("b")))
    assert own.member_ids == ()
    assert "several members" in own.objections[0]


def test_a_member_that_was_there_at_first_is_not_that_of_a_process_that_ended_at_once() -> None:
    """A process that crashes while it starts must not take down the live member that has its wrong client id."""
    assert belonging_of(NAMED, answer(plain("a")), lived_s=SETTLED_S - 1).member_ids == ()
    assert belonging_of(NAMED, answer(plain("a")), lived_s=SETTLED_S + 1).member_ids == ("a",)
    assert belonging_of(NAMED, answer(), answer(plain("a")), lived_s=SETTLED_S - 1).member_ids == ("a",)


def test_members_that_have_gone_are_not_named() -> None:
    assert belonging_of(
        STREAMS, answer(thread("a"), thread("b", number=2)), answer(thread("b", number=2))
    ).member_ids == ("b",)


def test_an_error_shows_nothing() -> None:
    assert belonging_of(STREAMS, answer(thread("a")), DescribeAnswer(0, 15)).member_ids == ("a",)


def test_without_an_identity_nobody_belongs_to_it() -> None:
    assert belonging_of(Identity(GROUP), answer(thread("a"), plain("b", ""))) == Belonging()
