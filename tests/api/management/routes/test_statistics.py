"""Statistics by HTTP."""

from __future__ import annotations

from tests.api.management.routes.calls import POINT, get, manage
from tests.harness.emulators import in_process
from tests.harness.loops import on_loop


@on_loop
async def test_statistics_answer_for_every_period_and_name_a_wrong_one() -> None:
    async with in_process() as emulator:
        credentials = emulator.world.credentials()
        for path, series in (
            (f"/v2/queue/stats/{credentials.account_id}", "daily_used"),
            (f"/v2/vector/index/{credentials.vector_index_ids[0]}/stats", "vector_count"),
            (f"/v2/search/{credentials.search_index_ids[0]}/stats", "vector_count"),
        ):
            default = await get(emulator, path)
            assert default == await get(emulator, f"{path}?period=1h")
            for period in ("1h", "3h", "12h", "1d", "3d", "7d", "30d"):
                points = (await get(emulator, f"{path}?period={period}"))[series]
                assert len(points) == (240 if period == "30d" else 60)
                assert all(POINT.fullmatch(point["x"]) for point in points)
            for wrong in ("2h", "1H", "60", "1h "):
                answer = await manage(emulator, "GET", f"{path}?period={wrong.replace(' ', '%20')}")
                assert (answer.status, answer.json["field"]) == (400, "period"), wrong


@on_loop
async def test_summaries_of_all_indexes() -> None:
    async with in_process() as emulator:
        fields = {"record_count", "request", "bandwidth", "storage", "billing", "rerank_count"}
        for path in ("/v2/search/stats", "/v2/vector/index/stats"):
            found = await get(emulator, path)
            assert found.keys() == fields
            assert all(isinstance(value, int | float) and value >= 0 for value in found.values()), found
            assert found["record_count"] > 0
