from __future__ import annotations

import httpx

from examples.service import app
from streamline.testing import VirtualClock, settle


async def test_the_service_serves_what_its_pipeline_has_counted(virtual_clock: VirtualClock) -> None:
    """Virtual time: nothing here may depend on waiting."""
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app) as state,
        httpx.AsyncClient(transport=_WithState(transport, state), base_url="http://service") as client,
    ):
        for visitor, url in (("ann", "/a"), ("bob", "/a"), ("ann", "/a"), ("ann", "/b")):
            response = await client.post("/clicks", json={"visitor": visitor, "url": url})
            assert response.status_code == 202
        await settle()
        assert (await client.get("/visitors")).json() == {
            "ann": {"visitor": "ann", "clicks": 3, "pages": 2},
            "bob": {"visitor": "bob", "clicks": 1, "pages": 1},
        }
        bad = await client.post("/clicks", content=b'{"visitor": 7}')
        assert bad.status_code == 422 and "visitor" in bad.json()["error"]
        assert (await client.get("/health")).json() == {"job": "RUNNING"}
    # The leak check of the suite sees that the pipeline ended with the service.


class _WithState(httpx.AsyncBaseTransport):
    """Hands what the lifespan yielded to every request, as a server does."""

    def __init__(self, inner: httpx.ASGITransport, state: object) -> None:
        app = inner.app

        async def with_state(scope, receive, send) -> None:
            await app({**scope, "state": dict(state)}, receive, send)  # type: ignore[call-overload]

        inner.app = with_state
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._inner.handle_async_request(request)
