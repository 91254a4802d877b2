"""Patterns of source topics with the meaning that java.util.regex gives them."""

import pytest

from bellwether_kafka.assignors.streams.application import Subtopology, Topology, TopologyError
from bellwether_kafka.assignors.streams.application.java_pattern import PatternError, translated


@pytest.mark.parametrize(
    ("pattern", "takes", "leaves"),
    [
        (r"\Qtenant.eu.\E.*", "tenant.eu.orders", "tenantXeuXorders"),
        (r"\Qa.b", "a.b", "aXb"),
        (r"\Qab\E+", "abbb", "abab"),
        (r"a\\Qb|a\.b", "a.b", "aQb"),
        (r"[\Q.-\E]+", ".-.", "a"),
        (r"(?<tenant>[a-z]+)-events", "orders-events", "1-events"),
        (r"[a-]+", "a-", "b"),
        (r"[^\w]+", "-.", "a"),
        (r"[^_\d]+", "ab-", "a1"),
        (r"\Aorders\b.*\Z", "orders.x", "ordersx"),
        (r"orders(?!-dlq).*", "orders-eu", "orders-dlq"),
        (r".*(?<!-dlq)", "orders", "orders-dlq"),
        (r"(?>a+)ab|c", "c", "aab"),
        (r"a++b", "aab", "aa"),
        (r"a{2,3}?", "aaa", "a"),
        (r"a|", "a", "b"),
        (r"\-\.\_", "-._", "a"),
        (r"\d{4}", "2026", "202٣"),
        (r"(?i)[a-f]+-Ö|in-\w", "IN-x", "G"),
        (r"in-(?i:eu|US)", "in-Eu", "IN-eu"),
        (r"^[\w-]+$", "a-1", "a.1"),
        (r"[--/]+", "-.", "a"),
        (r"[^\].^-]+", "a", "^"),
        (r"[a&]+|[.]", "a", "b"),
    ],
)
def test_a_pattern_takes_what_java_takes(pattern: str, takes: str, leaves: str) -> None:
    translated_sums = translated(pattern)
    assert (translated_sums.fullmatch(takes) is not None, translated_sums.fullmatch(leaves) is not None) == (
        True,
        False,
    ), translated_sums.pattern


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (r"\p{Lower}+-events", r"Lower\}.*write the characters, such as \[a-z\]"),
        (r"a[\p{Lu}]", "at position 1 has no translation; write the characters, such as"),
        (r"[^a-z&&[x]]", r"write all characters in one class, such as \[a-wyz\]"),
        (r"[[:alpha:]]", "write all characters in one class"),
        (r"(a|b)-\1", "write all cases, such as"),
        (r"(?<t>\w)\k<t>", "write all cases, such as"),
        (r"in-(?i)orders", r"write \(\?i\) at the beginning"),
        (r"(?x)a b", r"write \(\?i\) at the beginning"),
        (r"\X+", r"X\+' at position 0 has no translation; write the characters themselves"),
        (r"a[\h]", "at position 1 has no translation; write the characters themselves"),
        (r"[]a]", "has no translation"),
        (r"[a-\d]", "has no translation"),
        (r"[z-a]", "bad character range"),
        (r"[a-z", r"'\[a-z' at position 0 has no translation; put a backslash before it, or close it"),
        (r"(?(1)a)", "has no translation"),
        (r"(?#note)a", "has no translation"),
        (r"\b{g}", "at position 2 has no translation"),
        (r"a\E", "at position 1 has no translation"),
        (r"a{,3}", r"'\{,3\}' at position 1 has no translation; put a backslash before it"),
        (r"a**", "multiple repeat"),
        (r"*a", "nothing to repeat"),
        (r"(?i)+", "nothing to repeat"),
        (r"(a", "unterminated subpattern"),
        (r"a)", "unbalanced parenthesis"),
        (r"(?<=a+)b", "look-behind"),
        ("a\\", "at position 1 has no translation"),
        ("a\nb", "line break"),
        ("[" * 200 + "a", "has no translation"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_the_part(pattern: str, part: str) -> None:
    with pytest.raises(PatternError, match=part):
        translated(pattern)


def test_a_topology_refuses_such_a_pattern_with_its_subtopology_and_a_remedy() -> None:
    sentence = r"pattern .* of subtopology 3 cannot be read: .*; write all characters in one class"
    with pytest.raises(TopologyError, match=sentence):
        Topology("app", (Subtopology(3, ()),), "file", patterns=((3, r"[^a-z&&[x]]"),))
