// A line chart as SVG, with its last numbers as text for those who don't see it.

import { make } from "/dashboard/text.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 600;
const HEIGHT = 150;

/** Draws series, each a name and its values (null: a gap), into `place`; `unit` ends each number. */
export function draw(place, unit, series) {
  const highest = Math.max(0, ...series.flatMap(([, values]) => values.filter((value) => value !== null)));
  const svg = element("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(element("line", { class: "axis", x1: 0, x2: WIDTH, y1: HEIGHT - 1, y2: HEIGHT - 1 }));
  series.forEach(([, values], number) => {
    for (const run of runs(values)) {
      const points = run.map(([index, value]) => `${across(index, values.length)},${down(value, highest)}`);
      svg.append(element("polyline", { class: `c${number}`, points: points.join(" ") }));
    }
  });
  const legend = series.map(([name, values], number) => {
    const last = values.at(-1);
    return make("li", `${name} ${last === null || last === undefined ? "–" : short(last) + unit}`, { class: `c${number}` });
  });
  const top = make("div", `highest ${short(highest)}${unit}`, { class: "note" });
  place.replaceChildren(top, svg, make("ul", legend, { class: "legend" }));
}

const across = (index, count) => (count > 1 ? (index * WIDTH) / (count - 1) : 0);
const down = (value, highest) => HEIGHT - 2 - (highest > 0 ? (value / highest) * (HEIGHT - 6) : 0);

/** The stretches of values without gaps, each value with its place. */
function runs(values) {
  const found = [[]];
  values.forEach((value, index) => {
    if (value === null) found.push([]);
    else found.at(-1).push([index, value]);
  });
  return found.filter((run) => run.length > 0);
}

/** A number in few characters. */
export function short(value) {
  if (value >= 100) return Math.round(value).toLocaleString("en");
  return value.toLocaleString("en", { maximumSignificantDigits: 3 });
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}
