"""Groups that a pattern selects: which fit, whose settings win, and one sentence for what cannot be."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.settings import AmbiguousGroupError, Settings, load, pattern
from tests.kit.commands import BROKER, complaint, from_toml


def settings(folder: Path, *entries: str) -> Settings:
    return from_toml(folder, "\n".join(f"[[groups]]\n{entry}" for entry in entries), BROKER)


@pytest.mark.parametrize(
    ("text", "fits", "fails"),
    [
        ("*", ["", "orders", "a\nb"], []),
        ("team-a-*", ["team-a-", "team-a-orders"], ["team-b-orders", "my-team-a-orders", "TEAM-A-x"]),
        ("orders-?", ["orders-1"], ["orders-", "orders-12"]),
        ("a.b[1]*", ["a.b[1]", "a.b[1]c"], ["axb1", "a.b1"]),
        ("/^team-[ab]-/", ["team-a-x", "team-b-"], ["team-c-x", "my-team-a-x"]),
        ("/dlq$/", ["orders-dlq", "dlq"], ["dlq-1"]),
        ("/", ["/"], ["a"]),
    ],
)
def test_what_fits_a_pattern(text: str, fits: list[str], fails: list[str]) -> None:
    assert [group for group in [*fits, *fails] if pattern(text).fits(group)] == fits


@pytest.mark.parametrize(
    ("specific", "general"),
    [
        ("team-a-*", "team-*"),
        ("team-*-dlq", "team-*"),
        ("t*", "*-orders"),
        ("/^team-a/", "team-*"),
        ("team-*", "/^team.*/"),
        ("team-a*", "/^team-ab?/"),
        ("t*", "/^team|^orders/"),
        ("*-x", "/team/"),
    ],
)
def test_the_longer_beginning_is_more_specific_and_then_the_longer_text(specific: str, general: str) -> None:
    assert pattern(specific).precision >= pattern(general).precision
    if specific != "team-a*":
        assert pattern(specific).precision > pattern(general).precision


def test_the_most_specific_entry_wins_and_a_name_over_all(tmp_path: Path) -> None:
    configured = settings(
        tmp_path,
        'match = "*"',
        'match = "team-*"\npolicy = "rack-first"',
        'match = "team-a-*"\npolicy = "sticky-min-churn"',
        'name = "team-a-led"\nmode = "lead"',
    )
    chosen = {name: configured.group(name) for name in ("orders", "team-b-x", "team-a-x", "team-a-led")}
    assert [(group.name, group.policy, group.mode) for group in chosen.values() if group] == [
        ("orders", "kafka", "observe"),
        ("team-b-x", "rack-first", "observe"),
        ("team-a-x", "sticky-min-churn", "observe"),
        ("team-a-led", "kafka", "lead"),
    ]
    assert [group.name for group in configured.named] == ["team-a-led"]
    assert [membership.group_id for membership in configured.memberships] == ["team-a-led"]


def test_an_exclusion_is_of_its_entry_only(tmp_path: Path) -> None:
    configured = settings(tmp_path, 'match = "team-*"\nexclude = ["*-test", "/-dlq$/"]', 'match = "*-test"')
    assert configured.group("team-dlq") is None
    assert configured.group("orders") is None
    assert configured.group("team-a") == configured.patterns[0].of_group("team-a")
    assert configured.group("team-test") == configured.patterns[1].of_group("team-test")


def test_two_equally_specific_patterns_are_an_error_that_names_both_and_the_group(tmp_path: Path) -> None:
    configured = settings(tmp_path, 'match = "team-*"', 'match = "/^team-/"', 'name = "team-named"')
    with pytest.raises(AmbiguousGroupError) as caught:
        configured.group("team-a")
    message = str(caught.value)
    assert message.startswith(
        "Group team-a: the patterns team-* and /^team-/ are equally specific, so it is not observed;"
    )
    assert configured.group("team-named") == configured.named[0]


def test_a_bare_word_with_a_star_is_a_pattern() -> None:
    document = load(environ={**BROKER, "BELLWETHER_GROUPS": "orders, team-*, /^x/"})
    assert [(group.name, group.match) for group in document.groups] == [("orders", ""), ("", "team-*"), ("", "/^x/")]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('match = "/(/"', "/(/ is not a regular expression (missing ), unterminated subpattern at position 0)"),
        ('match = "*"\nexclude = ["/[/"]', "/[/ is not a regular expression"),
        ('match = "*"\nname = "a"', "it has both name and match; remove match"),
        ('name = "a"\nexclude = ["b"]', "exclude is for groups that a pattern selects"),
        (
            'match = "*"\nmode = "lead"',
            'match with mode = "lead" is not possible, because it would also select groups that',
        ),
        ('match = "*"\nmode = "assist"', "give each group to assist a [[groups]] with its name"),
        ('match = "*"\ninstance_id = "a"', "instance_id belongs to one group; name that group by name = ..."),
        ('match = "*"\n[[groups]]\nmatch = "*"', "groups has the pattern * twice; remove one of the two"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, entry: str, message: str) -> None:
    sentence = complaint(tmp_path, f"[[groups]]\n{entry}\n", BROKER)
    assert message in sentence
    assert sentence.endswith(".")
