"""What the tests of the warm process let it run."""

import json
import os
import signal
import sys
import time
from pathlib import Path

told = sys.argv[1:]
match told[0]:
    case "tell":
        print(json.dumps({"pid": os.getpid(), "argv": told, "cwd": str(Path.cwd()), "word": os.environ.get("WORD")}))
        print("to the other", file=sys.stderr)
    case "exit":
        sys.exit(int(told[1]))
    case "die":
        os.kill(os.getpid(), int(told[1]))
    case "wait":

        def hear(number: int, _: object) -> None:
            print(f"heard {number}", flush=True)
            sys.exit(7)

        signal.signal(signal.SIGTERM, hear)
        print(os.getpid(), flush=True)
        time.sleep(60)
