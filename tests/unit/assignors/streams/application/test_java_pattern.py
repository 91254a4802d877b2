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
        (r"\p{Lower}+-events", "orders-events", "Orders-events"),
        (r"\P{Lower}+", "ORDERS-1", "ORDERs"),
        (r"\p{Alnum}+\.cdc", "orders1.cdc", "orders_1.cdc"),
        (r"\p{javaUpperCase}\p{IsAlphabetic}\p{L}\pN", "ABc1", "aBc1"),
        (r"\p{Punct}\p{IsLatin}\p{sc=Latin}\p{gc=Nd}", "_ab0", "1ab0"),
        (r"[\p{L}&&[^\p{Lu}]]+", "abc", "aBc"),
        (r"(?<tenant>[a-z]+)-events", "orders-events", "1-events"),
        (r"(?<t>\w)\k<t>", "aa", "ab"),
        (r"(a|b)-\1", "b-b", "a-b"),
        (r"(a)\11", "aa1", "aa"),
        (r"[a-z&&[^x]]+-events", "orders-events", "xx-events"),
        (r"[a-z&&[def]]+", "fed", "abc"),
        (r"[a-z&&d-f&&[^e]]+", "fd", "fed"),
        (r"[a-z[0-9]]+-events", "orders1-events", "A-events"),
        (r"[a-]+", "a-", "b"),
        (r"[^\w]+", "-.", "a"),
        (r"[^_\d]+", "ab-", "a1"),
        (r"in-(?i)orders", "in-ORDERS", "IN-orders"),
        (r"(in-(?i)orders)-x", "in-ORDERS-x", "in-ORDERS-X"),
        (r"a(?i)b|c", "C", "Ab"),
        (r"(?i:[a-f&&[^c]])x", "Fx", "Cx"),
        (r"(?i)a(?-i)b", "Ab", "AB"),
        (r"(?s).+(?m)$", "orders", ""),
        (r"orders-[^\h]+\z", "orders-eu", "orders-"),
        (r"\Aorders\b.*\Z", "orders.x", "ordersx"),
        (r"\S+\H\V", "abc", "ab"),
        (r"\x6f\x{72}\u0064\0145rs", "orders", "0rders"),
        (r"orders(?!-dlq).*", "orders-eu", "orders-dlq"),
        (r".*(?<!-dlq)", "orders", "orders-dlq"),
        (r"(?>a+)ab|c", "c", "aab"),
        (r"a++b", "aab", "aa"),
        (r"a{2,3}?", "aaa", "a"),
        (r"a|", "a", "b"),
        (r"\-\.\_", "-._", "a"),
        (r"\d{4}", "2026", "202٣"),
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
        (r"[^a-z&&[x]]", r"class '\[\^a-z&&\[x\]\]'"),
        (r"[^a[b]]", r"class '\[\^a\[b\]\]'"),
        (r"[a-z&&[b-d]e]", "class"),
        (r"[a&&&b]", "class"),
        (r"[[:alpha:]]", "class"),
        (r"[]a]", "class"),
        (r"[a-\d]", "class"),
        (r"[z-a]", "class"),
        (r"[a-z", r"class '\[a-z' has no end"),
        (r"(?x)a b", r"flag 'x' of '\(\?x\)'"),
        (r"(?i)\p{Lower}", "differs between versions of Java"),
        (r"(?i)(a)\1", "under flag i"),
        (r"(?(1)a)", r"group '\(\?\(1\)a\)'"),
        (r"(?#note)a", "group"),
        (r"\p{Emoji}", r"class '\\p\{Emoji\}'"),
        (r"\p{^L}", "class"),
        (r"\X+", r"'\\\\X\+' at position 0"),
        (r"\Ga", "at position 0"),
        (r"a\y", "at position 1"),
        (r"a\E", "at position 1"),
        (r"\b{g}", "at position 0"),
        (r"\1(a)", "refers to no group"),
        (r"\k<x>", "at position 0"),
        (r"a{,3}", r"'\{' at position 1"),
        (r"a**", "repeats nothing"),
        (r"*a", r"'\*' at position 0"),
        (r"(?i)+", "repeats nothing"),
        (r"(a", r"group '\(' is not closed"),
        (r"a)", "closes no group"),
        (r"(?<=a+)b", "look-behind"),
        ("a\\", "escape at the end has no end"),
        ("a\nb", "line break"),
        ("(" * 200, "nested too deeply"),
        ("[" * 200 + "a", "class"),
    ],
)
def test_what_cannot_be_translated_is_refused_with_the_part(pattern: str, part: str) -> None:
    with pytest.raises(PatternError, match=part):
        translated(pattern)


def test_a_topology_refuses_such_a_pattern_with_its_subtopology_and_a_remedy() -> None:
    sentence = r"pattern .* of subtopology 3 cannot be read: .*; write one that takes the same topics"
    with pytest.raises(TopologyError, match=sentence):
        Topology("app", (Subtopology(3, ()),), "file", patterns=((3, r"[^a-z&&[x]]"),))
