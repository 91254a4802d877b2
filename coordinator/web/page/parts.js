// What all views are made of. Text goes in as text only: names are chosen by clients.
const UUID = /-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const SVG = "http://www.w3.org/2000/svg";
const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export const known = (value) => value !== null && value !== undefined;
const FORMAT = new Intl.NumberFormat("en");
export const number = (value) => (known(value) ? FORMAT.format(value) : "not known");
// Records per second: nobody reads the thousandth of a hundred.
export const rate = (value) => (known(value) ? number(Number(value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0))) : "not known");
export const short = (name) => (known(name) ? name.replace(UUID, "") : "nobody");
export const time = (ms) => new Date(ms).toLocaleTimeString();
export const plural = (count, noun, many = `${noun}s`) => `${number(count)} ${count === 1 ? noun : many}`;
export const link = (group, section = "") => `#${encodeURIComponent(group)}${section && `/${section}`}`;

// In its largest unit and the one below: "2 min 5 s".
export function duration(ms) {
  if (!known(ms)) return "not known";
  let at = UNITS.findIndex(([, size]) => ms >= size);
  if (at < 0) at = UNITS.length - 1;
  const [unit, size] = UNITS[at];
  const whole = at === UNITS.length - 1 ? Math.round(ms / size) : Math.floor(ms / size);
  const next = UNITS[at + 1];
  const rest = next ? Math.floor((ms % size) / next[1]) : 0;
  return `${number(whole)} ${unit}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

export function fact(name, value, className = "") {
  return make("div", { className }, make("dt", {}, name), make("dd", {}, ...[value].flat().map((v) => v instanceof Node ? v : String(v))));
}

export const wordsOf = (finding) => finding.kind.replaceAll("_", " ");

export function badge(finding) {
  return make("span", { className: `badge ${finding.level}` }, wordsOf(finding));
}

// The curve of a lag from `from_ms` to `to_ms`, with a gap wherever nobody knew it.
export function curve(found, { from_ms, to_ms, width, height }) {
  const values = found?.values ?? [];
  const most = Math.max(1, ...values.filter(known));
  const top = most * 1.2; // a steady lag is no ceiling
  const x = (i) => ((found.from_ms + (i + 0.5) * found.step_ms - from_ms) / Math.max(1, to_ms - from_ms)) * (width - 4) + 2;
  const y = (value) => height - 2 - (value / top) * (height - 4);
  const at = (value, i) => `${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
  const path = values.map((value, i) => {
    if (!known(value)) return "";
    return known(values[i - 1]) ? `L${at(value, i)}` : `M${at(value, i)}h0.1`;
  }).join("");
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "curve");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", values.some(known) ? `lag over time, at most ${number(most)} records` : "lag not known");
  const line = document.createElementNS(SVG, "path");
  line.setAttribute("d", path);
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
}

// Rows that have been asked for, by the id of their list; nothing is left out without a button that shows it.
const shown = new Map();

export function windowed(id, all, first, draw) {
  const count = Math.min(all.length, shown.get(id) ?? first);
  const drawn = all.slice(0, count).map(draw);
  if (count === all.length) return [drawn, []];
  const more = make("button", { type: "button", id: `more-${id}` }, `Show all ${number(all.length)}`);
  more.addEventListener("click", () => {
    shown.set(id, Infinity);
    dispatchEvent(new Event("again"));
  });
  return [drawn, [make("p", { className: "more" }, `${number(count)} of ${number(all.length)} shown. `, more)]];
}

// A table of the first of `items`, without columns that are empty. `cells` makes a row, of those that are shown only. Heads
// that end in a blank are above numbers; on a phone each row is a card with the heads beside the cells.
export function table(id, heads, items, cells = (item) => item, first = 20) {
  const [rows, more] = windowed(id, items, first, cells);
  const used = heads.map((_, i) => i).filter((i) => rows.some((row) => row[i] !== ""));
  const cell = (tag, text, i) => {
    const made = make(tag, { className: typeof text === "number" || heads[i].endsWith(" ") ? "number" : "" });
    made.append(text instanceof Node ? text : typeof text === "number" ? number(text) : String(text));
    if (tag === "td") made.dataset.head = heads[i].trim();
    return made;
  };
  const line = (tag, row) => make("tr", {}, ...used.map((i) => cell(tag, row[i], i)));
  const body = make("tbody", {}, ...rows.map((row) => line("td", row)));
  return [make("table", { id: `table-${id}` }, make("thead", {}, line("th", heads)), body), ...more];
}

export function section(id, title, ...children) {
  return make("section", { id, className: "card" }, make("h2", {}, title), ...children);
}
