"""What `bellwether init` accepts as answers, and the sentence for what it does not."""

import pytest

from bellwether_kafka.coordinator.cli.init import (
    AnswerError,
    ChosenGroups,
    chosen,
    names_of,
    properties_of,
    rack_of,
)

LISTED = ("orders", "billing")


def test_properties_are_names_and_values() -> None:
    given = ["security.protocol=SASL_SSL", "sasl.password.file = /run/p", "sasl.username=a=b"]
    properties = {"security.protocol": "SASL_SSL", "sasl.password.file": "/run/p", "sasl.username": "a=b"}
    assert properties_of(given) == properties


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["security.protocol"], "security.protocol is not"),
        (["=x"], "one is not"),
        (["acks="], "acks is not"),
        (["hunter2"], r"\[hidden\] is not"),
        (["client.id=a", "client.id=b"], "client.id is given twice"),
        (["bootstrap.servers=b:1"], "use --bootstrap"),
        (["client.rack=az1"], "use --rack"),
        (["sasl.password=hunter2"], "use sasl.password.file=PATH"),
        (["ssl.key.pem=hunter2"], "use ssl.key.pem.file=PATH"),
    ],
)
def test_a_property_that_cannot_be_used_is_named_without_its_value(given: list[str], message: str) -> None:
    with pytest.raises(AnswerError, match=message) as raised:
        properties_of(given)
    assert "hunter2" not in str(raised.value)


def test_names_have_commas_between() -> None:
    assert names_of("orders, team-*,,orders") == ("orders", "team-*")
    assert names_of("") == names_of("-") == ()
    assert names_of("/^a{1,2}$/") == ("/^a{1,2}$/",), "a regular expression may have commas"


def test_groups_to_observe_need_not_exist_yet_and_groups_to_lead_do() -> None:
    assert chosen(["team-*", "later", "later"], ["orders"], LISTED) == ChosenGroups(("team-*", "later"), ("orders",))


@pytest.mark.parametrize(
    ("observe", "lead", "message"),
    [
        ([], [], "use --observe PATTERN or --lead GROUP"),
        (["orders"], ["orders"], "given to --observe and to --lead"),
        ([], ["ordres"], "perhaps orders is meant"),
        ([], ["x"], "start its members, or see 'bellwether groups'"),
    ],
)
def test_a_choice_that_cannot_be_is_a_sentence(observe: list[str], lead: list[str], message: str) -> None:
    with pytest.raises(AnswerError, match=message):
        chosen(observe, lead, LISTED)


def test_a_rack_is_one_of_the_brokers() -> None:
    assert rack_of("az1", ("az1", "az2")) == "az1"
    assert rack_of("", ("az1",)) == rack_of("", ()) == ""
    with pytest.raises(AnswerError, match="one of az1, az2"):
        rack_of("az9", ("az1", "az2"))
    with pytest.raises(AnswerError, match="leave out --rack"):
        rack_of("az1", ())
