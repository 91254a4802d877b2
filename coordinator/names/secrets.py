"""Values that no output shows, wherever they turn up: in the text of a library's error, in a traceback, in a log line.

Whatever reads a secret from a setting, a file or a variable hands it over once; whatever prints text for people asks.
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
    16  # of a line of a secret of several lines; headers of PEM files are shorter words or begin with dashes
)
RENEWED_MAX = 64  # ways to write tokens, which are renewed for as long as the process runs; the oldest have ended

SECRETS = (
    "password",
    "passphrase",
    "secret",
    "token",
    "jaas",
    "credential",
    "private",
    "key.pem",
    "oauthbearer.config",
)
# As a table or a call is written in the text of an error: the name, and its value in quotes.
_ASSIGNED = re.compile(
    rf"""((?:{"|".join(map(re.escape, SECRETS))})[\w.-]*['"]?\s*[:=]\s*)('[^']*'|"[^"]*")""", re.IGNORECASE
)

# A password within an address, as in https://user:password@host, also with a slash in it that should be encoded. What
# is a number before a slash is a port.
_IN_ADDRESS = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/?#:@'\"]*:)(?!\d+[/?#])[^\s'\"]+(?=@)", re.IGNORECASE)
# A value of a query that has the name of a secret, as in https://host/?api_key=value.
_OF_QUERIES = "|".join(map(re.escape, (*SECRETS, "apikey", "api_key", "api-key", "signature")))
_IN_QUERY = re.compile(rf"""([?&;][\w.%-]*(?:{_OF_QUERIES})[\w.%-]*=)[^\s&;'"#]+""", re.IGNORECASE)

_ENCODED = re.compile("%[0-9A-F]{2}")

# Each way to write a secret, and its bytes: of those that hold for as long as the process, and of those that end.
_lasting: dict[str, bytes] = {}
_renewed: dict[str, bytes] = {}


def keep_secret(value: str, *, renewed: bool = False) -> None:
    """From now on this value is hidden in every output of the process, also as JSON, Python or an address writes it,
    and a line of it alone. Text of less than SHORTEST characters is not kept: it is no secret worth the name, and parts
    of it are everywhere. `renewed`: another one will take its place, and the oldest of these are forgotten."""
    kept = _renewed if renewed else _lasting
    for text in _written(value.strip()):
        if len(text) >= SHORTEST:
            kept.pop(text, None)
            kept[text] = text.encode("utf-8", "surrogateescape")
    while len(_renewed) > RENEWED_MAX:
        del _renewed[next(iter(_renewed))]


def without_secrets(text: str) -> str:
    """The text with HIDDEN in place of every value that is to be kept secret, the longest first, of values in quotes
    that have the name of a secret, also in the query of an address, and of passwords in addresses."""
    for value in sorted((one for one in (*_lasting, *_renewed) if one in text), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    for pattern in (_ASSIGNED, _IN_QUERY, _IN_ADDRESS):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def without_kept_secrets(data: bytes) -> bytes:
    """The same for a whole page as it is sent, by values alone: to look for names in megabytes takes too long."""
    kept = (*_lasting.values(), *_renewed.values())
    for value in sorted((one for one in kept if one in data), key=len, reverse=True):
        data = data.replace(value, HIDDEN.encode())
    return data


def _written(value: str) -> Iterator[str]:
    """The value, and how languages write it that escape characters."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    for encoded in (quote(value, safe=""), quote_plus(value)):
        yield encoded
        yield _ENCODED.sub(lambda hit: hit[0].lower(), encoded)
    yield for_html(value)
    yield for_shell(value)[1:-1]
    yield value.replace("'", "''")  # YAML
    yield base64.b64encode(value.encode("utf-8", "surrogateescape")).decode()
    yield from (line for line in map(str.strip, value.splitlines()) if len(line) >= LINE_SHORTEST and line[0] != "-")
