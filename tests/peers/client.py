"""Lists the tools behind a URL and calls one of them with the Python SDK; prints one JSON object.

usage: client.py URL TOKEN MODE TOOL ARGUMENTS        MODE: auto | legacy | 2026-07-28
"""

import asyncio
import json
import sys

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, token: str, mode: str, tool: str, arguments: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    # The gateway's CA is named by SSL_CERT_FILE, as the README says, and by nothing else.
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http_client:
        transport = streamable_http_client(url, http_client=http_client)
        async with Client(transport, mode=mode) as client:
            names = [each.name for each in (await client.list_tools()).tools]
            result = await client.call_tool(tool, json.loads(arguments))
            texts = [block.text for block in result.content if block.type == "text"]
            structured = result.structured_content
            print(json.dumps({"names": names, "texts": texts, "structured": structured, "isError": bool(result.is_error)}))


asyncio.run(main(*sys.argv[1:]))
