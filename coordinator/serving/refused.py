"""Why a request of a broker gets no plan."""


class RefusedError(Exception):
    """Raised if there is no plan for a request; the message gives the reason."""
