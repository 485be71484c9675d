// The page: asks for the status every few seconds while it is seen, and hands each part what it shows.

import { get, onTokenNeeded } from "/dashboard/api.js";
import { showLive } from "/dashboard/live.js";
import { open } from "/dashboard/record.js";
import { showAttention, startSearch } from "/dashboard/records.js";
import { age, make } from "/dashboard/text.js";

const EVERY_MS = 5000;
const find = (id) => document.getElementById(id);

onTokenNeeded((wrong) => new Promise((resolve) => {
  const dialog = find("token");
  find("token-wrong").textContent = wrong ? "That is not the token." : "";
  find("token-form").onsubmit = (event) => {
    event.preventDefault();
    const token = event.target.elements.token.value;
    event.target.reset();
    dialog.close();
    resolve(token);
  };
  dialog.oncancel = (event) => event.preventDefault();
  if (!dialog.open) dialog.showModal();
}));

const WORDS = {
  ready: ["good", "ready"], starting: ["odd", "starting"], draining: ["odd", "draining"],
  ok: ["good", "answers"], failing: ["bad", "gives no answer"], unseen: ["since", "not asked yet"],
  at_most_once: ["good", "at most once"], best_effort: ["odd", "best effort"], none: ["bad", "none"],
};

function showStatus(status) {
  for (const part of ["node", "upstream", "store", "class"]) {
    const { state, since } = status[part];
    const [look, word] = WORDS[state] ?? ["odd", state.replaceAll("_", " ")];
    const told = make("span", word, { class: look });
    const time = make("span", ` for ${age(Date.now() / 1000 - since)}`, { class: "since" });
    find(`status-${part}`).querySelector("dd").replaceChildren(told, time);
  }
  const started = new Date(status.started * 1000).toLocaleString();
  find("about").textContent = `oncekey ${status.version}, this node since ${started}`;
}

/** Runs a part; what goes wrong is told once, at the top, and doesn't stop the others. */
async function attempt(part, what) {
  try {
    await part();
    return null;
  } catch (error) {
    return `${what}: ${error.message}`;
  }
}

async function refresh() {
  const troubles = [
    await attempt(async () => {
      const status = await get("/api/status");
      showStatus(status);
      showLive(status);
    }, "This node doesn't tell its status"),
    await attempt(showAttention, "The records can't be read"),
  ].filter(Boolean);
  find("trouble").hidden = troubles.length === 0;
  find("trouble").textContent = troubles.join(" ");
}

async function run() {
  if (!document.hidden) await refresh();
  setTimeout(run, EVERY_MS);
}

document.addEventListener("visibilitychange", () => document.hidden || refresh());
startSearch();
const linked = new URLSearchParams(location.search).get("id");
if (linked) open(linked);
run();
