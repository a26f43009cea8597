"""The program `pilotlight`, also `python -m activator_ext`: what must hold before anything slow is imported."""

import signal


def main() -> None:
    """Run the command line.

    Ctrl-C ends the process as the kernel does it, from the first moment and without a traceback of half an import;
    who has something to do before the end says so (`streams.interruptible`, and `up`, which stops in order).
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from activator_ext.app import streams  # noqa: PLC0415 — Ctrl-C must be as it is to be before any import

    streams.open_closed()
    from activator_ext.app.cli import main as run  # noqa: PLC0415 — as above, and no file may open as 0, 1 or 2

    run()


if __name__ == "__main__":
    main()
