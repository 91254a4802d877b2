"""Values that no output shows, wherever they turn up: in the text of a library's error, in a traceback, in a log line.

Whatever reads a secret from a setting, a file or a variable hands it over once; whatever prints text for people asks.
"""

import re

HIDDEN = "[hidden]"
SHORTEST = 4  # characters; hiding shorter text would hide parts of ordinary words

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

_secrets: set[str] = set()


def keep_secret(value: str) -> None:
    """From now on this value is hidden in every output of the process. Text of less than SHORTEST characters is not
    kept: it is no secret worth the name, and parts of it are everywhere."""
    if len(value.strip()) >= SHORTEST:
        _secrets.add(value.strip())


def without_secrets(text: str) -> str:
    """The text with HIDDEN in place of every value that is to be kept secret, the longest first, and of values in
    quotes that have the name of a secret."""
    for value in sorted((one for one in _secrets if one in text), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _ASSIGNED.sub(rf"\g<1>{HIDDEN}", text)
