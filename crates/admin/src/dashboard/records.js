// Lists of records: those that wait for a person, and those that were searched for.

import { get } from "/dashboard/api.js";
import { changeAll } from "/dashboard/change.js";
import { showScopes } from "/dashboard/live.js";
import { onChange, open } from "/dashboard/record.js";
import { make, moment, visible } from "/dashboard/text.js";

const find = (id) => document.getElementById(id);
/** Longer in `processing` than this is stuck, in the eyes of this page. */
const STUCK = "10m";
const LOOKS = { completed: "good", unknown: "bad", failed: "odd", processing: "" };

const query = (filter) =>
  new URLSearchParams(Object.entries(filter).filter(([, value]) => value !== "" && value !== null)).toString();

function row(record, wide) {
  const link = make("button", record.state, { type: "button", class: LOOKS[record.state], "data-id": record.id });
  link.onclick = () => open(record.id);
  const cells = [
    make("td", link),
    make("td", visible(record.scope), { title: visible(`${record.scope_source}: ${record.scope}`) }),
    make("td", visible(record.key), { title: visible(record.key) }),
    make("td", visible(record.route)),
    make("td", moment(record.started_at)),
  ];
  const numbers = [record.response_status ?? "–", record.attempts, record.replays];
  if (wide) cells.push(...numbers.map((number) => make("td", String(number), { class: "number" })));
  return make("tr", cells);
}

/** Unknown first, then what has been processing for long: nothing else needs anyone. */
export async function showAttention() {
  const unknown = await get(`/api/records?${query({ state: "unknown", limit: 50 })}`);
  const stuck = await get(`/api/records?${query({ state: "processing", older_than: STUCK, limit: 50 })}`);
  const records = [...unknown.records, ...stuck.records];
  find("attention").hidden = records.length === 0;
  find("attention").tBodies[0].replaceChildren(...records.map((record) => row(record, false)));
  const more = unknown.next || stuck.next ? " More than are shown." : "";
  const counted = `${unknown.records.length} unknown, ${stuck.records.length} processing for over ${STUCK}.${more}`;
  find("attention-none").textContent = records.length ? counted : "Nothing: no outcome is unknown, and nothing has been running for long.";
  await showScopes(searchScope);
}

let filter = {};
let next = null;

/** Reads the form, and shows the first page of what matches. */
async function search() {
  filter = Object.fromEntries(new FormData(find("search")));
  next = null;
  find("records").tBodies[0].replaceChildren();
  await page();
}

async function page() {
  const place = find("records-none");
  try {
    const list = await get(`/api/records?${query({ ...filter, limit: 50, cursor: next })}`);
    find("records").tBodies[0].append(...list.records.map((record) => row(record, true)));
    next = list.next;
    place.textContent = "No record matches.";
    place.hidden = find("records").tBodies[0].rows.length > 0;
  } catch (error) {
    next = null;
    place.textContent = error.message;
    place.hidden = false;
  }
  find("more").hidden = next === null;
}

function searchScope(scope) {
  const form = find("search");
  form.reset();
  form.elements.scope.value = scope;
  find("records-title").focus();
  return search();
}

/** Makes the form and its buttons work, and lists the newest records. */
export function startSearch() {
  find("search").onsubmit = (event) => {
    event.preventDefault();
    search();
  };
  find("more").onclick = page;
  find("bulk").onclick = () => changeAll(Object.fromEntries(new FormData(find("search"))), search);
  onChange(search);
  search();
}
