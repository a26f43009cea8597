"""Which bundles a store keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cache.stores.base import BundleRef
from runtime.cache.stores.keep import Keep, to_delete
from tests.unit.runtime.cache.stores.samples import KEY, NOON, OTHER_KEY, ref


def test_the_newest_n_of_each_fingerprint_stay() -> None:
    mine = [ref(n, age_s=n) for n in range(4)]
    others = [ref(10, key=OTHER_KEY, age_s=99)]
    assert to_delete([*mine, *others], Keep(per_key=2), NOON) == (mine[3], mine[2])


def test_age_takes_even_the_last_of_a_fingerprint() -> None:
    old, young = ref(1, age_s=11), ref(2, key=OTHER_KEY, age_s=9)
    assert to_delete([old, young], Keep(max_age_s=10), NOON) == (old,)


def test_bytes_take_the_oldest_first_whatever_its_fingerprint() -> None:
    refs = [ref(1, age_s=1), ref(2, age_s=2, key=OTHER_KEY), ref(3, age_s=3)]
    assert to_delete(refs, Keep(per_key=9, max_bytes=200), NOON) == (refs[2],)


def test_what_is_in_use_stays_and_counts() -> None:
    old, young = ref(1, age_s=100), ref(2)
    keep = Keep(per_key=1, max_age_s=10, max_bytes=100, protected=frozenset([old.digest]))
    assert to_delete([old, young], keep, NOON) == (young,)


def test_a_bundle_of_the_future_is_not_old() -> None:
    assert to_delete([ref(1, age_s=-9999)], Keep(max_age_s=10), NOON) == ()


@pytest.mark.parametrize("bad", [{"per_key": 0}, {"max_age_s": 0.0}, {"max_bytes": -1}])
def test_bounds_that_keep_nothing_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must|least"):
        Keep(**bad)  # type: ignore[arg-type]  # one field at a time


REFS = st.lists(
    st.builds(
        ref,
        st.integers(0, 10**6),
        key=st.sampled_from([KEY, OTHER_KEY]),
        age_s=st.floats(-100, 1000),
        size_bytes=st.integers(0, 500),
    ),
    unique_by=lambda each: each.digest,
    max_size=12,
)


@given(REFS, st.integers(1, 4), st.none() | st.floats(1, 1000), st.none() | st.integers(0, 2000))
def test_what_stays_is_within_the_bounds_and_what_goes_broke_one(
    refs: list[BundleRef], per_key: int, max_age_s: float | None, max_bytes: int | None
) -> None:
    keep = Keep(per_key=per_key, max_age_s=max_age_s, max_bytes=max_bytes)
    gone = to_delete(refs, keep, NOON)
    stay = [each for each in refs if each not in gone]
    assert set(gone) <= set(refs)
    for key in (KEY, OTHER_KEY):
        assert sum(each.key == key for each in stay) <= per_key
    assert max_bytes is None or sum(each.size_bytes for each in stay) <= max_bytes
    assert max_age_s is None or all((NOON - each.published_at).total_seconds() <= max_age_s for each in stay)
    for each in gone:
        newer = sum(other.key == each.key and other.age_order > each.age_order for other in refs)
        old = max_age_s is not None and (NOON - each.published_at).total_seconds() > max_age_s
        room = max_bytes is None or sum(s.size_bytes for s in stay) + each.size_bytes <= max_bytes
        assert newer >= per_key or old or not room
    assert to_delete(stay, keep, NOON) == ()  # doing it again changes nothing
