"""How long tests wait for what must come: a deadline says that it never will, so it has room for a busy machine."""

import os

PATIENCE = float(os.environ.get("POSTROOM_TEST_PATIENCE", "3"))  # times what a machine of one's own would need
