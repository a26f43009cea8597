"""Engines that are forks of one process which has imported vLLM already: imports are paid once per host."""
