"""An orders API as a user of FastAPI would write it, which counts how often it ran for each key."""

from collections import Counter

from fastapi import FastAPI, Header, Request

app = FastAPI()
executions = Counter()


@app.post("/orders", status_code=201)
async def create_order(request: Request, idempotency_key: str = Header(""), x_account_id: str = Header("")):
    executions[idempotency_key] += 1
    order = await request.json()
    # The number of the run is in the answer, so that two runs never look alike.
    return {"order_id": executions.total(), "account_id": x_account_id, "amount": order.get("amount"), "status": "created"}


@app.get("/count")
async def count(key: str):
    return {"count": executions[key]}
