"""A client of HTTP/2 as Python programs are: httpx with prior knowledge. Prints what it was answered, as JSON."""

import asyncio
import json
import sys

import httpx

BASE = sys.argv[1]


async def order(client, key, **more):
    headers = {"X-Account-Id": "acc-1", "Idempotency-Key": key, **more}
    answer = await client.post(f"{BASE}/orders", headers=headers, json={"amount": 1200})
    return {
        "version": answer.http_version,
        "status": answer.status_code,
        "replayed": answer.headers.get("Idempotent-Replayed"),
        "body": answer.text,
    }


async def main():
    async with httpx.AsyncClient(http1=False, http2=True, timeout=50) as client:
        many = await asyncio.gather(*(order(client, "many", **{"X-Test-Delay-Ms": "300"}) for _ in range(20)))
        # Given up while it runs, which resets its stream; asked again until it is done.
        try:
            await asyncio.wait_for(order(client, "left", **{"X-Test-Delay-Ms": "4000"}), 2)
            raise SystemExit("it was answered before it could be left")
        except asyncio.TimeoutError:
            pass
        left = await order(client, "left", **{"X-Test-Delay-Ms": "4000"})
        print(json.dumps({"many": many, "left": left}))


asyncio.run(main())
