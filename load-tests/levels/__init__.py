"""What an optimization level or eager costs a start, and what it gives an answer."""
