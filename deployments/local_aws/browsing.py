"""Sites in a browser: links of a page that begin with `/` lead to the page's own bucket, as they do on AWS.

There each bucket has a name of its own; here they share an address, and `/_astro/x.css` would be looked for
in a bucket called `_astro`. The page that the browser comes from says which bucket is meant.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlsplit

_DOCUMENT = "index.html"


def meant(scope: Any) -> str | None:
    """Where a browser's request really wants to go; None when it is right as it is (all requests of SDKs are)."""
    if scope["method"] not in ("GET", "HEAD"):
        return None
    headers = dict(scope["headers"])
    if b"authorization" in headers or b"X-Amz-" in scope["query_string"] or b"sec-fetch-mode" not in headers:
        return None
    path, from_page = scope["path"], urlsplit(headers.get(b"referer", b"").decode("latin-1"))
    bucket = from_page.path.lstrip("/").partition("/")[0]
    here = path.lstrip("/").partition("/")[0]
    if "." in bucket and here != bucket and from_page.netloc.encode() == headers.get(b"host", b"") and _is_site(bucket):
        path = f"/{bucket}{path}"
    if path.endswith("/") and path.count("/") > 1:
        path += _DOCUMENT
    return None if path == scope["path"] else quote(path)


def _is_site(bucket: str) -> bool:
    return not bucket.startswith("media-source.")


async def lead(target: str, send: Any) -> None:
    """Send the browser there."""
    headers = [(b"location", target.encode()), (b"content-length", b"0"), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 302, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
