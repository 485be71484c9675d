// One record's story, its answer on request, and the way to change it.

import { get } from "/dashboard/api.js";
import { changeOne } from "/dashboard/change.js";
import { make, moment, visible } from "/dashboard/text.js";

const find = (id) => document.getElementById(id);
let changed = () => {};

/** Sets what is called after a record was changed. */
export function onChange(call) {
  changed = call;
}

/** Shows a record; its address can be given to a colleague. */
export async function open(id) {
  const dialog = find("record");
  if (!dialog.open) {
    history.replaceState(null, "", `/?id=${encodeURIComponent(id)}`);
    dialog.onclose = () => history.replaceState(null, "", "/");
    dialog.showModal();
  }
  const body = find("record-body");
  body.replaceChildren("Looking…");
  try {
    const record = await get(`/api/records/${encodeURIComponent(id)}`);
    body.replaceChildren(facts(record), story(record), answer(record), actions(record));
  } catch (error) {
    body.replaceChildren(make("p", error.message));
  }
}

function facts(record) {
  const rows = [
    ["Operation", record.id], ["State", record.state], ["Scope", `${record.scope_source}: ${record.scope}`],
    ["Key", record.key], ["Namespace", record.namespace], ["Request", `${record.method} ${record.path}`],
    ["Route", record.route], ["Fingerprint", record.fingerprint],
    ["Expires", record.expires_at ? new Date(record.expires_at).toLocaleString() : "not while it runs"],
  ];
  const list = rows.flatMap(([name, value]) => [make("dt", name), make("dd", visible(value))]);
  return make("dl", list, { class: "facts" });
}

function story(record) {
  const items = record.history.map(({ at, detail }) => make("li", [visible(detail), at ? " — " : "", at ? moment(at) : ""]));
  return make("section", [make("h3", "What happened"), make("ol", items, { class: "story" })]);
}

function answer(record) {
  if (record.response_status === null) return "";
  const place = make("div");
  const button = make("button", "Show the recorded answer", { type: "button", id: "show-answer" });
  button.onclick = async () => {
    const { response } = await get(`/api/records/${encodeURIComponent(record.id)}?body=true`);
    const lines = response.headers.map(([name, value]) => `${name}: ${visible(value)}`);
    const body = response.body_stored === false ? "(the body was streamed and not kept)"
      : response.body !== undefined ? visibleBody(response.body) : `(base64) ${response.body_base64}`;
    place.replaceChildren(make("pre", `${response.status}\n${lines.join("\n")}\n\n${body}`));
  };
  place.append(button);
  return place;
}

/** As `visible`, but for the line breaks of a body. */
const visibleBody = (text) => text.split("\n").map(visible).join("\n");

function actions(record) {
  const done = () => {
    open(record.id);
    changed();
  };
  const buttons = [];
  if (record.state === "unknown") {
    const resolve = make("button", "Say how it ended…", { type: "button", id: "resolve" });
    resolve.onclick = () => changeOne(record, ["completed", "failed"], done);
    buttons.push(resolve);
  }
  if (record.state !== "processing") {
    const purge = make("button", "Delete the record…", { type: "button", id: "purge" });
    purge.onclick = () => changeOne(record, ["purge"], done);
    buttons.push(purge);
  }
  return make("div", buttons, { class: "actions" });
}
