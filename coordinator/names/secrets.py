"""Hides secret values in all output: in errors of libraries, tracebacks and log lines.

Code that reads a secret from a setting, a file or a variable registers it once with `keep_secret`. Code that prints
text calls `without_secrets`.
"""

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from bellwether_kafka.coordinator.names.languages import for_html, for_shell

HIDDEN = "[hidden]"
SHORTEST = 4  # characters; hiding shorter text would hide parts of ordinary words
LINE_SHORTEST = (
    16  # characters of a line of a secret with several lines; headers of PEM files are shorter or begin with dashes
)
RENEWED_MAX = 64  # written forms of renewed tokens; older tokens have expired

SECRETS = (
    "password",
    "passphrase",
    "secret",
    "token",
    "jaas",
    "credential",
    "private",
    "key.pem",
    "keystore.key",
    "oauthbearer.config",
)
# A name and its value in quotes, as the text of an error shows a table or a call.
_ASSIGNED = re.compile(
    rf"""((?:{"|".join(map(re.escape, SECRETS))})[\w.-]*['"]?\s*[:=]\s*)('[^']*'|"[^"]*")""", re.IGNORECASE
)

# A password within an address, as in https://user:password@host, even with an unencoded slash in it. A number before a
# slash is a port.
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/?#:@'\"]*:)(?!\d+[/?#])[^\s'\"]+(?=@)", re.IGNORECASE)
# A query value whose name is that of a secret, as in https://host/?api_key=value.
_OF_QUERIES = "|".join(map(re.escape, (*SECRETS, "apikey", "api_key", "api-key", "signature")))
_IN_QUERY = re.compile(rf"""([?&;][\w.%-]*(?:{_OF_QUERIES})[\w.%-]*=)[^\s&;'"#]+""", re.IGNORECASE)

_ENCODED = re.compile("%[0-9A-F]{2}")

# Each written form of a secret, and its bytes: of secrets that last as long as the process, and of those that expire.
_lasting: dict[str, bytes] = {}
_renewed: dict[str, bytes] = {}


def keep_secret(value: str, *, renewed: bool = False) -> None:
    """Hides this value in every output of the process from now on, also as JSON, Python or a URL writes it, and single
    lines of it. Text shorter than SHORTEST characters is not hidden, because it occurs in ordinary words. `renewed`:
    the value will be replaced; only the newest of these are kept."""
    kept = _renewed if renewed else _lasting
    for text in _written(value.strip()):
        if len(text) >= SHORTEST:
            kept.pop(text, None)
            kept[text] = text.encode("utf-8", "surrogateescape")
    while len(_renewed) > RENEWED_MAX:
        del _renewed[next(iter(_renewed))]


def without_secrets(text: str) -> str:
    """Returns the text with HIDDEN in place of every registered secret (the longest first), of quoted values and query
    values whose name is that of a secret, and of passwords in addresses."""
    for value in sorted((secret for secret in (*_lasting, *_renewed) if secret in text), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern in (_ASSIGNED, _IN_QUERY, _IN_ADDRESS):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def without_kept_secrets(data: bytes) -> bytes:
    """Returns a page with registered secrets hidden. It does not search for names, which takes too long for
    megabytes."""
    kept = (*_lasting.values(), *_renewed.values())
    for value in sorted((secret for secret in kept if secret in data), key=len, reverse=True):
        data = data.replace(value, HIDDEN.encode())
    return data


def _written(value: str) -> Iterator[str]:
    """Yields the value, and its forms in languages that escape characters."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    for encoded in (quote(value, safe=""), quote_plus(value)):
        yield encoded
        yield _ENCODED.sub(lambda hit: hit[0].lower(), encoded)
    yield for_html(value)
    yield _within_quotes(for_shell(value))
    yield value.replace("'", "''")  # YAML
    yield base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
    yield from (line for line in map(str.strip, value.splitlines()) if len(line) >= LINE_SHORTEST and line[0] != "-")


def _within_quotes(word: str) -> str:
    """Returns a word of a command line without the quotes around it: a shell needs them for some words only."""
    return word.removeprefix("$")[1:-1] if word.endswith("'") else word
