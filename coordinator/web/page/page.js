// Draws what /api/groups says. Text goes in as text only: names are chosen by clients.
"use strict";

const REFRESH_MS = 3000;
const FAR_RECORDS = 10000; // Kafka's default of acceptable.recovery.lag
const CLIENTS_SHOWN = 3;
const UUID = /-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const $ = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

async function get(path) {
  const answer = await fetch(path);
  return answer.ok ? answer.json() : null;
}

const chosen = () => decodeURIComponent(location.hash.slice(1));
const short = (name) => (name === null ? "nobody" : name.replace(UUID, ""));
const time = (ms) => new Date(ms).toLocaleTimeString();

function drawGroups(groups, current) {
  $("groups").replaceChildren(
    ...groups.map((group) => {
      const link = make("a", { href: `#${encodeURIComponent(group.group)}`, title: `${group.mode}, ${group.state}` });
      link.append(make("b", {}, "● "), group.group, make("small", {}, ` ${word(group)}`));
      link.dataset.leading = group.leading;
      link.setAttribute("aria-current", group.group === current);
      return link;
    }),
  );
}

// What a group's badge says: "leading", why not, or that it is only observed.
function word(group) {
  if (group.role === null) return group.mode;
  return group.leading ? "leading" : group.role.reason.replaceAll("_", " ");
}

function drawRole(group) {
  const role = group?.role;
  if (!role) {
    $("role").replaceChildren();
    return;
  }
  const badge = make("strong", {}, group.leading ? "leading" : `not leading: ${word(group)}`);
  badge.dataset.leading = group.leading;
  const next = role.next_attempt_ms === null ? "" : `, next attempt at ${time(role.next_attempt_ms)}`;
  const lines = [make("p", {}, badge, ` since ${new Date(role.since_ms).toLocaleString()}${next}`)];
  if (!group.leading) lines.push(make("p", {}, role.detail), make("p", {}, role.remedy));
  $("role").replaceChildren(...lines);
}

function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, String(value)));
}

function drawSummary(group, picture) {
  if (!picture) {
    const none = group?.role ? "This process has led no round of it yet." : "This process has not looked at it yet.";
    $("summary").replaceChildren(make("p", {}, group ? `${group.group}: ${group.mode}, ${group.state}. ${none}` : "No groups."));
    return;
  }
  if (picture.observed) {
    $("summary").replaceChildren(...present(picture));
    return;
  }
  const facts = make("dl", {},
    fact("generation", picture.generation), fact("protocol", picture.protocol), fact("policy", picture.policy),
    fact(picture.kind === "streams" ? "tasks" : "partitions", picture.total),
    fact("from another rack", picture.cross_rack), fact("without an owner", picture.unowned),
    fact("kept", picture.kept), fact("moved", picture.moved), fact("new", picture.new), fact("next round", picture.withheld),
    fact("plan", `${picture.took_ms.plan} ms`), ...lagSums(picture.lag_report), ...lagFacts(picture.lag_report),
  );
  const notes = [...picture.warnings, ...picture.lag_notes].map((text) => make("p", { className: "warning" }, text));
  $("summary").replaceChildren(make("p", { id: "cause" }, picture.cause), facts, ...notes);
}

// An observed group: what it is, what it costs now, and what Bellwether would make of it.
function present(picture) {
  const seen = picture.observed;
  const nouns = picture.kind === "streams" ? "tasks" : "partitions";
  const held = picture.holders.flatMap((holder) => holder.items).filter((item) => item.state !== "standby").length;
  const facts = make("dl", {},
    fact("state", seen.state || "does not exist"), fact("protocol", seen.protocol || "none"), fact("members", number(seen.members.length)),
    fact(`${nouns} held`, number(held) + (picture.truncated ? " or more" : "")), fact("lag", number(seen.lag)),
    fact("partitions of unknown lag", seen.lag === null && !seen.unknown_lags ? "all" : number(seen.unknown_lags)),
    ...lagFacts(seen.lag_report), fact("looked at", time(seen.seen_at_ms)),
  );
  const notes = [seen.trouble, ...seen.lag_notes].filter(Boolean).map((text) => make("p", { className: "warning" }, text));
  return [make("p", { id: "cause" }, `${seen.type} group, ${seen.verdict}`), facts, ...notes, ...comparison(seen)];
}

function lagSums(report) {
  return report ? [fact("lag", number(report.summary.lag)), fact("partitions of unknown lag", number(report.summary.unknown))] : [];
}

// A lag in time is at least what is said where some partition's is older than our looks.
function lagFacts(report) {
  if (!report) return [];
  const { summary } = report;
  const seconds = (ms) => (ms === null ? "not known" : `${number(Math.round(ms / 1000))} s`);
  const more = summary.lag_ms !== null && summary.unknown_ms > summary.unknown ? " or more" : "";
  return [
    fact("lag in time", seconds(summary.lag_ms) + more), fact("written per second", number(summary.written_per_s)),
    fact("read per second", number(summary.consumed_per_s)), fact("caught up in", seconds(summary.catch_up_ms)),
    fact("judged", summary.verdict.replaceAll("_", " ")),
  ];
}

function comparison(seen) {
  if (!seen.shadow) return [make("p", {}, "Cost now and under Bellwether: not known, for want of a plan.")];
  const { current, planned, moves } = seen.shadow;
  const rows = [["read from another rack", "cross_rack"], ["imbalance: most minus fewest", "spread"], ["without an owner", "unowned"]]
    .map(([name, key]) => [name, number(current[key]), number(planned[key])]);
  const would = `Bellwether would move ${number(moves.moved)}, keep ${number(moves.kept)}, and give ${number(moves.new)} that nobody has.`;
  const hypothetical = seen.can_be_led ? "" : "Hypothetical, for the group cannot be led. ";
  return [...table("Cost", ["", "now", "as Bellwether would assign"], rows), make("p", { id: "would" }, hypothetical + would)];
}

const number = (value) => (value === null ? "not known" : value.toLocaleString("en"));

function drawItem(item, observed) {
  const lag = item.lag === null ? "" : `, ${item.lag} records behind`;
  const later = item.withheld ? ", handed out next round" : "";
  const square = make("i", { className: `item ${item.state}${item.withheld ? " withheld" : ""}`, title: `${item.name}: ${item.state}${lag}${later}` });
  square.dataset.item = item.name;
  if (item.lag !== null) {
    square.dataset.lag = item.lag;
    square.dataset.behind = item.lag >= FAR_RECORDS ? "far" : item.lag > 0 ? "near" : "no";
  }
  const unknown = observed && item.state !== "standby" ? "?" : "";
  return make("span", { className: "entry" }, square, item.name, make("b", {}, item.lag === null ? unknown : number(item.lag)));
}

function drawHolder(holder, observed) {
  const items = holder.items.map((item) => drawItem(item, observed));
  const count = `${holder.items.length} held` + (holder.members.length > 1 ? `, ${holder.members.length} threads` : "");
  const card = make("div", { className: "holder", title: holder.name },
    make("strong", {}, short(holder.name)), make("small", {}, holder.degraded ?? count), ...clients(holder, observed),
    make("div", { className: "items" }, ...items));
  card.dataset.holder = holder.name;
  return card;
}

// Client ids and hosts of a holder's members, and how far they are behind together.
function clients(holder, observed) {
  if (!observed) return [];
  const members = holder.members.map((id) => observed.get(id)).filter(Boolean);
  const active = holder.items.filter((item) => item.state !== "standby");
  const known = active.filter((item) => item.lag !== null);
  const unknown = active.length - known.length;
  const sum = number(known.reduce((total, item) => total + item.lag, 0));
  const lag = !unknown ? sum : known.length ? `${sum} and ${unknown} not known` : "not known";
  const some = (values) => {
    const all = [...new Set(values)];
    return all.slice(0, CLIENTS_SHOWN).join(", ") + (all.length > CLIENTS_SHOWN ? ` and ${all.length - CLIENTS_SHOWN} more` : "");
  };
  const hosts = some(members.map((member) => member.client_host.replace(/^\//, "")));
  const text = `client ${some(members.map((member) => member.client_id))} on ${hosts}${active.length ? `, lag ${lag}` : ""}`;
  return [make("small", { className: "client" }, text)];
}

function drawRacks(picture) {
  const observed = picture.observed ? new Map(picture.observed.members.map((member) => [member.member_id, member])) : null;
  const racks = [...picture.racks, ...(picture.holders.some((h) => !h.rack) ? [null] : [])];
  $("racks").replaceChildren(
    ...racks.map((rack) => {
      const inside = picture.holders.filter((holder) => (holder.rack || null) === rack);
      const box = make("div", { className: "rack" }, make("h2", {}, rack ?? "no rack"), ...inside.map((holder) => drawHolder(holder, observed)));
      box.dataset.rack = rack ?? "";
      return box;
    }),
  );
}

function table(title, heads, rows) {
  if (!rows.length) return [];
  const line = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, String(cell))));
  return [make("h2", {}, title), make("table", {}, make("thead", {}, line("th", heads)), make("tbody", {}, ...rows.map((row) => line("td", row))))];
}

function drawTables(picture, lines) {
  const moves = (picture?.moves ?? []).map((move) => [move.item, short(move.source), short(move.target), move.reason]);
  const stages = (picture?.stages ?? []).map((stage) => [stage.stage, stage.taken ? "yes" : "no", stage.reason]);
  const title = picture?.observed ? "Moves that Bellwether would make" : "Moves";
  $("moves").replaceChildren(...table(title, ["what", "from", "to", "why"], moves), ...table("Stages", ["stage", "taken", "reason"], stages));
  if (picture?.observed) {
    const seen = picture.observed.rebalances.map(seenRebalance);
    $("history").replaceChildren(...table("Rebalances seen", ["when", "why", "how long", "kept", "moved", "new"], seen));
    return;
  }
  const rounds = lines.filter((line) => line.group === chosen()).map((line) =>
    [time(line.decided_at_ms), line.generation, line.cause, line.kept, line.moved, line.new, `${line.plan_ms} ms`]);
  $("history").replaceChildren(...table("Rounds", ["when", "generation", "why", "kept", "moved", "new", "plan"], rounds));
}

// Looks are seconds apart, so a duration is known as a range.
function seenRebalance(one) {
  const [least, most] = [one.lasted_ms_min, one.lasted_ms_max].map((ms) => (ms === null ? null : Math.round(ms / 1000)));
  const long = one.running ? `${least} s so far` : most === null ? `${least} s or more` : least ? `${least} to ${most} s` : `up to ${most} s`;
  const moves = ["kept", "moved", "new"].map((key) => (one.moves ? number(one.moves[key]) : "not known"));
  return [time(one.seen_at_ms), one.cause || "not known", long, ...moves];
}

async function draw() {
  try {
    const groups = (await get("api/groups")) ?? [];
    if (!groups.some((group) => group.group === chosen()) && groups.length) {
      history.replaceState(null, "", `#${encodeURIComponent(groups[0].group)}`);
    }
    const group = groups.find((one) => one.group === chosen());
    const picture = group ? await get(`api/groups/${encodeURIComponent(group.group)}`) : null;
    drawGroups(groups, chosen());
    drawRole(group);
    drawSummary(group, picture);
    if (picture) drawRacks(picture);
    else $("racks").replaceChildren();
    drawTables(picture, (await get("decisions")) ?? []);
    $("when").textContent = `as of ${new Date().toLocaleTimeString()}`;
    document.body.dataset.drawn = picture ? (picture.generation ?? "observed") : "none";
  } catch {
    $("when").textContent = "no answer from the process";
  }
}

addEventListener("hashchange", draw);
draw();
setInterval(draw, REFRESH_MS);
