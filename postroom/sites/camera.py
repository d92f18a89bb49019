"""Inside the sandbox: serves a directory to a browser and lets it write a picture.

Runs by itself (`python -I -S camera.py DIRECTORY PICTURE PAGE WIDTH,HEIGHT BROWSER`), so it imports
nothing of postroom. Pages refer to `/…`, which only a server can answer.
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
import urllib.parse

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--mute-audio"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--disable-breakpad", "--disable-crash-reporter", "--no-zygote"),
    *("--user-data-dir=/tmp/browser", "--virtual-time-budget=4000", "--timeout=15000"),
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


def main() -> int:
    directory, picture, page, size, browser = sys.argv[1:6]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=directory))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/{urllib.parse.quote(page.lstrip('/'))}"
    # The sandbox around us is the browser's sandbox: it has no rights left to make one of its own.
    done = subprocess.run([browser, *_FLAGS, f"--window-size={size}", f"--screenshot={picture}", address], timeout=35)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
