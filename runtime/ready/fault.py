"""One exception for everything that can keep an engine from becoming ready: the cause, what to do, its numbers."""

from collections.abc import Mapping
from datetime import datetime

from runtime.contract import Failure, FailureCause


class Fault(Exception):
    """A start cannot go on. `str()` is a sentence that names the place and the fix.

    `permanent`: the same spec and files would fail again. `tail`: the last lines of the engine's log.
    """

    def __init__(
        self,
        cause: FailureCause,
        message: str,
        numbers: Mapping[str, float | str] | None = None,
        *,
        permanent: bool = False,
        tail: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.numbers = dict(numbers or {})
        self.permanent = permanent
        self.tail = tail

    def at(self, instant: datetime) -> Failure:
        """The same as a contract value, with the instant at which it was seen."""
        return Failure(
            cause=self.cause,
            message=str(self),
            at=instant,
            numbers=self.numbers,
            permanent=self.permanent,
            tail=self.tail,
        )
