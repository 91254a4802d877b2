// All groups, the worst first, as /api/overview orders them.
import { badge, wordsOf, curve, duration, known, link, make, number, plural, windowed } from "./parts.js";

const FIRST = 100;
const CURVE = { width: 160, height: 28 };

export function matches(row, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [row.group, row.mode, row.state, row.assigned_by, ...row.findings.map(wordsOf)].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

export function overview(rows, query) {
  const found = rows.filter((row) => matches(row, query));
  const span = { from_ms: Math.min(...rows.filter((row) => row.curve).map((row) => row.curve.from_ms)), to_ms: Date.now() };
  const [drawn, more] = windowed(`groups ${query}`, found, FIRST, (row) => line(row, span));
  const heads = ["Group", "Judged", "Lag", "In time", "Lag so far", "Members", "Cross rack", "Rebalances"];
  const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
  const list = make("table", { id: "groups" }, make("thead", {}, head), make("tbody", {}, ...drawn));
  return [summary(rows, found, query, span), ...(found.length ? [list] : []), ...more];
}

function summary(rows, found, query, span) {
  const wrong = found.filter((row) => row.findings.length).length;
  const lag = found.reduce((sum, row) => sum + (row.lag ?? 0), 0);
  const unknown = found.filter((row) => !known(row.lag)).length;
  const parts = [
    query ? `${number(found.length)} of ${plural(rows.length, "group")} fit “${query}”` : plural(rows.length, "group"),
    wrong ? `${number(wrong)} with something wrong` : "nothing wrong",
    `${plural(lag, "record")} behind${unknown ? `, not known of ${plural(unknown, "group")}` : ""}`,
    Number.isFinite(span.from_ms) ? `curves of the last ${duration(span.to_ms - span.from_ms)}` : "no curves yet",
  ];
  return make("div", { id: "summary" }, make("h1", {}, "Groups"), make("p", {}, parts.join(" · ")));
}

function line(row, span) {
  const name = make("a", { className: "group", href: link(row.group), id: `row-${row.group}` }, row.group);
  const by = row.leading ? "Bellwether leads" : row.assigned_by === "nobody" ? "" : `${row.assigned_by} assigns`;
  const how = [row.type === "classic" ? "" : row.type, row.state, by].filter(Boolean).join(" · ");
  const judged = row.verdict === "ok" ? "ok" : known(row.lag) ? "not judged yet" : "lag not known";
  const cells = [
    ["Group", [name, make("small", {}, how)], "name"],
    ["Judged", row.findings.length ? row.findings.map(badge) : [make("span", { className: "quiet" }, judged)], "wrong"],
    ["Lag", [number(row.lag), ...(row.lag !== null && row.unknown_lags ? [make("small", {}, `${number(row.unknown_lags)} not known`)] : [])], "number"],
    ["In time", [duration(row.lag_ms) + (row.lag_at_least ? " or more" : "")], "number"],
    ["Lag so far", [curve(row.curve, { ...span, ...CURVE })], "so-far"],
    ["Members", [number(row.members)], "number"],
    ["Cross rack", [crossRack(row)], "number"],
    ["Rebalances", [number(row.rebalances)], "number"],
  ];
  const made = make("tr", {}, ...cells.map(([head, inside, className]) => {
    const cell = make("td", { className }, ...inside);
    cell.dataset.head = head;
    return cell;
  }));
  made.dataset.group = row.group;
  return made;
}

// Now, and what the plan would make of it where that differs.
function crossRack(row) {
  if (!known(row.cross_rack)) return "not known";
  const planned = known(row.cross_rack_planned) && row.cross_rack_planned !== row.cross_rack;
  return number(row.cross_rack) + (planned ? ` → ${number(row.cross_rack_planned)}` : "");
}
