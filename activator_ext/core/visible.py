"""Text of others as it may stand in a line of ours: a name, a note, an engine's last words."""


def visible(text: str) -> str:
    r"""`text` with every character that is not printable written out (`\n`, `\x1b`, `\u202e`).

    What it gives is one line, moves no cursor and encodes as UTF-8: it cannot draw on a terminal, nor pass for a line
    of its own in a log.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def visible_lines(text: str) -> str:
    """The same for text of several lines that are ours to break (a trace): those after the first are indented."""
    return "\n    ".join(visible(line) for line in text.split("\n"))
