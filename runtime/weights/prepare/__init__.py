"""Does once, offline, what each start would repeat: convert, shard, reorder, write digests; and says what is amiss."""
