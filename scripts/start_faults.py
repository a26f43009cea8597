"""The page of what goes wrong with compiled code, bundles, stores and weights in a start, and what comes of it.

tests/unit/scripts/test_start_faults.py holds that each row names a test that is there, and that each test of a start's
faults is named by a row.
"""

from scripts.faults import Row, rendered

CACHE = "tests/unit/runtime/cache/"
REAL = "tests/engine/test_cache_faults.py::"
BUNDLES = CACHE + "test_shelf_bundles.py::"
STORES = CACHE + "test_shelf_stores.py::"
ENDS = CACHE + "test_shelf_ends.py::"
FOLLOWING = CACHE + "test_shelf_following.py::"
RECYCLE = "tests/unit/runtime/host/test_recycle.py::"
FOLLOWED = "tests/engine/test_following.py::"

WEIGHTS = "tests/unit/runtime/engine/test_weight_sources.py::"
REAL_WEIGHTS = "tests/engine/test_weight_sources.py::"

FILES = (BUNDLES, STORES, ENDS, REAL, WEIGHTS, REAL_WEIGHTS)
"""Each test in these has its row."""

_WITHOUT = (
    "refused and said; the engine compiles (`absent`); the host publishes a sound one over it, which all use next"
)
_KILLED = (ENDS + "test_a_host_killed_at_some_steps", ENDS + "test_a_host_killed_at_each_step")
_ANY_ORDER = (
    ENDS + "test_any_order_of_starts_failures_and_publications",
    ENDS + "test_any_order_of_starts_failures_and_publications_long",
)

SECTIONS: tuple[tuple[str, tuple[Row, ...]], ...] = (
    (
        "The bundle",
        (
            Row(
                "none is wrong: restored into an empty directory",
                "`used`, with the cold start's golden tokens; the host keeps the bundle, once it is proven",
                (
                    BUNDLES + "test_a_bundle_of_another_host_is_used_and_kept",
                    REAL + "test_used_recompiled_and_poisoned",
                ),
            ),
            Row(
                "truncated, bit-flipped, empty, or something else, before it was published",
                _WITHOUT,
                (BUNDLES + "test_a_bundle_damaged_before_it_was_published",),
            ),
            Row("bits rot in the store", _WITHOUT, (BUNDLES + "test_bits_that_rot_in_the_store",)),
            Row(
                "cut short in the store",
                "counts as not there; the engine compiles, and the host publishes",
                (BUNDLES + "test_a_bundle_cut_short_in_the_store",),
            ),
            Row(
                "of another fingerprint, under this one's key",
                _WITHOUT + "; for its own fingerprint it is taken, also here",
                (BUNDLES + "test_a_bundle_of_another_fingerprint",),
            ),
            Row(
                "signed by a key that this host does not trust, or not signed",
                "refused and said; the engine compiles; nothing is published over it, for others may trust it; it is "
                "taken as soon as the trust policy says so",
                (
                    BUNDLES + "test_a_foreign_key_is_refused_and_left_to_those_who_trust_it",
                    BUNDLES + "test_an_unsigned_bundle",
                ),
            ),
            Row(
                "signed by a key that is trusted no longer, and kept by the host",
                "refused from then on; what the host compiles itself takes its place in the host's own store",
                (BUNDLES + "test_a_key_that_is_trusted_no_longer",),
            ),
            Row("signature of something else", _WITHOUT, (BUNDLES + "test_a_signature_of_something_else",)),
            Row(
                "`../`, absolute paths, links, validly signed",
                _WITHOUT + "; no file appears outside the start's directory, and no link",
                (BUNDLES + "test_a_trusted_key_that_signs_a_hostile_bundle",),
            ),
            Row(
                "refused from the nearest store",
                "the next store is asked",
                (BUNDLES + "test_a_refused_bundle_sends_on_to_the_next_store",),
            ),
        ),
    ),
    (
        "What is in it",
        (
            Row(
                "a poisoned artifact, validly signed: the engine dies of it, or answers wrongly",
                "that start fails and never serves; the digest is quarantined on this host for 14 days; the next start "
                "does without it (`quarantined`, or a bundle of the next store) and gives the golden answer; what it "
                "compiles is published over the poison",
                (
                    BUNDLES + "test_a_poisoned_artifact_fails_one_start",
                    REAL + "test_used_recompiled_and_poisoned",
                ),
            ),
            Row(
                "valid, but for other arguments: the engine looks elsewhere",
                "`recompiled`, with the place where it did not look and the seconds; twice in a row is a finding in "
                "the record; the host keeps what was compiled",
                (
                    BUNDLES + "test_a_valid_bundle_at_the_wrong_path_comes_out_recompiled",
                    BUNDLES + "test_recompiled_twice_in_a_row_is_a_finding",
                    REAL + "test_used_recompiled_and_poisoned",
                    REAL + "test_a_bundle_of_other_arguments_and_torn_artifacts",
                ),
            ),
            Row(
                "an artifact that does not load (torn, or not what was saved)",
                "`recompiled`, with vLLM's reason",
                (
                    BUNDLES + "test_an_artifact_that_does_not_load_is_compiled_again",
                    REAL + "test_a_bundle_of_other_arguments_and_torn_artifacts",
                ),
            ),
            Row(
                "dead by SIGSEGV soon after it serves, with what it compiled itself",
                "its directory is not used again, what was published of it is quarantined here",
                (STORES + "test_an_engine_that_dies_of_what_it_compiled_itself",),
            ),
            Row(
                "a failure that may have any cause",
                "counts against a bundle at the second time in a row with that bundle, failures without it not",
                (
                    STORES + "test_a_failure_without_a_bundle_is_not_held_against_one",
                    STORES + "test_a_success_between_two_failures_clears_a_bundle",
                ),
            ),
        ),
    ),
    (
        "The model",
        (
            Row(
                "other weights of the same shape",
                "share the code, and answer for themselves: another golden key",
                (
                    BUNDLES + "test_other_weights_share_the_code_and_answer_for_themselves",
                    REAL + "test_weights_share_code_and_another_architecture_does_not",
                ),
            ),
            Row(
                "another model at the right path, or a changed flag",
                "another fingerprint: nothing is restored; `explain` names what differs",
                (
                    BUNDLES + "test_another_model_at_the_right_path_is_another_key",
                    REAL + "test_weights_share_code_and_another_architecture_does_not",
                ),
            ),
            Row(
                "a shard is missing",
                "the start fails before an engine begins and names the file; the compiled code is blamed for nothing "
                "and is there for the next start",
                (BUNDLES + "test_a_missing_shard_fails_the_start_and_nothing_else",),
            ),
        ),
    ),
    (
        "The weights",
        (
            Row(
                "none: a loader was measured, or none was, or the service names one",
                "the fastest measured on this node is taken; nothing measured: vLLM's own, no argument added; a named "
                "one is kept and stands alone",
                (
                    WEIGHTS + "test_nothing_measured_stays_as_vllm_does_it",
                    WEIGHTS + "test_the_fastest_measured_source_is_taken",
                    WEIGHTS + "test_the_services_own_loader_is_kept",
                ),
            ),
            Row(
                "a loader fails while it configures or loads",
                "the next source follows in a fresh process, within the same start; the record names both (`weights`), "
                "the time of the first is the stage `failed_loader`; event `loader`, counted; the golden answer is the "
                "same",
                (
                    WEIGHTS + "test_a_loader_that_fails_is_followed_by_the_next_source",
                    REAL_WEIGHTS + "test_a_loader_that_fails_is_followed_by_the_next_in_a_fresh_process",
                ),
            ),
            Row(
                "a loader stalls",
                "ended once it shows no sign of life, and followed by the next source",
                (WEIGHTS + "test_a_source_that_stalls_is_followed_by_the_next",),
            ),
            Row(
                "every source fails",
                "the start fails with the last one's failure; the record has each",
                (WEIGHTS + "test_every_source_fails",),
            ),
            Row(
                "a failure after the weights, or wrong arguments of the service",
                "no other loader is tried",
                (
                    WEIGHTS + "test_what_is_not_the_loaders_fault_is_not_tried_again",
                    WEIGHTS + "test_wrong_arguments_of_the_service_are_not_tried_again",
                ),
            ),
            Row(
                "cancelled while the second source loads",
                "no process of either is left",
                (WEIGHTS + "test_a_cancelled_start_leaves_no_engine_of_any_try",),
            ),
            Row(
                "ModelExpress falls back to another source by itself",
                "seen in the engine's log: the record says by which way the weights came; event, counted by rank",
                (WEIGHTS + "test_modelexpress_that_falls_back_is_seen_and_counted",),
            ),
            Row(
                "no room for the weights in the host's memory, or for several ranks in `/dev/shm`",
                "the start fails before an engine begins, with both numbers and what to raise (`no-memory`)",
                (
                    WEIGHTS + "test_weights_without_room_stop_the_start_before_an_engine",
                    WEIGHTS + "test_ranks_without_shared_memory_stop_the_start",
                ),
            ),
            Row(
                "weights behind FUSE, on the root disk, in memory, on a far NUMA node",
                "a note in the start's record (`weights.notes`)",
                (WEIGHTS + "test_where_the_weights_lie_is_noted",),
            ),
            Row(
                "weights are pickled",
                "refused before an engine begins, unless `pilotlight.dev/allow-pickle` names the file",
                (WEIGHTS + "test_pickled_weights_are_refused_unless_allowed_by_name",),
            ),
            Row(
                "a shard is missing, or is another model's (digests given)",
                "refused before an engine begins, and named",
                (REAL_WEIGHTS + "test_a_shard_that_is_missing_or_of_another_model",),
            ),
            Row(
                "none: the model is in a bucket",
                "every shard looked at with the engine's own credentials before it begins; the same golden answer as "
                "from a directory",
                (
                    WEIGHTS + "test_a_whole_model_in_a_bucket",
                    REAL_WEIGHTS + "test_a_bucket_serves_what_the_directory_serves",
                ),
            ),
            Row(
                "a bucket without a shard, or that is not there",
                "the start fails before an engine begins and names the object",
                (WEIGHTS + "test_a_bucket_without_a_shard_or_that_is_not_there",),
            ),
            Row(
                "a bucket that stalls",
                "from the first byte: the start fails after 10 s, before an engine begins; in the middle of the "
                "weights: the engine is ended once it shows no sign of life, the start fails and says by which source",
                (
                    WEIGHTS + "test_a_bucket_that_stalls_fails_the_start_within_its_bound",
                    REAL_WEIGHTS + "test_a_bucket_that_stalls_fails_the_start_within_its_bound",
                ),
            ),
        ),
    ),
    (
        "The store",
        (
            Row(
                "S3 stalls, before the first byte or in the middle",
                "the start waits as long as its patience (10 s without progress, 120 s in all), says so, and compiles",
                (STORES + "test_s3_that_stalls",),
            ),
            Row(
                "S3 breaks off in the middle",
                "said; the engine compiles",
                (STORES + "test_s3_that_breaks_in_the_middle",),
            ),
            Row(
                "gone between the look and the fetch, or never there",
                "said; the engine compiles",
                (
                    STORES + "test_a_store_that_goes_between_the_look_and_the_fetch",
                    STORES + "test_stores_that_were_never_there",
                ),
            ),
            Row(
                "slow, gone or full when the bundle is published",
                "the engine serves long since; said; the next start of that host publishes",
                (
                    STORES + "test_s3_that_stalls_when_the_bundle_is_published",
                    STORES + "test_a_store_that_is_full_when_a_bundle_is_published",
                ),
            ),
            Row(
                "a replica stops, or a start is cancelled, while S3 stalls",
                "it ends at once; nothing is left of the transfer",
                (
                    STORES + "test_a_replica_that_stops_while_s3_stalls_ends",
                    STORES + "test_a_start_cancelled_while_s3_stalls_ends",
                ),
            ),
            Row(
                "our own code fails: a store, or a fingerprint that cannot be told",
                "said; the engine compiles",
                (
                    STORES + "test_a_store_with_a_bug_stops_no_start",
                    STORES + "test_a_fingerprint_that_cannot_be_told_stops_no_start",
                ),
            ),
            Row(
                "the host's own store, or a replica's directory, grows",
                "two bundles of a fingerprint are kept, 20 GiB in all; a replica keeps its code for three fingerprints",
                (
                    STORES + "test_the_own_store_keeps_two_of_a_fingerprint",
                    STORES + "test_a_replica_keeps_three_roots",
                ),
            ),
        ),
    ),
    (
        "Publishers",
        (
            Row(
                "several hosts, or replicas of one, that have all compiled at once",
                "one bundle in the common store, by its lock; each host has its own; all are ready at once",
                (
                    STORES + "test_two_hosts_that_publish_at_once_make_one_bundle",
                    STORES + "test_two_replicas_that_start_at_once",
                ),
            ),
            Row(
                "killed at each step of a start, from the first look to the last publication",
                "every bundle in every store is whole; the next start of the host is as ever, and publishes",
                (*_KILLED, STORES + "test_a_host_that_is_killed_leaves_nothing_that_counts"),
            ),
            Row(
                "several hosts, or replicas of one, that begin at once and find nothing",
                "one compiles, the others wait for its bundle as long as that can save anything, with its name in "
                "record and event; where a request waits, or comes meanwhile, and compiling is done sooner, they "
                "compile",
                (
                    FOLLOWING + "test_of_two_hosts_that_start_at_once_one_compiles",
                    FOLLOWING + "test_of_two_replicas_that_start_at_once_one_compiles",
                    FOLLOWING + "test_whom_a_request_waits_for_does_not_wait",
                    FOLLOWING + "test_a_request_that_comes_ends_the_wait",
                    FOLLOWED + "test_of_two_hosts_that_start_at_once_one_compiles",
                ),
            ),
            Row(
                "killed while others wait for its bundle: compiling, before, while and after it publishes",
                "one of them takes the turn over within 35 s of the last heartbeat, or takes the bundle if it is there",
                (
                    FOLLOWING + "test_a_host_killed_while_another_waits_for_it",
                    FOLLOWED + "test_a_host_killed_while_another_waits_for_it",
                ),
            ),
            Row(
                "fails or is cancelled while others wait for its bundle",
                "it gives the turn up at once, and one of them takes it",
                (FOLLOWING + "test_a_start_that_comes_to_nothing_gives_its_turn_up_at_once",),
            ),
            Row(
                "publishes what a waiting host does not take",
                "that host compiles, and keeps what it made in its own store",
                (FOLLOWING + "test_a_bundle_that_comes_and_is_refused",),
            ),
            Row(
                "the store, or its lock, fails when the turn is asked for",
                "the start compiles at once, without a turn, and says so; a store that was silent before is not asked",
                (
                    FOLLOWING + "test_a_store_that_fails_delays_nothing",
                    FOLLOWING + "test_a_store_that_did_not_answer_is_not_asked_for_its_lock",
                    FOLLOWING + "test_a_lock_that_cannot_be_given_back_keeps_nothing_from_ending",
                ),
            ),
            Row(
                "dead while it holds the lock, and a request waits",
                "the start does not wait for it; once the lock has expired the next one publishes",
                (STORES + "test_a_publisher_that_died_is_waited_for_by_nobody",),
            ),
            Row(
                "compiled with less memory for its KV cache than a start with the bundle has",
                "published, ended before it serves, and begun anew with what it compiled (`recycled`); never twice in "
                "a row, never while a request waits",
                (
                    RECYCLE + "test_it_is_begun_anew_with_what_it_compiled",
                    RECYCLE + "test_never_twice_in_a_row",
                    RECYCLE + "test_never_while_a_request_waits",
                    FOLLOWED + "test_an_engine_that_compiled_is_begun_anew_once",
                ),
            ),
            Row(
                "nothing was compiled (eager)",
                "nothing is published, nothing said",
                (STORES + "test_nothing_compiled_is_nothing_to_publish",),
            ),
        ),
    ),
    (
        "The disk, and starts that end early",
        (
            Row(
                "full disk",
                "no room for the bundle: the start goes on without, and what was fetched is removed first; no room for "
                "the engine itself: the start fails and says so; with room again all is as before",
                (ENDS + "test_a_disk_that_is_full",),
            ),
            Row(
                "cancelled at a stage",
                "nothing goes on in its directory; the next start finds a sound one, from the store if need be",
                (STORES + "test_a_cancelled_start_leaves_the_next_one_what_it_needs",),
            ),
            Row(
                "ended while it compiled",
                "its directory is thrown away, also where an earlier start was proven with it",
                (STORES + "test_what_a_cancelled_start_compiled_is_not_used",),
            ),
            Row(
                "starts, proofs, crashes, cancels, kills and publications of two hosts in any order",
                "no quarantined digest is restored, nothing is used that no start was proven with; every bundle "
                "is whole",
                _ANY_ORDER,
            ),
        ),
    ),
)


def page() -> str:
    """The body of docs/reference/start-faults.md."""
    intro = (
        "What comes of each fault of a bundle, a store, a model or a disk in a start. A start goes on without, or "
        "fails and names why; nothing wrong is served; the next start finds nothing damaged. Most are shown by whole "
        "starts of an engine that stands in for vLLM, those under `engine/` by vLLM itself; the long ones run by "
        "`make prove`."
    )
    return rendered(intro, SECTIONS)
