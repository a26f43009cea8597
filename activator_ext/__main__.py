"""The program `pilotlight`, also `python -m activator_ext`: what must hold before anything slow is imported.

Ctrl-C ends the process as the kernel does it, from the first line and without a traceback of half an import; who has
something to do before the end says so (`streams.interruptible`, and `up`, which stops in order). Imported by programs
alone, for it does that at once.
"""

# The C half of `signal`, which is there already: the other half takes a millisecond, and Ctrl-C hits that.
import _signal  # type: ignore[import-not-found]  # typeshed leaves it out

if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)


def main() -> None:
    """Run the command line."""
    from activator_ext.app import streams  # noqa: PLC0415 — Ctrl-C must be as it is to be before any import

    streams.open_closed()
    from activator_ext.app.cli import main as run  # noqa: PLC0415 — as above, and no file may open as 0, 1 or 2

    run()


if __name__ == "__main__":
    main()
