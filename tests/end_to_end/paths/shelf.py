"""An MCP server that does with paths and URLs what it is told, and counts how often it was."""
import json
import os
import sys
import time

CALLS = 0
TEXT = {"type": "string"}
TOOLS = [
    {"name": "read", "inputSchema": {"type": "object", "properties": {"path": TEXT, "wait": {"type": "boolean"}}}},
    {"name": "read_all", "inputSchema": {"type": "object", "properties": {
        "paths": {"type": "array", "items": TEXT},
        "edits": {"type": "array", "items": {"type": "object", "properties": {"filePath": TEXT, "text": TEXT}}}}}},
    {"name": "copy", "inputSchema": {"type": "object", "properties": {
        "source": {"additionalProperties": True}, "moves": {"type": "array", "items": {"type": "object", "properties": {"to": {}}}}}}},
    {"name": "request", "inputSchema": {"type": "object", "properties": {"path": TEXT}}},
    {"name": "fetch", "inputSchema": {"type": "object", "properties": {
        "url": {"type": "string", "format": "uri"}, "links": {"type": "array", "items": {}}}}},
    {"name": "count", "inputSchema": {"type": "object"}},
]


def wait():
    open("waiting", "w").close()
    end = time.time() + 60
    while not os.path.exists("go") and time.time() < end:
        time.sleep(0.01)


def call(name, arguments):
    global CALLS
    if name == "count":
        return str(CALLS)
    CALLS += 1
    if arguments.get("wait"):
        wait()
    if name == "read":
        try:
            with open(arguments["path"]) as file:
                return file.read()
        except OSError as error:
            return "failed: " + type(error).__name__
    return name + " ran"


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "shelf", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments", {}))}]}
    return None


for line in sys.stdin:
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
