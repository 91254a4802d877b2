// One group: what is wrong, how far it is behind, who has what, and what Bellwether would make of it.
import { badge, curve, duration, fact, known, link, make, number, plural, rate, section, short, table, time } from "./parts.js";
import { legend, members } from "./members.js";

const CURVE = { width: 600, height: 90 };
const LISTED = 20_000; // ITEMS_MAX of picture.py
const SECTIONS = [["assignment", "Members"], ["plan", "Plan"], ["partitions", "Partitions"], ["rebalances", "Rebalances"]];

const nouns = (picture) => (picture.kind === "streams" ? "tasks" : "partitions");

// `truncated` is said of moves too, which have a count of their own.
const cut = (picture) => picture.truncated && picture.holders.reduce((sum, holder) => sum + holder.items.length, 0) >= LISTED;

export function group(row, picture, lines, filter) {
  const head = [heading(row, picture), ...findings(row, picture), ...role(row)];
  if (!picture) {
    return [...head, make("p", { id: "nothing" }, `${row.group}: ${row.mode}, ${row.state}. Brokers have not shown it yet.`)];
  }
  return [...head, facts(row, picture), plan(picture), assignment(picture, filter), ...partitions(picture), ...rebalances(row, picture, lines)];
}

function heading(row, picture) {
  const seen = picture?.observed;
  const by = row.leading ? "led by Bellwether" : `assigned by ${row.assigned_by}`;
  const when = seen && `refreshed at ${time(seen.seen_at_ms)}`;
  const words = [seen ? `${seen.type} group, ${seen.verdict}` : `${row.type} group`, row.state, picture?.protocol, by, row.mode, when];
  const jumps = SECTIONS.map(([id, name]) => make("a", { href: link(row.group, id) }, name));
  return make("div", { id: "heading" }, make("a", { id: "back", href: "#" }, "All groups"), make("h1", {}, row.group),
    make("p", { id: "how" }, words.filter(Boolean).join(" · ")), make("nav", { ariaLabel: "Sections" }, ...(picture ? jumps : [])));
}

function findings(row, picture) {
  const seen = picture?.observed;
  const notes = seen ? [seen.trouble, ...seen.lag_notes] : [...(picture?.warnings ?? []), ...(picture?.lag_notes ?? [])];
  const found = row.findings.map((finding) => make("li", { className: finding.level }, badge(finding), ` ${finding.message} ${finding.remedy}`));
  const items = notes.filter(Boolean).map((text) => make("li", { className: "note" }, text));
  return found.length + items.length ? [make("ul", { id: "findings" }, ...found, ...items)] : [];
}

function role(row) {
  if (!row.role) return [];
  const word = row.leading ? "leading" : `not leading: ${row.role.reason.replaceAll("_", " ")}`;
  const mark = make("strong", {}, word);
  mark.dataset.leading = row.leading;
  const next = known(row.role.next_attempt_ms) ? `, next attempt at ${time(row.role.next_attempt_ms)}` : "";
  const more = row.leading ? [] : [make("p", {}, row.role.detail), make("p", {}, row.role.remedy)];
  const line = make("p", {}, mark, ` since ${new Date(row.role.since_ms).toLocaleString()}${next}`);
  const applied = row.applied_plan ? [make("p", { className: "applied-plan" }, row.applied_plan)] : [];
  return [make("div", { id: "role" }, line, ...more, ...applied, ...row.emptying.map(evacuation))];
}

function evacuation(one) {
  const since = known(one.since_ms) ? ` since ${time(one.since_ms)}` : "";
  return make("p", { className: "emptying" }, `${one.where}: ${one.stage || "to be emptied"}${since}; ${one.order}`);
}

function facts(row, picture) {
  const seen = picture.observed;
  const report = seen ? seen.lag_report : picture.lag_report;
  const held = picture.holders.flatMap((holder) => holder.items).filter((item) => !["standby", "warm-up"].includes(item.state)).length;
  const more = cut(picture) ? " or more" : "";
  const about = seen
    ? [fact("members", number(seen.members.length)), fact(`${nouns(picture)} held`, number(held) + more)]
    : [fact("generation", number(picture.generation)), fact("policy", picture.policy), fact(nouns(picture), number(picture.total)), fact("plan", `${picture.took_ms.plan} ms`)];
  const cause = seen ? [] : [make("p", { id: "cause" }, picture.cause)];
  return make("section", { id: "facts", className: "card" }, ...cause, make("dl", {}, ...lag(row, seen, report), ...about), ...soFar(row));
}

function lag(row, seen, report) {
  const records = seen ? seen.lag : (report?.summary.lag ?? null);
  const missing = seen ? seen.unknown_lags : report?.summary.unknown;
  const unknown = records === null && !missing ? "all" : number(missing ?? null);
  const sums = [fact("lag", number(records), "large"), ...(unknown === "0" ? [] : [fact("partitions of unknown lag", unknown)])];
  if (!report) return sums;
  const { summary } = report;
  // A lag in time is at least what is said where some partition's is older than the refreshes.
  const more = known(summary.lag_ms) && summary.unknown_ms > summary.unknown ? " or more" : "";
  return [
    ...sums, fact("lag in time", duration(summary.lag_ms) + more, "large"), fact("written per second", rate(summary.written_per_s)),
    fact("read per second", rate(summary.consumed_per_s)), fact("caught up in", duration(summary.catch_up_ms)),
    fact("judged", summary.verdict.replaceAll("_", " ")),
  ];
}

function soFar(row) {
  const lags = row.curve?.values.filter(known) ?? [];
  if (!lags.length) return [];
  const span = { from_ms: row.curve.from_ms, to_ms: Date.now() };
  const words = `Lag of the last ${duration(span.to_ms - span.from_ms)}: at most ${number(Math.max(...lags))}, at least ${number(Math.min(...lags))} records.`;
  return [make("figure", {}, curve(row.curve, { ...span, ...CURVE }), make("figcaption", {}, words))];
}

// An observed group: what it costs now beside what Bellwether would assign. A led one: what the last rebalance did.
function plan(picture) {
  const { moves } = picture;
  const cells = (move) => [move.item, short(move.source), short(move.target), move.reason, move.gain];
  const heads = ["what", "from", "to", "why", "gain"];
  const listed = moves.length ? table("moves", heads, moves, cells) : [];
  const seen = picture.observed;
  if (!seen) {
    const stages = (picture.stages ?? []).map((stage) => [stage.stage, stage.taken ? "yes" : "no", stage.reason]);
    const facts = [["kept", "kept"], ["moved", "moved"], ["new", "new"], ["next rebalance", "pending"], ["from another rack", "cross_rack"], ["without an owner", "unowned"]];
    const row = make("dl", {}, ...facts.map(([name, key]) => fact(name, number(picture[key]))));
    return section("plan", "The last rebalance", row, ...listed, ...(stages.length ? table("stages", ["stage", "taken", "reason"], stages) : []));
  }
  if (!seen.shadow) return section("plan", "Now, and what Bellwether would assign", make("p", {}, "Cost now and under Bellwether: not known, for want of a plan."));
  const { current, planned, moves: count } = seen.shadow;
  const costs = [["read from another rack", "cross_rack"], ["imbalance: most minus fewest", "spread"], ["without an owner", "unowned"]];
  const rows = costs.map(([name, key]) => [name, number(current[key]), number(planned[key])]);
  const hypothetical = seen.hypothetical ? "Hypothetical, for the group cannot be led. " : "";
  const would = `${hypothetical}Bellwether would move ${number(count.moved)}, keep ${number(count.kept)}, and give ${number(count.new)} that nobody has.`;
  const left = count.moved > moves.length ? [make("p", { className: "more" }, `The first ${number(moves.length)} of ${number(count.moved)} moves are listed.`)] : [];
  return section("plan", "Now, and what Bellwether would assign",
    make("div", { id: "compared" }, ...table("cost", ["cost", "now ", "by Bellwether "], rows), make("p", { id: "would" }, would)), ...listed, ...left);
}

function assignment(picture, filter) {
  const search = make("input", { type: "search", id: "filter", placeholder: "Filter members and partitions", value: filter, ariaLabel: "Filter members and partitions" });
  search.addEventListener("input", () => dispatchEvent(new CustomEvent("filter", { detail: search.value })));
  const boxes = members(picture, filter);
  const note = cut(picture) ? [make("p", { className: "warning" }, `Of the ${nouns(picture)} of this group no more than ${number(LISTED)} are listed.`)] : [];
  return section("assignment", "Members by rack", search, legend(), ...note, make("div", { id: "racks" }, ...boxes));
}

function partitions(picture) {
  const report = picture.observed ? picture.observed.lag_report : picture.lag_report;
  const behind = (report?.partitions ?? []).filter((one) => one.lag !== 0).sort((a, b) => (b.lag ?? -1) - (a.lag ?? -1));
  if (!report) return [];
  const cells = (one) => [
    `${one.topic}-${one.partition}`, known(one.lag) ? one.lag : "not known", known(one.lag_ms) ? duration(one.lag_ms) : known(one.lag_ms_min) ? `${duration(one.lag_ms_min)} or more` : "not known",
    rate(one.written_per_s), rate(one.consumed_per_s), one.verdict.replaceAll("_", " "), short(one.member), one.note,
  ];
  const heads = ["partition", "lag ", "in time ", "written/s ", "read/s ", "judged", "member", "note"];
  const rest = report.summary.partitions - behind.length;
  const words = `${plural(behind.length, "partition")} behind or of unknown lag, ${number(rest)} ${report.truncated ? "others" : "with nothing left to read"}.`;
  return [section("partitions", "Partitions, the furthest behind first", make("p", {}, words), ...(behind.length ? table("partitions", heads, behind, cells) : []))];
}

function rebalances(row, picture, lines) {
  if (picture.observed) {
    const seen = picture.observed.rebalances.map(seenRebalance);
    const listed = seen.length ? table("rebalances", ["when", "why", "how long", "kept ", "moved ", "new "], seen) : [make("p", {}, "None since this process started.")];
    return [section("rebalances", "Rebalances seen", ...listed)];
  }
  const rebalances = lines.filter((line) => line.group === row.group).map((line) =>
    [time(line.decided_at_ms), line.generation, line.cause, line.kept, line.moved, line.new, `${line.plan_ms} ms`]);
  return [section("rebalances", "Rebalances", ...table("rebalances", ["when", "generation ", "why", "kept ", "moved ", "new ", "plan "], rebalances))];
}

// Looks are seconds apart, so a duration is known as a range.
function seenRebalance(one) {
  const [least, most] = [one.lasted_ms_min, one.lasted_ms_max].map((ms) => (ms === null ? null : Math.round(ms / 1000)));
  const long = one.running ? `${least} s so far` : most === null ? `${least} s or more` : least ? `${least} to ${most} s` : `up to ${most} s`;
  const moves = ["kept", "moved", "new"].map((key) => (one.moves ? one.moves[key] : "not known"));
  return [time(one.seen_at_ms), one.cause || "not known", long, ...moves];
}
