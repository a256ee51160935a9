"""A plain MCP client of the standard library alone: it says that it can do everything, lists what a server has, and calls.

It keeps definitions as the JSON that came, so that nothing is lost between what a server sent and what is compared.
"""

import json
import os
import queue
import subprocess
import threading
import time
import urllib.error
import urllib.request

VERSION = "2025-11-25"
CAPABILITIES = {
    "roots": {"listChanged": True},
    "sampling": {},
    "elicitation": {"form": {}, "url": {}},
}
# Some servers add tools once they know what the client can.
SETTLE = 1.5
PATIENCE = 60


class Failed(Exception):
    """The server cannot be used; the text says why."""


class Client:
    """What both transports have in common. `send` takes one message, and `incoming` gives those that came."""

    def __init__(self, root):
        self.root = root
        self.incoming = queue.Queue()
        self.last_id = 0

    def request(self, method, params=None):
        """The result; an error is a failure."""
        came = self.answer(method, params)
        if "error" in came:
            raise Failed(f"{method}: {came['error'].get('message')}")
        return came["result"]

    def answer(self, method, params=None):
        """The whole message that answers, be it a result or an error."""
        self.last_id += 1
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                came = self.incoming.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no answer to {method} within {PATIENCE} s") from None
            if isinstance(came, Failed):
                raise came
            if "method" in came:
                self.attend(came)
            elif came.get("id") == self.last_id:
                return came

    def attend(self, message):
        """A question of the server: the roots are told, everything else is declined."""
        if "id" not in message:
            return
        answer = {"jsonrpc": "2.0", "id": message["id"]}
        match message["method"]:
            case "ping":
                answer["result"] = {}
            case "roots/list":
                answer["result"] = {"roots": [{"uri": f"file://{self.root}", "name": "workspace"}]}
            case "elicitation/create":
                answer["result"] = {"action": "decline"}
            case _:
                answer["error"] = {"code": -32603, "message": "declined"}
        self.send(answer)

    def settle(self):
        until = time.monotonic() + SETTLE
        while (left := until - time.monotonic()) > 0:
            try:
                came = self.incoming.get(timeout=left)
            except queue.Empty:
                return
            if isinstance(came, Failed):
                raise came
            if "method" in came:
                self.attend(came)

    def walk(self, method, member):
        entries, cursor = [], None
        while True:
            page = self.request(method, {"cursor": cursor} if cursor else {})
            entries += page[member]
            cursor = page.get("nextCursor")
            if not cursor:
                return entries

    def open(self):
        """Introduces itself and gives the capabilities of the server."""
        about = {"name": "servers-check", "version": "1"}
        opening = {"protocolVersion": VERSION, "capabilities": CAPABILITIES, "clientInfo": about}
        offered = self.request("initialize", opening)["capabilities"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.settle()
        return offered

    def list_all(self):
        """Everything the server lists: kind → list of definitions."""
        offered = self.open()
        listed = {"tools": [], "prompts": [], "resources": [], "templates": []}
        if "tools" in offered:
            listed["tools"] = self.walk("tools/list", "tools")
        if "prompts" in offered:
            listed["prompts"] = self.walk("prompts/list", "prompts")
        if "resources" in offered:
            listed["resources"] = self.walk("resources/list", "resources")
            try:
                listed["templates"] = self.walk("resources/templates/list", "resourceTemplates")
            except Failed:
                pass  # Many servers with resources know no templates, and say so.
        return listed


class StdioClient(Client):
    """Starts a program and speaks over its standard input and output."""

    def __init__(self, command, env, workspace):
        super().__init__(workspace)
        self.stderr = workspace.parent / "stderr.log"
        pipe = subprocess.PIPE
        with open(self.stderr, "wb") as stderr:
            self.process = subprocess.Popen(
                command, env=env, cwd=workspace, stdin=pipe, stdout=pipe, stderr=stderr, start_new_session=True
            )
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # Servers print all sorts of things.
            if isinstance(message, dict):
                self.incoming.put(message)
        self.incoming.put(Failed(f"the program ended: {self.last_words()}"))

    def last_words(self):
        return last_line(self.stderr.read_text(errors="replace"))

    def send(self, message):
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass  # What is left of its output says why.

    def close(self):
        try:
            os.killpg(self.process.pid, 9)
        except ProcessLookupError:
            pass
        self.process.wait()


class HttpClient(Client):
    """Speaks Streamable HTTP, with the stream on which a server may ask."""

    def __init__(self, url, token, workspace):
        super().__init__(workspace)
        self.url = url
        self.headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

    def send(self, message):
        threading.Thread(target=self.post, args=(message,), daemon=True).start()
        if message.get("method") == "notifications/initialized":
            threading.Thread(target=self.listen, daemon=True).start()

    def post(self, message):
        body = json.dumps(message).encode()
        request = urllib.request.Request(self.url, body, self.headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                if session := response.headers.get("Mcp-Session-Id"):
                    self.headers["Mcp-Session-Id"] = session
                if "event-stream" in response.headers.get("Content-Type", ""):
                    self.read_events(response)
                elif body := response.read():
                    self.incoming.put(json.loads(body))
        except urllib.error.HTTPError as error:
            if "method" in message and "id" in message:
                self.incoming.put(Failed(f"{message['method']}: {error.code} {error.read().decode()[:300]}"))
        except (OSError, ValueError) as error:
            self.incoming.put(Failed(f"the gateway: {error}"))

    def listen(self):
        request = urllib.request.Request(self.url, None, self.headers, method="GET")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                self.read_events(response)
        except (OSError, ValueError):
            pass  # Nothing was asked, and the client is done.

    def read_events(self, response):
        for line in response:
            if line.startswith(b"data:") and (data := line[5:].strip()):
                self.incoming.put(json.loads(data))

    def close(self):
        pass


def last_line(text):
    """The line of a program's complaints that says most: the last with anything on it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() and not line.startswith("at ")]
    return (telling or lines or ["it said nothing"])[-1][:300]
