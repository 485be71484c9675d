// Making elements from text. Nothing that a client sent is ever read as HTML.

/** An element with text or children. */
export function make(name, content = [], attributes = {}) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[content].flat().filter((part) => part !== null && part !== undefined));
  return made;
}

/** Marks what a reader can't see, so that one text can't pass for another: controls, and what turns the direction. */
export const visible = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (odd) => `\\u{${odd.codePointAt(0).toString(16)}}`);

/** A point in time with its age. */
export function moment(rfc3339) {
  if (!rfc3339) return "–";
  const at = new Date(rfc3339);
  return make("time", `${age((Date.now() - at.getTime()) / 1000)} ago`, { datetime: rfc3339, title: at.toLocaleString() });
}

/** A duration in seconds, in its two largest units. */
export function age(seconds) {
  const units = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, size] of units) {
    if (left >= size) parts.push(`${Math.floor(left / size)} ${unit}`);
    left %= size;
  }
  return parts.slice(0, 2).join(" ") || "0 s";
}
