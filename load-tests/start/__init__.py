"""How long a start takes from spawn to first token: stock vLLM cold and warm, ours with a bundle, ours by fork."""
