// Asking the admin listener: one place for the token, for time limits, and for what a refusal says.

const PATIENCE_MS = 15_000;
const KEPT_AS = "oncekey-token";

let askForToken;
/** The question that is open: whatever is refused meanwhile waits for its answer, too. */
let asked = null;

/** Sets what asks the user for the token; it returns a promise of one. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** A refusal, in the listener's own words. */
export class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** GET: the answer's JSON. */
export const get = async (path) => (await send("GET", path)).json();

/** GET: the answer's text. */
export const text = async (path) => (await send("GET", path)).text();

/** A change, with a JSON body; the answer's JSON, or null where there is none. */
export async function change(method, path, body) {
  const answer = await send(method, path, body ?? {});
  return answer.status === 204 ? null : answer.json();
}

async function send(method, path, body, wrong = false) {
  const headers = {};
  const token = sessionStorage.getItem(KEPT_AS);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, {
    method, headers, body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS),
  });
  if (answer.status === 401) {
    // Another may have been told since this was sent.
    if (token === sessionStorage.getItem(KEPT_AS)) {
      asked ??= askForToken(wrong || token !== null).finally(() => { asked = null; });
      sessionStorage.setItem(KEPT_AS, await asked);
    }
    return send(method, path, body, true);
  }
  if (!answer.ok) throw new Refusal(answer.status, await detail(answer));
  return answer;
}

async function detail(answer) {
  try {
    return (await answer.json()).detail ?? `HTTP ${answer.status}`;
  } catch {
    return `HTTP ${answer.status}`;
  }
}
