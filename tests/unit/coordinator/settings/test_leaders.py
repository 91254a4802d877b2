"""What plans for configured groups, and what is said of a name that nothing has."""

import pytest

from bellwether_kafka.assignors.shared import UnknownNameError
from bellwether_kafka.coordinator.planning import ApplicationError
from bellwether_kafka.coordinator.settings import GroupSettings, leader_of, policies_of


def refused(*groups: GroupSettings) -> str:
    with pytest.raises(UnknownNameError) as error:
        policies_of(groups)
    return str(error.value)


def test_a_misspelt_policy_names_the_setting_the_group_the_nearest_policy_and_all_others() -> None:
    """It was answered with "unknown plug-in; installed are none"."""
    message = refused(GroupSettings(name="orders", policy="rackfirst"))
    assert message.startswith("The setting policy of group orders cannot be used: there is no policy 'rackfirst'")
    assert "perhaps 'rack-first' is meant" in message
    assert "Bellwether has kafka, load-aware, rack-first, sticky-min-churn, topic-balance" in message


def test_all_groups_with_a_wrong_policy_are_named_at_once() -> None:
    message = refused(GroupSettings(name="orders", policy="rackfirst"), GroupSettings(name="bills", policy="stick"))
    assert "group orders" in message
    assert "group bills" in message


def test_a_policy_for_applications_is_not_one_for_consumers() -> None:
    message = refused(GroupSettings(name="orders", policy="streams-ha"))
    assert 'streams-ha is for applications, whose settings have kind = "streams"' in message


def test_a_policy_for_consumers_is_not_one_for_applications() -> None:
    with pytest.raises(ApplicationError, match=r"group shop .*rack-first is for groups of consumers"):
        leader_of(GroupSettings(name="shop", kind="streams", policy="rack-first"))


def test_a_misspelt_policy_of_an_application_names_the_nearest_one() -> None:
    with pytest.raises(ApplicationError, match=r"group shop .*perhaps 'streams-ha' is meant; Bellwether has kafka"):
        leader_of(GroupSettings(name="shop", kind="streams", policy="stream-ha"))


def test_a_policy_that_is_given_on_the_command_line_is_no_setting_of_the_group() -> None:
    with pytest.raises(UnknownNameError, match=r"^The policy cannot be used: there is no policy 'rackfirst'"):
        leader_of(GroupSettings(name="orders"), "rackfirst")


def test_a_protocol_for_which_nothing_plans_names_the_setting_the_group_and_the_policies_for_any() -> None:
    message = refused(GroupSettings(name="orders", protocols=("no-such-assignor",)))
    assert message.startswith("The setting protocols of group orders cannot be used: ")
    assert "no-such-assignor" in message
    assert "rack-first" in message
