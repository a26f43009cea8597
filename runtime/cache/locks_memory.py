"""The publishers' locks of a store that one process alone writes to: they live and end with it."""

from runtime.cache.locks import Seen
from runtime.cache.publisher import LockRecord


class MemoryLocks:
    """Every key's lock of one store. A process that died holds nothing, so nobody waits for its lock to expire."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}

    def of(self, key: str) -> "MemoryLock":
        """The lock of `key`."""
        return MemoryLock(self._seen, key)


class MemoryLock:
    """See Lock."""

    def __init__(self, seen: dict[str, Seen], key: str) -> None:
        self._all, self._key = seen, key

    async def read(self) -> Seen | None:
        """See Lock."""
        return self._all.get(self._key)

    async def write(self, record: LockRecord, over: Seen | None) -> bool:
        """See Lock."""
        if self._all.get(self._key) != over:
            return False
        number = 1 if over is None else int(over.version) + 1
        self._all[self._key] = Seen(record, str(number))
        return True
