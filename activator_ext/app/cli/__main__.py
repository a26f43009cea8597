"""`python -m activator_ext.app.cli`: the same as the `pilotlight` script."""

from activator_ext.__main__ import main

if __name__ == "__main__":
    main()
