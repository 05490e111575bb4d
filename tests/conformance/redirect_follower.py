"""The browser of the conformance suite: requests a URL and follows its redirects to the loopback listener.

The suite's authorization server asks nobody, and redirects at once.
"""

from __future__ import annotations

import sys
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

_SECONDS = 30


def main() -> int:
    """Request the URL in the arguments; a page of refusal is a page, too."""
    try:
        build_opener(ProxyHandler({})).open(sys.argv[1], timeout=_SECONDS).read()
    except HTTPError as refusal:
        refusal.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
