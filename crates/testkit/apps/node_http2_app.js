// The orders API of node_app.js on Node's own HTTP/2 server, without TLS: it speaks nothing but HTTP/2.
"use strict";

const http2 = require("node:http2");

const executions = new Map();
let orders = 0;

function answer(stream, status, value) {
  stream.respond({ ":status": status, "content-type": "application/json" });
  stream.end(JSON.stringify(value));
}

function createOrder(stream, headers) {
  const key = headers["idempotency-key"] ?? "";
  executions.set(key, (executions.get(key) ?? 0) + 1);
  // The number of the run is in the answer, so that two runs never look alike.
  orders += 1;
  const number = orders;
  const pieces = [];
  stream.on("data", (piece) => pieces.push(piece));
  stream.on("end", () => {
    const { amount } = JSON.parse(Buffer.concat(pieces).toString());
    answer(stream, 201, { order_id: number, account_id: headers["x-account-id"], amount, status: "created" });
  });
}

const server = http2.createServer();

server.on("stream", (stream, headers) => {
  const url = new URL(headers[":path"], "http://localhost");
  if (headers[":method"] === "POST" && url.pathname === "/orders") {
    createOrder(stream, headers);
  } else {
    answer(stream, 200, { count: executions.get(url.searchParams.get("key")) ?? 0 });
  }
});

// A session that was idle for five seconds ends, as node_app.js's connections do.
server.on("session", (session) => session.setTimeout(5000, () => session.close()));

server.listen(0, "127.0.0.1", () => {
  console.log(`running on http://127.0.0.1:${server.address().port}`);
});
