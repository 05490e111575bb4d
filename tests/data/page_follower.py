"""A `$BROWSER` that goes wherever it is sent: notes in a file its command line, then the page it comes to.

python page_follower.py FILE [CA_FILE] URL
"""

import ssl
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPSHandler, ProxyHandler, build_opener


def main() -> None:
    """Follow the redirects of a page; a page of refusal is a page, too."""
    file, *ca_file, url = sys.argv[1:]
    https = HTTPSHandler(context=ssl.create_default_context(cafile=next(iter(ca_file), None)))
    with Path(file).open("a", encoding="utf-8") as noted:
        noted.write(f"{sys.argv!r}\n")
        noted.flush()
        try:
            page = build_opener(https, ProxyHandler({})).open(url, timeout=60)
        except HTTPError as refusal:
            page = refusal
        noted.write(page.read().decode())


if __name__ == "__main__":
    main()
