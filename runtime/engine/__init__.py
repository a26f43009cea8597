"""One model server process tree: from a spec to argv, a process, and the stages of its start."""
