"""Pages on this machine, for servers that fetch some."""

import contextlib
import functools
import http.server
import threading
from pathlib import Path

PAGES = Path(__file__).resolve().parent / "web"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(server):
    """The address of the pages, where the server's entry asks for them."""
    if not server.get("web"):
        yield ""
        return
    handler = functools.partial(Quiet, directory=PAGES)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
        threading.Thread(target=pages.serve_forever, daemon=True).start()
        try:
            yield f"http://localhost:{pages.server_port}"
        finally:
            pages.shutdown()
