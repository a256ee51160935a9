"""Calls every tool that a server shows to a client which can be asked everything, or nothing; prints one JSON object: what each
tool answered, and what the server asked meanwhile.

usage: capable.py URL TOKEN ABLE        TOKEN: '' for none        ABLE: everything | nothing
"""

import asyncio
import json
import os
import ssl
import sys

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

ARGUMENTS = {
    "echo": {"message": "hello"},
    "get-annotated-message": {"messageType": "success", "includeImage": False},
    "get-resource-links": {"count": 2},
    "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
    "get-structured-content": {"location": "New York"},
    "get-sum": {"a": 2, "b": 3},
    "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"},
    "simulate-research-query": {"topic": "tides"},
    "trigger-long-running-operation": {"duration": 0.1, "steps": 1},
    "trigger-sampling-request": {"prompt": "say hello", "maxTokens": 10},
    "trigger-url-elicitation": {"url": "https://example.org/form", "message": "open it", "elicitationId": "e1"},
}


async def main(url: str, token: str, able: str) -> None:
    asked = []

    async def elicit(context, params):
        asked.append(params.mode if params.mode else "form")
        content = {"name": "ann", "check": True} if asked[-1] == "form" else None
        return ElicitResult(action="accept", content=content)

    async def sample(context, params):
        asked.append("sampling")
        return CreateMessageResult(role="assistant", content=TextContent(type="text", text="it is low tide"), model="m")

    async def roots(context):
        asked.append("roots")
        return ListRootsResult(roots=[Root(uri="file:///srv/work", name="work")])

    handlers = {"elicitation_callback": elicit, "sampling_callback": sample, "list_roots_callback": roots}
    trust = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx2.AsyncClient(headers=headers, verify=trust, timeout=30) as http_client:
        transport = streamable_http_client(url, http_client=http_client)
        options = handlers if able == "everything" else {}
        async with Client(transport, mode="legacy", **options) as client:
            seen = {}
            for tool in (await client.list_tools()).tools:
                try:
                    result = await client.call_tool(tool.name, ARGUMENTS.get(tool.name, {}))
                    texts = [block.text for block in result.content if block.type == "text"]
                    seen[tool.name] = ["error" if result.is_error else "result", *(text[:40] for text in texts[:1])]
                except Exception as error:  # what the server itself refuses is part of the answer
                    seen[tool.name] = ["refused", type(error).__name__]
            print(json.dumps({"tools": seen, "asked": sorted(set(asked))}))


asyncio.run(main(*sys.argv[1:]))
