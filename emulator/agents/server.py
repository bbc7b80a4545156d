"""The MCP server: the tools and the resources of an emulator for a client that speaks the Model Context Protocol."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import mcp_types as types
import msgspec
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from emulator import resources
from emulator.agents.checking import CheckReceiver
from emulator.agents.moving import Publish
from emulator.agents.tool import Connection, ToolFailed, answer, mended
from emulator.agents.tools import TOOLS
from emulator.client.errors import EmulatorError, Refused, Unreachable
from emulator.control.pages import full_text
from emulator.version import VERSION
from emulator.wire.json_reader import mismatch_text

logger = logging.getLogger(__name__)

_BY_NAME = {tool.tool: tool for tool in TOOLS}

_INSTRUCTIONS = (
    "An emulator of an HTTP message-scheduling service with a clock that you move. The loop: status; rule for what "
    "third parties answer; publish; advance; verify; why, wherever something is not as expected."
)

Context = ServerRequestContext[Any]


@cache
def tools() -> tuple[types.Tool, ...]:
    """The tools as a client lists them."""
    _, schemas = msgspec.json.schema_components(TOOLS)
    return tuple(
        types.Tool(
            name=tool.tool,
            description=" ".join((tool.__doc__ or "").split()),
            input_schema=_schema(schemas[tool.__name__]),
            annotations=types.ToolAnnotations(
                read_only_hint=tool.reads_only,
                destructive_hint=tool.destroys,
                idempotent_hint=tool.reads_only,
                open_world_hint=tool in (CheckReceiver, Publish),
            ),
        )
        for tool in TOOLS
    )


def _schema(made: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments; what a client knows anyway is left out."""
    kept = ("type", "properties", "required", "additionalProperties")
    return {name: made[name] for name in kept if name in made and made[name] != []}


class AgentServer:
    """Answers the requests of a client with what a connection says."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Calls of a client may overlap, and a tool is one step to it.
        self._turn = asyncio.Lock()

    def server(self) -> Server[Any]:
        """What the package `mcp` serves."""
        return Server(
            "svc-emulator",
            version=VERSION,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def _list_tools(self, context: Context, params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(tools()))

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            async with self._turn:
                text = await self._performed(params.name, params.arguments or {})
        except ToolFailed as error:
            text = answer(str(error).splitlines(), next=[error.next])
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    async def _performed(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Raises ToolFailed."""
        if name not in _BY_NAME:
            raise ToolFailed(f"there is no tool {name!r}", f"one of {', '.join(_BY_NAME)}")
        try:
            tool = msgspec.convert(dict(arguments), _BY_NAME[name])
        except msgspec.ValidationError as error:
            known = ", ".join(_BY_NAME[name].__struct_fields__)
            raise ToolFailed(
                f"{name}: {mismatch_text(error)}", f"call {name} again; its arguments are {known}"
            ) from error
        try:
            return await tool.perform(self._connection)
        except Refused as error:
            raise ToolFailed(str(error), mended(error, name)) from error
        except Unreachable as error:
            raise ToolFailed(
                str(error), "start it with `svc-emulator serve`, or run this server with --start"
            ) from error
        except EmulatorError as error:
            raise ToolFailed(str(error), "status") from error
        except (TypeError, ValueError) as error:
            raise ToolFailed(
                f"{name}: {error}", f"call {name} again with that mended; docs({name!r}) says more"
            ) from error

    # -- resources --------------------------------------------------------------------------

    async def _list_resources(self, context: Context, params: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri="emulator://handbook", name="handbook", mime_type="text/markdown"),
                types.Resource(
                    uri="emulator://contract/messaging",
                    name="contract of the messaging API",
                    mime_type="application/yaml",
                ),
            ]
        )

    async def _list_templates(self, context: Context, params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template="emulator://world/{id}/timeline", name="timeline of a world", mime_type="text/plain"
                ),
                types.ResourceTemplate(
                    uri_template="emulator://delivery/{id}",
                    name="delivery of the default world, by its number",
                    mime_type="application/json",
                ),
            ]
        )

    async def _read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        try:
            text, kind = await self._resource(uri)
        except EmulatorError as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        content = types.TextResourceContents(uri=uri, mime_type=kind, text=text)
        return types.ReadResourceResult(contents=[content])

    async def _resource(self, uri: str) -> tuple[str, str]:
        if uri == "emulator://handbook":
            return full_text(), "text/markdown"
        if uri == "emulator://contract/messaging":
            return resources.path("contracts", "messaging.openapi.yaml").read_text("utf-8"), "application/yaml"
        if timeline := re.fullmatch("emulator://world/([^/]+)/timeline", uri):
            world = await self._connection.world(timeline[1])
            return await world.emulator.timeline(), "text/plain"
        if delivery := re.fullmatch("emulator://delivery/([1-9][0-9]*)", uri):
            world = await self._connection.world("default")
            found = (await world.control("GET", "deliveries", seq=delivery[1]))["deliveries"]
            if found:
                return json.dumps(found[0], indent=2), "application/json"
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {uri}; resources/list and templates/list name all")


async def serve(connection: Connection) -> None:
    """Serve a client on standard input and output until it goes away."""
    server = AgentServer(connection).server()
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
