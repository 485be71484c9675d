// An orders API as a user of Express would write it, which counts how often it ran for each key.
"use strict";

const express = require("express");

const executions = new Map();
let orders = 0;

const app = express();
app.use(express.json());

app.post("/orders", (request, response) => {
  const key = request.get("Idempotency-Key") ?? "";
  executions.set(key, (executions.get(key) ?? 0) + 1);
  // The number of the run is in the answer, so that two runs never look alike.
  orders += 1;
  const { amount } = request.body;
  response.status(201).json({ order_id: orders, account_id: request.get("X-Account-Id"), amount, status: "created" });
});

app.get("/count", (request, response) => {
  response.json({ count: executions.get(request.query.key) ?? 0 });
});

const server = app.listen(0, "127.0.0.1", () => {
  console.log(`running on http://127.0.0.1:${server.address().port}`);
});
// The usual idle limit of a Node server: the gateway must not take a connection that is about to close.
server.keepAliveTimeout = 5000;
