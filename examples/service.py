"""A web service with a pipeline in its lifespan: clicks come in by HTTP, the latest aggregates go out.

    uvicorn examples.service:app
    curl -X POST localhost:8000/clicks -d '{"visitor": "ann", "url": "/home"}'
    curl localhost:8000/visitors

The pipeline is a task of the service's own event loop. It starts with the service and is cancelled with it; a full
pipeline makes POST wait, so a slow consumer slows its producers down and nothing piles up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamline import Row, RowKind, StreamExecutionEnvironment
from streamline.table import StreamTableEnvironment


class Click(msgspec.Struct):
    """What is posted."""

    visitor: str
    url: str


decode = msgspec.json.Decoder(Click).decode


class Board:
    """The latest row of each visitor: a changelog, folded."""

    def __init__(self) -> None:
        self.visitors: dict[str, dict[str, Any]] = {}

    def apply(self, row: Row) -> None:
        """Take in one change."""
        if row.kind is RowKind.DELETE:
            del self.visitors[row["visitor"]]
        elif row.kind is not RowKind.UPDATE_BEFORE:
            self.visitors[row["visitor"]] = row.as_dict()


async def received(clicks: asyncio.Queue[Click]) -> AsyncIterator[Click]:
    """The clicks as the pipeline reads them."""
    while True:
        yield await clicks.get()


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
    """Run the pipeline while the service runs."""
    clicks: asyncio.Queue[Click] = asyncio.Queue(maxsize=1000)
    board = Board()

    env = StreamExecutionEnvironment.get_execution_environment()
    t_env = StreamTableEnvironment.create(env)
    stream = env.from_source(lambda: received(clicks), name="clicks", type_info=Click)
    t_env.create_temporary_view("clicks", stream)
    totals = t_env.sql_query("""
        SELECT visitor, COUNT(*) AS clicks, COUNT(DISTINCT url) AS pages
        FROM clicks GROUP BY visitor""")
    t_env.to_changelog_stream(totals).add_sink(board.apply)

    async with await env.execute_async("totals per visitor") as job:  # leaving cancels it
        yield {"clicks": clicks, "board": board, "job": job}


async def post_click(request: Request) -> Response:
    """Take a click; waits where the pipeline is behind."""
    try:
        click = decode(await request.body())
    except msgspec.DecodeError as error:
        return JSONResponse({"error": str(error)}, status_code=422)
    await request.state.clicks.put(click)
    return Response(status_code=202)


async def get_visitors(request: Request) -> JSONResponse:
    """The latest aggregates."""
    return JSONResponse(request.state.board.visitors)


async def get_health(request: Request) -> JSONResponse:
    """Whether the pipeline runs."""
    status = await request.state.job.get_job_status()
    return JSONResponse({"job": status.name}, status_code=200 if status.name == "RUNNING" else 503)


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/clicks", post_click, methods=["POST"]),
        Route("/visitors", get_visitors),
        Route("/health", get_health),
    ],
)
