"""Pages, help texts, names and keys avoid the words that docs/style.md replaces."""

import ast
import io
import re
import tokenize
from collections.abc import Container, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.paths import DOCS, ROOT
from tests.source_trees import Nodes, nodes_in, nodes_of, tree_of

AVOIDED = {
    "round": r"(?<!-)(?<!way )\brounds?\b(?![ -]robin)",
    "a look": r"\b(?:a|each|every|its|last|first|next|second|one|two|these|those|before|between|single|per) looks?\b",
    "stands": r"\bstands\b|\borders? (?:that )?stand\b",
    "ours": r"\b(?:ours|us|ourselves)\b(?!-)",
    "we": r"\b(?:we|our)\b",
    "told": r"\b(?:told|tells?|telling)\b",
    "whoever": r"\bwho(?:ever|so)\b",
    "somebody": r"\bsome(?:body|one)\b",
    "obey": r"\b(?:obey|heed)(?:s|ed)?\b",
    "vouch": r"\bvouch\w*",
    "seat": r"\b(?:seat|crew|desk)s?\b",
    "withheld": r"\bwithheld\b",
    "loud": r"\bloud(?:ly)?\b",
    "as ever": r"\bas ever\b|\bof its own accord\b",
    "mend": r"\bmend(?:s|ed|ing)?\b",
}
PATTERNS = {word: re.compile(pattern, re.IGNORECASE) for word, pattern in AVOIDED.items()}
ANY_WORD = re.compile("|".join(AVOIDED.values()), re.IGNORECASE)
# What is written for programs: code in fences, on indented lines and in backticks; targets of links; comments.
CODE = re.compile(r"^ *```.*?^ *```|^ {4}\S.*?$|`[^`\n]+`|\]\([^)]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)
# These quote the words, record what was written before, or are written by others.
EXEMPT = frozenset({"CHANGELOG.md", "CODE_OF_CONDUCT.md", "docs/style.md"})
PAGES = sorted(str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


# Fields of records, which are no prose.
LEFT = re.compile(r"rounds int")
CODE_FOLDERS = ("assignors", "coordinator", "pipeline", "protocol")
DOCUMENTED_FOLDERS = (*CODE_FOLDERS, "bellwether_kafka", "deploy", "docs", "examples", "tests")


def avoided(text: str) -> list[str]:
    """Each avoided word of the prose in a page, with what surrounds it."""
    prose = CODE.sub(" ", text)
    hits = ((word, hit) for word, pattern in PATTERNS.items() for hit in pattern.finditer(prose))
    return [f"{word}: ...{prose[max(0, hit.start() - 40) : hit.end() + 40]!r}..." for word, hit in hits]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in EXEMPT])
def test_a_page_avoids_these_words(page: str) -> None:
    hits = avoided((ROOT / page).read_text(encoding="utf-8"))
    assert not hits, f"{page} (docs/style.md has better ones):\n" + "\n".join(hits)


def test_pages_that_are_not_checked_exist() -> None:
    assert {page for page in EXEMPT if not (ROOT / page).is_file()} == set()


@pytest.mark.parametrize("word", AVOIDED)
def test_the_style_guide_has_a_better_word(word: str) -> None:
    text = (DOCS / "style.md").read_text(encoding="utf-8").split("## Words to avoid")[1]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert any(word in old.split(", ") and new for old, new in rows)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A round begins, and whoever obeys is told.", {"round", "whoever", "obey", "told"}),
        ("Two looks at a group; the order stands.", {"a look", "stands"}),
        ("Round robin looks at `rounds`, around us-east-1: [a page](rounds.md).", set()),
        ("```\nround\n```\n\n    a round\n\nIt refreshes.", set()),
    ],
)
def test_words_are_found_in_prose_only(text: str, words: set[str]) -> None:
    assert {hit.partition(":")[0] for hit in avoided(text)} == words


def modules(folder: str) -> Iterator[Path]:
    yield from sorted((ROOT / folder).rglob("*.py"))


def paths(folder: str) -> Iterator[Path]:
    """Every module of a folder but this one, each by one path."""
    for path in modules(folder):
        if path.name != "test_words.py" and not any(parent.is_symlink() for parent in path.parents):
            yield path


def texts(nodes: Nodes) -> Iterator[ast.Constant]:
    """What a module may show to people: its strings of more than one word, docstrings apart."""
    statements = (node.value for node in nodes if isinstance(node, ast.Expr))
    documentation = {id(value) for value in statements if isinstance(value, ast.Constant)}
    for node in nodes:
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in documentation:
            continue
        if " " in node.value.strip():
            yield node


@pytest.mark.parametrize("folder", CODE_FOLDERS)
def test_the_texts_of_the_code_avoid_these_words(folder: str) -> None:
    hits = [
        f"{path.relative_to(ROOT)}:{text.lineno} {hit}"
        for path in modules(folder)
        for text in texts(nodes_of(path))
        for hit in avoided(LEFT.sub("", str(text.value)))
    ]
    assert not hits, "docs/style.md has better words:\n" + "\n".join(hits)


def documentation(code: str) -> Iterator[str]:
    """Yields the docstrings and the comments of a module, the latter as one text."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    yield from (ast.get_docstring(node) or "" for node in nodes_in(code) if isinstance(node, documented))
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    yield "\n".join(token.string for token in tokens if token.type == tokenize.COMMENT)


@pytest.mark.parametrize("folder", DOCUMENTED_FOLDERS)
def test_docstrings_and_comments_avoid_these_words(folder: str) -> None:
    hits = [
        f"{path.relative_to(ROOT)} {hit}"
        for path in paths(folder)
        for code in [path.read_text(encoding="utf-8")]
        if ANY_WORD.search(code)  # few modules have one, and the others need not be parsed
        for text in documentation(code)
        for hit in avoided(text)
    ]
    assert not hits, "docs/style.md has better words:\n" + "\n".join(hits)


def test_docstrings_and_comments_are_read() -> None:
    code = '"""Our module."""\n\n\ndef run() -> None:\n    """Tells it."""  # by us\n    print("We run.")\n'
    assert list(documentation(code)) == ["Our module.", "Tells it.", "# by us"]


def test_texts_are_what_people_read_and_no_docstrings() -> None:
    nodes = nodes_in('"""Our module."""\nfail(f"We refuse {name}.")\nlog.info("rules_in_force")\n')
    assert [text.value for text in texts(nodes)] == ["We refuse "]


@pytest.mark.parametrize("folder", CODE_FOLDERS)
def test_every_module_states_what_it_is_for_without_these_words(folder: str) -> None:
    stated = {path: ast.get_docstring(tree_of(path)) for path in modules(folder)}
    by_module = {str(path.relative_to(ROOT)): avoided((text or "").split("\n\n")[0]) for path, text in stated.items()}
    assert [str(path) for path, text in stated.items() if not text] == []
    assert {name: hits for name, hits in by_module.items() if hits} == {}


# Parts of names, and what to write instead; these are words of the code and not of the prose.
NAMES = {
    **dict.fromkeys(("round", "rounds"), "rebalance"),
    **dict.fromkeys(("look", "looks", "looked", "looking"), "refresh, poll, sample or observe"),
    **dict.fromkeys(("told", "tell", "tells", "telling", "said"), "reported, given, message, or what the value is"),
    **dict.fromkeys(("ours", "our", "us", "we"), "own or bellwether"),
    **dict.fromkeys(("stands", "standing", "stood"), "in_force"),
    **dict.fromkeys(("withheld", "withhold"), "pending"),
    **dict.fromkeys(("sidecar", "sidecars"), "instance"),
    **dict.fromkeys(("desk", "desks"), "channel"),
    **dict.fromkeys(("seat", "seats", "crew", "crews"), "member, slot or instances"),
    **dict.fromkeys(("emptied",), "evacuated"),
    **dict.fromkeys(("story", "stories", "villain", "villains"), "scenario"),
    **dict.fromkeys(("obey", "obeys", "obeyed", "obeying", "heed", "heeds", "heeded"), "carry_out or follow"),
    **dict.fromkeys(("beat", "beats"), "heartbeat"),
    **dict.fromkeys(("void", "voids", "voided"), "infeasible or outdated"),
    **dict.fromkeys(("doubt", "doubts", "doubted", "doubtful"), "objection, distrust or caveat"),
    **dict.fromkeys(("barrier", "barriers"), "blocker"),
    **dict.fromkeys(("rehearse", "rehearsed", "rehearsal"), "dry_run"),
    **dict.fromkeys(("vouch", "vouches", "vouched"), "attest"),
    **dict.fromkeys(("whoever", "whoso", "somebody", "someone"), "what it is: a member, a process"),
}
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
# An assignor of Kafka's, and microseconds.
OF_OTHERS = re.compile(r"round_?robin|pause_us(?:_max)?", re.IGNORECASE)
# Fields of records in topics, which earlier versions read and write; settings that were renamed; a region.
OLD_KEYS = frozenset({"round", "withheld", "beat", "stands_by", "sidecar_id", "BELLWETHER_SIDECAR_ID", "us"})
NAMED_FOLDERS = (
    "assignors",
    "bellwether_kafka",
    "coordinator",
    "pipeline",
    "protocol",
    "tests",
    "examples",
    "deploy",
    "docs",
)


# Words for what people do, and metaphors, in names that a module defines.
METAPHORS = {
    **dict.fromkeys(("believe", "believed", "disbelieved", "mistrust"), "check, or reject"),
    **dict.fromkeys(("bury", "farewell", "dying", "heir", "heirs"), "remove, last, ending or successor"),
    **dict.fromkeys(("calm", "peace", "pain", "pains", "fate", "surprised"), "what it is: a policy, a problem, an end"),
    **dict.fromkeys(("cheapen", "dear", "dearer", "dearest"), "cost, price or costliest"),
    **dict.fromkeys(("choosy", "chatty", "hurried", "sane"), "the limit, or the level"),
    **dict.fromkeys(("imagined", "promising", "witnesses", "recollect"), "simulated, candidate, source or rebuild"),
    **dict.fromkeys(("rival", "rivals", "twin", "twins", "stranger", "outsiders"), "which members they are"),
    **dict.fromkeys(("deaf", "hear", "heard", "hearer", "unheard"), "received, recent, silent or callback"),
    **dict.fromkeys(("patiently", "saw", "spoke", "spoken", "speaks"), "retried, observe, report or version"),
    **dict.fromkeys(("stir", "stirred", "stirring"), "poll_now, or requested"),
    **dict.fromkeys(("strange", "astray"), "unexpected or misplaced"),
    **dict.fromkeys(("wish", "wishes", "wished"), "event, or preferred"),
}
PRODUCT_FOLDERS = ("assignors", "bellwether_kafka", "coordinator", "deploy", "docs", "examples", "pipeline", "protocol")


def definitions(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Every name that a module defines or sets, with its line."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname
        elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
            yield node.lineno, node.name


def names(nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Every name that a module defines, sets or passes, and each key of a dictionary or a logged event, with its
    line."""
    yield from definitions(nodes)
    for node in nodes:
        if isinstance(node, ast.keyword) and node.arg:
            yield node.value.lineno, node.arg
        elif isinstance(node, ast.Dict):
            keys = [(key.lineno, str(key.value)) for key in node.keys if isinstance(key, ast.Constant)]
            yield from (key for key in keys if key[1] not in OLD_KEYS)
        elif isinstance(node, ast.Call) and _logs(node.func):
            yield from ((text.lineno, str(text.value)) for text in node.args[:1] if isinstance(text, ast.Constant))


def _logs(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "log"


def forbidden(name: str, words: Container[str] = NAMES) -> list[str]:
    """The parts of a name that have a better word."""
    return [part for part in _parts(name) if part in words]


@cache
def _parts(name: str) -> tuple[str, ...]:
    """Few names of hundreds of thousands differ."""
    if not name.isidentifier():
        return ()
    return tuple(hit.lower() for hit in PART.findall(OF_OTHERS.sub("", name)))


def _sources(folder: str) -> Iterator[tuple[Path, Nodes]]:
    """Every module of a folder, with its nodes; those of tests are many and not kept."""
    for path in paths(folder):
        nodes = nodes_of(path) if not folder.startswith("tests") else nodes_in(path.read_text(encoding="utf-8"))
        yield path.relative_to(ROOT), nodes


Lines = tuple[tuple[int, str], ...]


@cache
def _names_of(folder: str) -> tuple[tuple[Path, Lines, Lines], ...]:
    """Every module of a folder, with the names that it defines and all its names; parsed once for two checks."""
    return tuple((path, tuple(definitions(nodes)), tuple(names(nodes))) for path, nodes in _sources(folder))


@cache
def _named(folder: str) -> tuple[str, ...]:
    hits = []
    for path, _, every_name in _names_of(folder):
        hits += [f"{path}: {part}: {NAMES[part]}" for part in forbidden(path.stem)]
        for line, name in every_name:
            hits += [f"{path}:{line} {name}: {NAMES[part]}" for part in forbidden(name)]
    return tuple(dict.fromkeys(hits))


@pytest.mark.parametrize("folder", NAMED_FOLDERS)
def test_names_and_keys_avoid_these_words(folder: str) -> None:
    hits = _named(folder)
    assert not hits, "write instead:\n" + "\n".join(hits)


@pytest.mark.parametrize("folder", NAMED_FOLDERS)
def test_definitions_are_no_metaphors(folder: str) -> None:
    hits = [
        f"{path}:{line} {name}: {METAPHORS[part]}"
        for path, defined, _ in _names_of(folder)
        for line, name in [*defined, (1, path.stem)]
        for part in forbidden(name, METAPHORS)
    ]
    assert not hits, "write instead:\n" + "\n".join(hits)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("LagLooks", ["looks"]),
        ("next_round_of_ours", ["round", "ours"]),
        ("ROUNDS_MAX", ["rounds"]),
        ("RoundRobinAssignor", []),
        ("around_standby_lookup", []),
        ("us-east-1a", []),
    ],
)
def test_parts_of_names_are_found(name: str, parts: list[str]) -> None:
    assert forbidden(name) == parts


# These names fit every value, and so they say nothing about one.
EMPTY_NAMES = frozenset({"found", "known", "one", "held", "said"})
CONCRETE_FOLDERS = (*PRODUCT_FOLDERS, "tests")


def empty_names(defined: Iterable[tuple[int, str]]) -> list[str]:
    """The definitions, with their lines, whose whole name is one of these words."""
    return [f"{line} {name}" for line, name in defined if name.strip("_").lower() in EMPTY_NAMES]


@pytest.mark.parametrize("folder", CONCRETE_FOLDERS)
def test_names_say_what_a_value_is(folder: str) -> None:
    hits = [f"{path}:{hit}" for path, defined, _ in _names_of(folder) for hit in empty_names(defined)]
    assert not hits, "name what the value is (plan, owner, topic, members, partitions_by_topic):\n" + "\n".join(hits)


QUOTED = re.compile(rf"`_?({'|'.join(sorted(EMPTY_NAMES))})`")


def documented_empty_names(code: str) -> list[str]:
    """These words in the backticks of docstrings, where they would name a value, with the line of the definition."""
    if not QUOTED.search(code):
        return []
    documented = [n for n in nodes_in(code) if isinstance(n, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)]
    return [f"{n.lineno} {name}" for n in documented for name in QUOTED.findall(ast.get_docstring(n) or "")]


@pytest.mark.parametrize("folder", CONCRETE_FOLDERS)
def test_docstrings_use_the_names_of_their_values(folder: str) -> None:
    hits = [
        f"{path}:{hit}" for path in paths(folder) for hit in documented_empty_names(path.read_text(encoding="utf-8"))
    ]
    assert not hits, "these name values that were renamed:\n" + "\n".join(hits)


def test_a_docstring_with_an_empty_name_is_found() -> None:
    code = 'def plan(owners):\n    "`held` are the owners; one is known."\n\n\ndef run():\n    "Runs `plan`."'
    assert documented_empty_names(code) == ["1 held"]


@pytest.mark.parametrize(
    ("code", "hits"),
    [
        ("found = plan()", ["1 found"]),
        ("def owner(self, *, _known): ...", ["1 _known"]),
        ("rows = [one for one in self.held]", ["1 one"]),
        ("class Row:\n    said: str", ["2 said"]),
        ("match plan:\n    case [one]: ...", ["2 one"]),
        ('known_lags = {"known": one_by_one(known=True)}', []),
    ],
)
def test_names_that_say_nothing_are_found(code: str, hits: list[str]) -> None:
    assert empty_names(definitions(nodes_in(code))) == hits


def test_a_metaphor_in_a_name_is_found() -> None:
    assert forbidden("_poll_stirred", METAPHORS) == ["stirred"]
    assert forbidden("_poll_requested", METAPHORS) == []
