// Who has what, rack by rack. A small group shows every partition; of a large one each member is a line that opens.
import { known, make, number, plural, short, windowed } from "./parts.js";

const FAR_RECORDS = 10_000; // Kafka's default of acceptable.recovery.lag
const ITEMS_OPEN = 600;
const HOLDERS_OPEN = 60;
const LINES_FIRST = 30;
const CLIENTS_SHOWN = 3;
const opened = new Set();

const copy = (item) => item.state === "standby" || item.state === "warm-up";

export function members(picture, query) {
  const observed = picture.observed ? new Map(picture.observed.members.map((member) => [member.member_id, member])) : null;
  const items = picture.holders.reduce((sum, holder) => sum + holder.items.length, 0);
  const open = items <= ITEMS_OPEN && picture.holders.length <= HOLDERS_OPEN;
  const holders = query ? picture.holders.filter((holder) => fits(holder, observed, query.toLowerCase())) : picture.holders;
  const racks = [...picture.racks, ...(holders.some((holder) => !holder.rack) ? [null] : [])];
  const nouns = picture.kind === "streams" ? ["process", "processes"] : ["member"];
  return racks.map((name) => rack(name, holders.filter((holder) => (holder.rack || null) === name), { observed, open, query, nouns }));
}

function fits(holder, observed, query) {
  const clients = holder.members.map((id) => observed?.get(id)).filter(Boolean).flatMap((one) => [one.client_id, one.client_host]);
  return [holder.name, ...clients, ...holder.items.map((item) => item.name)].some((text) => text.toLowerCase().includes(query));
}

function rack(name, holders, { observed, open, query, nouns }) {
  const sums = holders.map(sum);
  const total = (key) => sums.reduce((all, one) => all + one[key], 0);
  const facts = [plural(holders.length, ...nouns), `${number(total("active"))} held`];
  if (total("cross")) facts.push(`${number(total("cross"))} from another rack`);
  if (observed) facts.push(`lag ${lagOf(total("lag"), total("unknown"), total("active"))}`);
  const box = make("div", { className: "rack" }, make("h3", {}, name ?? "no rack", make("small", {}, facts.join(" · "))));
  box.dataset.rack = name ?? "";
  if (open) {
    box.append(make("div", { className: "holders" }, ...holders.map((holder) => card(holder, observed))));
    return box;
  }
  const ordered = holders.map((holder, i) => [holder, sums[i]]).sort(([, a], [, b]) => b.lag - a.lag);
  const [drawn, more] = windowed(`rack ${name} ${query}`, ordered, LINES_FIRST, ([holder, of]) => folded(holder, of, observed));
  box.append(make("div", { className: "lines" }, ...drawn), ...more);
  return box;
}

function sum(holder) {
  const active = holder.items.filter((item) => !copy(item));
  const withLag = active.filter((item) => known(item.lag));
  return {
    active: active.length,
    cross: active.filter((item) => item.state === "cross-rack").length,
    lag: withLag.reduce((all, item) => all + item.lag, 0),
    unknown: active.length - withLag.length,
  };
}

const lagOf = (lag, unknown, active) => (!unknown ? number(lag) : unknown < active ? `${number(lag)} and ${number(unknown)} not known` : "not known");

function card(holder, observed) {
  const count = `${holder.items.length} held` + (holder.members.length > 1 ? `, ${holder.members.length} threads` : "");
  const made = make("div", { className: "holder", title: holder.name },
    make("strong", {}, short(holder.name)), make("small", { className: holder.degraded ? "warning" : "" }, holder.degraded ?? count),
    ...clients(holder, observed, sum(holder)), make("div", { className: "items" }, ...holder.items.map((item) => entry(item, observed))));
  made.dataset.holder = holder.name;
  return made;
}

function folded(holder, of, observed) {
  const ranges = make("span", { className: "ranges" }, summarised(holder.items.filter((item) => !copy(item)).map((item) => item.name)));
  const made = make("details", { id: `holder-${holder.name}`, open: opened.has(holder.name) },
    make("summary", {}, make("strong", {}, short(holder.name)), ranges, make("b", {}, lagOf(of.lag, of.unknown, of.active))));
  const fill = () => {
    if (made.open && made.children.length === 1) made.append(card(holder, observed));
    if (made.open) opened.add(holder.name);
    else opened.delete(holder.name);
  };
  fill();
  made.addEventListener("toggle", fill);
  return made;
}

// "orders 0-3, 7; clicks 1" of names that end in a partition; tasks as they are.
export function summarised(names) {
  const topics = new Map();
  for (const name of names) {
    const cut = name.lastIndexOf("-");
    const [topic, partition] = cut < 0 ? ["", name] : [name.slice(0, cut), Number(name.slice(cut + 1))];
    topics.set(topic, [...(topics.get(topic) ?? []), partition]);
  }
  return [...topics].map(([topic, partitions]) => `${topic} ${topic ? runs(partitions) : partitions.join(", ")}`.trim()).join("; ");
}

function runs(numbers) {
  const found = [];
  for (const one of [...numbers].sort((a, b) => a - b)) {
    const last = found.at(-1);
    if (last && last[1] === one - 1) last[1] = one;
    else found.push([one, one]);
  }
  return found.map(([from, to]) => (from === to ? from : `${from}-${to}`)).join(", ");
}

function entry(item, observed) {
  const lag = known(item.lag) ? `, ${item.lag} records behind` : "";
  const square = make("i", { className: `item ${item.state}${item.pending ? " pending" : ""}`, title: `${item.name}: ${item.state}${lag}` });
  square.dataset.item = item.name;
  if (known(item.lag)) {
    square.dataset.lag = item.lag;
    square.dataset.behind = item.lag >= FAR_RECORDS ? "far" : item.lag > 0 ? "near" : "no";
  }
  const unknown = observed && !copy(item) ? "?" : "";
  const later = item.pending ? [make("em", {}, "next rebalance")] : [];
  return make("span", { className: "entry" }, square, item.name, make("b", {}, known(item.lag) ? number(item.lag) : unknown), ...later);
}

// Client ids and hosts of a holder's members, and how far they are behind together.
function clients(holder, observed, of) {
  if (!observed) return [];
  const some = (values) => {
    const all = [...new Set(values)];
    return all.slice(0, CLIENTS_SHOWN).join(", ") + (all.length > CLIENTS_SHOWN ? ` and ${all.length - CLIENTS_SHOWN} more` : "");
  };
  const found = holder.members.map((id) => observed.get(id)).filter(Boolean);
  const hosts = some(found.map((member) => member.client_host.replace(/^\//, "")));
  const lag = of.active ? `, lag ${lagOf(of.lag, of.unknown, of.active)}` : "";
  return [make("small", { className: "client" }, `client ${some(found.map((member) => member.client_id))} on ${hosts}${lag}`)];
}

export function legend() {
  const one = (className, text, behind) => {
    const square = make("i", { className: `item ${className}` });
    if (behind) square.dataset.behind = behind;
    return make("span", {}, square, text);
  };
  return make("p", { id: "legend" }, one("local", "local"), one("cross-rack", "read from another rack"), one("neutral", "rack unknown"),
    one("standby", "standby"), one("warm-up", "warm-up"), one("local", "lags", "near"), one("local", "by 10,000 records or more", "far"),
    make("span", {}, make("b", {}, "123"), "records behind"), make("span", {}, make("b", {}, "?"), "lag not known"));
}
