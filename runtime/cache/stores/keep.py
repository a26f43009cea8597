"""Which bundles a store keeps: a pure decision."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from runtime.cache.stores.base import BundleRef


@dataclass(frozen=True, slots=True)
class Keep:
    """What to keep. Each bound alone is enough to let a bundle go; `protected` outweighs all of them.

    `per_key`: the newest so many of each fingerprint, ≥ 1. `max_age_s`: nothing published longer ago (None: no
    bound). `max_bytes`: in all, the newest first (None: no bound). `protected`: digests in use now.
    """

    per_key: int = 2
    max_age_s: float | None = None
    max_bytes: int | None = None
    protected: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.per_key < 1:
            raise ValueError(f"a store must keep at least 1 bundle of each fingerprint, not {self.per_key}")
        if self.max_age_s is not None and self.max_age_s <= 0:
            raise ValueError(f"the greatest age must be > 0 s, not {self.max_age_s}")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise ValueError(f"the greatest size must be ≥ 0 bytes, not {self.max_bytes}")


def to_delete(refs: Iterable[BundleRef], keep: Keep, now: datetime) -> tuple[BundleRef, ...]:
    """The bundles that `keep` lets go, oldest first. A bundle of the future (another clock) has age 0."""
    newest_first = sorted(refs, key=lambda ref: ref.age_order, reverse=True)
    seen: dict[str, int] = defaultdict(int)
    used_bytes = sum(ref.size_bytes for ref in newest_first if ref.digest in keep.protected)
    gone = []
    for ref in newest_first:
        seen[ref.key] += 1
        if ref.digest in keep.protected:
            continue
        old = keep.max_age_s is not None and (now - ref.published_at).total_seconds() > keep.max_age_s
        big = keep.max_bytes is not None and used_bytes + ref.size_bytes > keep.max_bytes
        if old or big or seen[ref.key] > keep.per_key:
            gone.append(ref)
        else:
            used_bytes += ref.size_bytes
    return tuple(reversed(gone))
