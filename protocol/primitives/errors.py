"""The errors of the codecs: the caller's value cannot be written, or the peer's bytes cannot be read. They raise no
others."""


class ProtocolError(Exception):
    """Base of both kinds; never raised itself."""


class LocalProtocolError(ProtocolError):
    """A value from Bellwether that the wire format cannot carry (a string over 32,767 bytes, a negative count)."""


class RemoteProtocolError(ProtocolError):
    """Bytes of a peer that do not decode: truncated, absurd counts, bad UTF-8."""
