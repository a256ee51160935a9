"""Lists the tools behind a command and calls one of them with the Python SDK over stdio; prints one JSON object.

usage: spawning_client.py MODE TOOL ARGUMENTS COMMAND…        MODE: auto | legacy; the command inherits the environment
"""

import asyncio
import json
import os
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client


async def main(mode: str, tool: str, arguments: str, command: str, *rest: str) -> None:
    spawned = StdioServerParameters(command=command, args=list(rest), env=dict(os.environ))
    async with Client(stdio_client(spawned), mode=mode) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool(tool, json.loads(arguments))
        texts = [block.text for block in result.content if block.type == "text"]
        structured = result.structured_content
        print(json.dumps({"names": names, "texts": texts, "structured": structured, "isError": bool(result.is_error)}))


asyncio.run(main(*sys.argv[1:]))
