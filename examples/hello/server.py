"""The smallest MCP server there is: one tool, over standard input and output, with nothing but Python.

    portreeve server add hello --read examples/hello -- /usr/bin/python3 "$PWD/examples/hello/server.py"
"""
import json
import sys

TOOLS = [
    {
        "name": "greet",
        "description": "Greets somebody by name.",
        "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "annotations": {"readOnlyHint": True},
    }
]


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hello", "version": "1.0.0"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "greet":
        return {"content": [{"type": "text", "text": f"Good day, {params['arguments']['name']}"}]}
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
