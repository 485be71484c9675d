// Changing records, one or all that match: what will happen is said first, and a reason is asked for.

import { change } from "/dashboard/api.js";
import { short } from "/dashboard/chart.js";

const find = (id) => document.getElementById(id);

/** What the next retry of a changed record gets. */
const NEXT = {
  completed: "Its retries get the answer given here, as if it had been the operation's own. Nothing is executed.",
  failed: "The next retry executes the operation. If it did take effect after all, that is a second time.",
  purge: "The key is forgotten: the next request with it executes the operation, even if it was executed before.",
};

/** Asks how to change one record, and does it. */
export function changeOne(record, kinds, done) {
  const title = kinds[0] === "purge" ? "Delete the record" : "Say how it ended";
  ask({ title, text: "", kinds, dry: false }, async (form) => {
    const path = `/api/records/${encodeURIComponent(record.id)}`;
    if (form.as === "purge") await change("DELETE", path, { reason: form.reason });
    else await change("POST", `${path}/resolve`, verdict(form));
    done();
    return null;
  });
}

/** Asks how to change all records that a filter matches, and does it; a dry run only counts them. */
export function changeAll(filter, done) {
  const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ""));
  const said = Object.entries(given).map(([name, value]) => `${name} ${value}`).join(", ");
  if (!said) {
    ask({ title: "Change all that match", text: "Give the search a filter first: all records at once is nothing to do from a page.", kinds: [], dry: false });
    return;
  }
  const text = `All records with ${said}. Only unknown ones can be told how they ended, and none is deleted while it runs.`;
  ask({ title: "Change all that match", text, kinds: ["completed", "failed", "purge"], dry: true }, async (form, dry) => {
    const path = form.as === "purge" ? "/api/records/purge" : "/api/records/resolve";
    const wanted = form.as === "purge" ? { reason: form.reason } : verdict(form);
    const { matched, changed } = await change("POST", path, { ...wanted, filter: given, dry_run: dry });
    if (dry) return `${short(matched)} match; nothing was changed.`;
    done();
    return `${short(changed)} of ${short(matched)} were changed.`;
  });
}

function verdict({ as, reason, status, type, body }) {
  if (as === "failed") return { as, reason };
  const headers = type ? [["content-type", type]] : [];
  return { as, reason, response: { status: Number(status), headers, body } };
}

/** Shows the dialog; `act` gets what was entered, and whether it is a dry run, and returns what to say, or null to close. */
function ask({ title, text, kinds, dry }, act) {
  const [dialog, form] = [find("change"), find("change-form")];
  form.reset();
  find("change-title").textContent = title;
  find("change-text").textContent = text;
  find("change-result").textContent = "";
  find("change-kind").hidden = kinds.length < 2;
  find("change-dry").hidden = !dry;
  find("change-do").hidden = kinds.length === 0;
  for (const radio of form.querySelectorAll("[name=as]")) {
    radio.closest("label").hidden = !kinds.includes(radio.value);
    // Nothing is chosen for anyone where there is a choice.
    radio.checked = kinds.length === 1 && radio.value === kinds[0];
    radio.required = kinds.length > 1;
  }
  const describe = () => {
    const as = new FormData(form).get("as");
    find("change-response").hidden = as !== "completed";
    find("change-next").textContent = NEXT[as] ?? "";
    find("change-next").hidden = !NEXT[as];
  };
  const run = async (dryRun) => {
    if (!form.reportValidity()) return;
    const buttons = form.querySelectorAll("button");
    buttons.forEach((button) => { button.disabled = true; });
    try {
      const said = await act(Object.fromEntries(new FormData(form)), dryRun);
      if (said === null) dialog.close();
      else find("change-result").textContent = said;
    } catch (error) {
      find("change-result").textContent = error.message;
    } finally {
      buttons.forEach((button) => { button.disabled = false; });
    }
  };
  form.onchange = describe;
  form.onsubmit = (event) => {
    event.preventDefault();
    run(false);
  };
  find("change-dry").onclick = () => run(true);
  find("change-cancel").onclick = () => dialog.close();
  describe();
  dialog.showModal();
}
