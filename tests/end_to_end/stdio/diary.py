"""An MCP server that knows which process it is and what it was told, and ends when it is asked to."""
import json
import os
import sys
import time
import uuid

ME = uuid.uuid4().hex
TOLD = []
HEARD = []
TOOLS = [
    {"name": "tell", "inputSchema": {"type": "object", "properties": {"what": {"type": "string"}}}},
    {"name": "end", "inputSchema": {"type": "object"}},
    {"name": "confess", "inputSchema": {"type": "object"}},
    {"name": "complain", "inputSchema": {"type": "object", "properties": {"pieces": {"type": "array"}}}},
]


def call(params):
    if params["name"] == "end":
        os._exit(3)
    if params["name"] == "complain":
        # In pieces, as processes write.
        for piece in params["arguments"]["pieces"]:
            sys.stderr.write(piece)
            sys.stderr.flush()
            time.sleep(0.1)
    if params["name"] == "confess":
        # Everything that ever reached this process.
        text = json.dumps({"environment": dict(os.environ), "arguments": sys.argv, "heard": HEARD})
        return {"content": [{"type": "text", "text": text}]}
    TOLD.append(params["arguments"].get("what", ""))
    text = json.dumps({"me": ME, "told": TOLD, "where": os.getcwd()})
    return {"content": [{"type": "text", "text": text}]}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "diary", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    return None


if "--broken" in sys.argv:
    sys.exit(1)
for line in sys.stdin:
    HEARD.append(line)
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message["method"], message.get("params", {}))
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    if result is None:
        reply["error"] = {"code": -32601, "message": "no such method"}
    else:
        reply["result"] = result
    print(json.dumps(reply), flush=True)
