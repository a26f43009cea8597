"""`python -m activator_ext.portal`: the portal, compiled if this source is."""

import sys

from activator_ext.portal import compiled

if __name__ == "__main__":
    compiled.use()
    from activator_ext.portal.process import main  # before this line nothing may import what is compiled

    sys.exit(main())
