// Live rates and latencies, and the figures that say how retries go: all of this node alone.

import { get } from "/dashboard/api.js";
import { draw, short } from "/dashboard/chart.js";
import { age, make, visible } from "/dashboard/text.js";

const find = (id) => document.getElementById(id);

// What the figures call an answer that wasn't a first execution.
const REPEATS = ["replayed", "waited", "in_progress", "mismatch", "unknown"];

const total = (counts, names) => names.reduce((sum, name) => sum + (counts[name] ?? 0), 0);

/** Shows what the samples of a status say. */
export function showLive({ samples, started }) {
  const steps = samples.slice(1).map((now, index) => ({ now, before: samples[index], seconds: now.at - samples[index].at || 1 }));
  const rate = (names) => steps.map(({ now, before, seconds }) => (total(now.requests, names) - total(before.requests, names)) / seconds);
  draw(find("chart-rates"), "/s", [
    ["first executions", rate(["executed", "accepted"])],
    ["replays", rate(["replayed", "waited"])],
    ["still running (202/409)", rate(["in_progress"])],
    ["mismatch, unknown, failed", rate(["mismatch", "unknown", "failed", "store_error"])],
  ]);
  const mean = (name) => steps.map(({ now, before }) => {
    const count = (now[`${name}_count`] ?? 0) - (before[`${name}_count`] ?? 0);
    return count > 0 ? (1000 * ((now[`${name}_sum`] ?? 0) - (before[`${name}_sum`] ?? 0))) / count : null;
  });
  draw(find("chart-times"), " ms", [
    ["added by oncekey", mean("overhead")],
    ["execution", mean("execution")],
    ["waiting duplicates", mean("wait")],
  ]);
  const seconds = samples.length ? samples.at(-1).at - samples[0].at : 0;
  find("live-note").textContent =
    `This node alone. Charts: its last ${age(seconds)}; figures: since its start, ${new Date(started * 1000).toLocaleString()}.`;
  if (samples.length) showFigures(samples.at(-1));
}

function showFigures(now) {
  const first = total(now.requests, ["executed", "accepted", "failed"]);
  const repeats = total(now.requests, REPEATS);
  const keyed = first + repeats;
  const share = (count) => (keyed ? `${((100 * count) / keyed).toFixed(1)} %` : "–");
  const waits = now.wait_count ?? 0;
  const figures = [
    ["Keyed requests", short(keyed)],
    ["Executed", short(total(now.requests, ["executed", "accepted"]))],
    ["Repeats", share(repeats)],
    ["Key reused (409)", share(total(now.requests, ["mismatch"]))],
    ["Still running", share(total(now.requests, ["in_progress"]))],
    ["Mean wait", waits ? `${short((1000 * now.wait_sum) / waits)} ms` : "–"],
    ["Outcome unknown", short(total(now.requests, ["unknown"]))],
    ["Executing now", short(now.inflight ?? 0)],
    ["Waiting now", short(now.waiters ?? 0)],
    ["Swept", short(now.swept ?? 0)],
    ["Fenced writes", short(now.fenced ?? 0)],
    ["Store errors", short(now.store_errors ?? 0)],
  ];
  find("figures").replaceChildren(...figures.map(([name, value]) => make("div", [make("dt", name), make("dd", value)])));
}

/** Shows the scopes with most mismatches; where a click leads is the caller's to say. */
export async function showScopes(search) {
  const { scopes } = await get("/api/mismatches");
  find("scopes-none").hidden = scopes.length > 0;
  find("scopes").replaceChildren(...scopes.map(({ scope, count, over }) => {
    const button = make("button", visible(scope), { type: "button" });
    button.onclick = () => search(scope);
    return make("li", [button, ` ${short(count)}${over ? ` (at most ${short(over)} too many)` : ""}`]);
  }));
}
