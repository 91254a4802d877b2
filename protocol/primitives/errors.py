"""What can be wrong with bytes: a caller wanted nonsense written, or the peer sent it. Nothing else leaves a codec."""


class ProtocolError(Exception):
    """Base of both kinds; never raised itself."""


class LocalProtocolError(ProtocolError):
    """A value of Bellwether's that the wire format cannot carry (a string over 32,767 bytes, a negative count)."""


class RemoteProtocolError(ProtocolError):
    """Bytes of a peer that do not decode: truncated, absurd counts, bad UTF-8."""
