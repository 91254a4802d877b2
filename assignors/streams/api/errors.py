"""Exceptions of the task assignor API."""


class TaskAssignmentError(Exception):
    """Something that may be over soon (KIP-924's TaskAssignmentException): an assignor lets it through, or raises it
    itself, to keep the present assignment and have the rebalance retried."""


class LagsNotComputedError(RuntimeError):
    """A lag was asked of a state that was requested without task lags (Java's UnsupportedOperationException)."""


class UnknownTaskError(LookupError):
    """There is no such task, or it has no lag because it is stateless (Java's IllegalStateException)."""
