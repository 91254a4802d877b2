"""Text as TOML writes it. Pure."""


def quoted(text: str) -> str:
    """A basic string; group ids and properties may hold anything."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else _escape(ord(c)) for c in escaped) + '"'


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
