"""The exceptions that capturing raises, for `except` clauses."""

from ember.compiler.registered import InvalidBackend

__all__ = ["BackendCompilerFailed", "InvalidBackend", "TorchDynamoException", "Unsupported"]


class TorchDynamoException(RuntimeError):
    """The base of what capturing raises."""


class Unsupported(TorchDynamoException):
    """Code that cannot be captured."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend that failed."""


class UserError(Unsupported):
    """A program that uses capturing wrongly."""


class RecompileLimitExceeded(Unsupported):
    """A function that was compiled too often."""


class FailOnRecompileLimitHit(Unsupported):
    """A function that was compiled too often, where that is an error."""
