"""The proof that a member is a ghost: what is one, and everything that only looks like one."""

from dataclasses import replace

import pytest

from bellwether_kafka.coordinator.ghosts import GhostFinder, Proof, process_of
from bellwether_kafka.coordinator.ghosts.proof import Ghost
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from tests.kit.membership import GROUP, P1, P2, plain, subscribed, thread, thread_id

RETURN_S = 15.0


class Scenario:
    """A finder and its clock; each refresh is a second after the one before."""

    def __init__(self, *, unique: bool = False) -> None:
        self.finder = GhostFinder(GROUP, client_ids_unique=unique)
        self.now = 0.0

    def stable(self, *members: DescribedMember) -> tuple[Ghost, ...]:
        return self._refresh("Stable", members)

    def waiting(self, *members: DescribedMember) -> tuple[Ghost, ...]:
        hidden = tuple(
            DescribedMember(m.member_id, m.instance_id, client_id=m.client_id, client_host=m.client_host)
            for m in members
        )
        return self._refresh("PreparingRebalance", hidden)

    def _refresh(self, state: str, members: tuple[DescribedMember, ...]) -> tuple[Ghost, ...]:
        self.now += 1.0
        return self.finder.refresh(DescribeAnswer(0, 0, state, "consumer", "stream", members), self.now)


def test_a_restarted_process_proves_its_former_threads_dead() -> None:
    scenario = Scenario()
    assert scenario.stable(thread("a"), thread("b", P2)) == ()
    (ghost,) = scenario.waiting(thread("a"), thread("b", P2), thread("a2", host="/10.0.0.9"))
    assert (ghost.member_id, ghost.successor, ghost.proof) == ("a", "a2", Proof.PROCESS_ID)
    assert "restarted" in ghost.reason
    assert "a2" in ghost.reason


def test_each_thread_is_proven_by_the_thread_of_its_number() -> None:
    scenario = Scenario()
    old = (thread("a1"), thread("a2", number=2))
    scenario.stable(*old)
    assert [g.member_id for g in scenario.waiting(*old, thread("b1"))] == ["a1"]
    assert [g.member_id for g in scenario.waiting(*old, thread("b1"), thread("b2", number=2))] == ["a1", "a2"]


def test_a_new_thread_of_a_living_process_proves_nothing_of_the_others() -> None:
    scenario = Scenario()
    old = (thread("a1"), thread("a2", number=2))
    scenario.stable(*old)
    assert scenario.waiting(*old, thread("a3", number=3)) == ()


def test_a_process_that_crashes_while_it_joins_is_found_by_its_next_start() -> None:
    scenario = Scenario()
    scenario.stable(thread("a"), thread("b", P2))
    scenario.finder.removed(scenario.waiting(thread("a"), thread("b", P2), thread("a2")), scenario.now)
    scenario.now += RETURN_S
    assert [g.member_id for g in scenario.waiting(thread("b", P2), thread("a2"), thread("a3"))] == ["a2"]


def test_a_client_id_that_only_resembles_a_process_proves_nothing() -> None:
    scenario = Scenario()
    typed = DescribedMember("a", None, subscribed(P2), client_id=thread_id(P1), client_host="/h")
    scenario.stable(typed)
    assert scenario.waiting(typed, thread("a2")) == ()
    scenario.stable(thread("a2"))  # a member that comes later is no proof of it any more
    assert scenario.waiting(thread("a2"), thread("a3")) == ()


@pytest.mark.parametrize("metadata", [b"", b"\0\1", ConsumerProtocolSubscription(version=1, topics=()).encode()])
def test_without_a_readable_process_id_nothing_is_proven(metadata: bytes) -> None:
    scenario = Scenario()
    old = DescribedMember("a", None, metadata, client_id=thread_id(P1), client_host="/h")
    scenario.stable(old)
    assert scenario.waiting(old, thread("a2")) == ()


def test_a_group_that_was_never_seen_at_rest_gives_no_proof() -> None:
    scenario = Scenario()
    assert scenario.waiting(thread("a")) == ()
    assert scenario.waiting(thread("a"), thread("a2")) == ()


def test_two_that_are_seen_at_once_have_no_order() -> None:
    scenario = Scenario()
    scenario.stable(thread("a"))
    assert scenario.waiting(thread("x"), thread("y")) == ()


def test_static_members_replace_themselves() -> None:
    scenario = Scenario(unique=True)
    old = DescribedMember("a", "instance-1", subscribed(P1), client_id=thread_id(P1), client_host="/10.0.0.1")
    scenario.stable(old)
    assert scenario.waiting(old, thread("a2")) == ()


def test_two_that_share_a_client_id_in_one_generation_are_left_alone_for_ever() -> None:
    scenario = Scenario()
    scenario.stable(thread("a"), thread("clone"))
    assert "shared by live members" in scenario.finder.warnings()[0]
    assert scenario.finder.warnings() == ()
    scenario.stable(thread("a"))
    assert scenario.waiting(thread("a"), thread("a2")) == ()


def bounced(scenario: Scenario) -> None:
    scenario.stable(thread("a"))
    scenario.finder.removed(scenario.waiting(thread("a"), thread("b")), scenario.now)
    assert scenario.waiting(thread("b"), thread("a-again")) == ()
    assert "came back within" in scenario.finder.warnings()[0]
    scenario.now += RETURN_S
    assert scenario.waiting(thread("b"), thread("a-again"), thread("c")) == ()


def test_who_comes_right_back_and_rests_beside_the_other_was_alive() -> None:
    scenario = Scenario()
    bounced(scenario)
    assert scenario.stable(thread("b"), thread("a-again")) == ()
    assert "shared by live members" in scenario.finder.warnings()[0]
    assert scenario.waiting(thread("b"), thread("d")) == ()


def test_who_comes_right_back_after_another_removed_him_was_alive_too() -> None:
    scenario = Scenario()
    scenario.stable(thread("a"))
    assert scenario.waiting(thread("b")) == (), "removed before we saw both"
    assert scenario.waiting(thread("b"), thread("a-again")) == ()
    assert "came back within" in scenario.finder.warnings()[0]


def test_shared_default_client_ids_of_plain_clients_are_nobodys_business() -> None:
    scenario = Scenario()
    scenario.stable(plain("a", "rdkafka"), plain("b", "rdkafka"))
    scenario.waiting(plain("b", "rdkafka"), plain("c", "rdkafka"))
    assert scenario.finder.warnings() == ()


def test_who_comes_right_back_and_rests_alone_had_crashed() -> None:
    scenario = Scenario()
    bounced(scenario)
    scenario.stable(thread("a-again"))
    scenario.now += RETURN_S
    assert [g.member_id for g in scenario.waiting(thread("a-again"), thread("d"))] == ["a-again"]


def test_a_group_id_with_dashes_is_not_confused_with_a_shorter_one() -> None:
    assert process_of(thread_id(P1, group="word"), "word") == P1
    assert process_of(thread_id(P1, group="word-count"), "word") is None
    assert process_of(thread_id(P1) + "x", GROUP) is None
    assert process_of(f"{GROUP}-{P1}-StreamThread-1-restore-consumer", GROUP) is None
    assert process_of("rdkafka", GROUP) is None


# ---- client ids that an operator attests -------------------------------------------------------------------------


def test_client_ids_prove_nothing_unless_they_are_declared_unique() -> None:
    scenario = Scenario()
    scenario.stable(plain("a"))
    assert scenario.waiting(plain("a"), plain("a2")) == ()


def test_a_attested_client_id_from_the_same_host_is_proof() -> None:
    scenario = Scenario(unique=True)
    scenario.stable(plain("a"))
    (ghost,) = scenario.waiting(plain("a"), plain("a2"))
    assert (ghost.member_id, ghost.proof) == ("a", Proof.CLIENT_ID)


def test_a_attested_client_id_from_another_host_is_none() -> None:
    scenario = Scenario(unique=True)
    scenario.stable(plain("a"))
    assert scenario.waiting(plain("a"), plain("a2", host="/10.0.0.2")) == ()


def test_two_that_start_together_are_none_whatever_was_attested() -> None:
    scenario = Scenario(unique=True)
    assert scenario.waiting(plain("a")) == ()
    assert scenario.waiting(plain("a"), plain("b")) == ()
    assert scenario.stable(plain("a"), plain("b")) == ()
    assert "client id 'app-1'" in scenario.finder.warnings()[0]
    assert scenario.waiting(plain("a"), plain("b"), plain("c")) == ()


def test_an_application_that_sets_client_id_is_reported_once_that_its_ghosts_cannot_be_proven() -> None:
    """Nothing was removed, 47 s passed without an owner, and nothing reported why (D24)."""
    mine = replace(thread("a"), client_id="shop-1-StreamThread-1-consumer")
    scenario = Scenario()
    scenario.stable(mine)
    (warning,) = scenario.finder.warnings()
    assert "client_ids_unique = true" in warning
    assert mine.client_id in warning
    scenario.stable(mine)
    assert scenario.finder.warnings() == ()


def test_who_attested_or_is_no_application_is_reported_nothing() -> None:
    attested, consumers, defaults = Scenario(unique=True), Scenario(), Scenario()
    attested.stable(replace(thread("a"), client_id="shop-1-StreamThread-1-consumer"))
    consumers.stable(plain("a"))
    defaults.stable(thread("a"))
    assert [scenario.finder.warnings() for scenario in (attested, consumers, defaults)] == [(), (), ()]


def test_an_error_shows_nothing() -> None:
    scenario = Scenario(unique=True)
    scenario.stable(plain("a"))
    broken = DescribeAnswer(0, 14, members=(plain("a"), plain("b")))
    assert scenario.finder.refresh(broken, 2.0) == ()
    assert [g.member_id for g in scenario.waiting(plain("a"), plain("b"))] == ["a"]
