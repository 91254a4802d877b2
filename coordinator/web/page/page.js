// Draws what /api/groups says. Text goes in as text only: names are chosen by clients.
"use strict";

const REFRESH_MS = 3000;
const FAR_RECORDS = 10000; // Kafka's default of acceptable.recovery.lag
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
    const text = group ? `${group.group}: ${group.mode}, ${group.state}. This process has led no round of it yet.` : "No groups.";
    $("summary").replaceChildren(make("p", {}, text));
    return;
  }
  const facts = make("dl", {},
    fact("generation", picture.generation), fact("protocol", picture.protocol), fact("policy", picture.policy),
    fact(picture.kind === "streams" ? "tasks" : "partitions", picture.total),
    fact("from another rack", picture.cross_rack), fact("without an owner", picture.unowned),
    fact("kept", picture.kept), fact("moved", picture.moved), fact("new", picture.new), fact("next round", picture.withheld),
    fact("plan", `${picture.took_ms.plan} ms`),
  );
  const notes = picture.warnings.map((text) => make("p", { className: "warning" }, text));
  $("summary").replaceChildren(make("p", { id: "cause" }, picture.cause), facts, ...notes);
}

function drawHolder(holder) {
  const items = holder.items.map((item) => {
    const lag = item.lag === null ? "" : `, ${item.lag} records behind`;
    const later = item.withheld ? ", handed out next round" : "";
    const square = make("i", { className: `item ${item.state}${item.withheld ? " withheld" : ""}`, title: `${item.name}: ${item.state}${lag}${later}` });
    square.dataset.item = item.name;
    if (item.lag !== null) {
      square.dataset.lag = item.lag;
      square.dataset.behind = item.lag >= FAR_RECORDS ? "far" : item.lag > 0 ? "near" : "no";
    }
    return square;
  });
  const count = `${holder.items.length} held` + (holder.members.length > 1 ? `, ${holder.members.length} threads` : "");
  const card = make("div", { className: "holder", title: holder.name },
    make("strong", {}, short(holder.name)), make("small", {}, holder.degraded ?? count), make("div", { className: "items" }, ...items));
  card.dataset.holder = holder.name;
  return card;
}

function drawRacks(picture) {
  const racks = [...picture.racks, ...(picture.holders.some((h) => !h.rack) ? [null] : [])];
  $("racks").replaceChildren(
    ...racks.map((rack) => {
      const inside = picture.holders.filter((holder) => (holder.rack || null) === rack);
      const box = make("div", { className: "rack" }, make("h2", {}, rack ?? "no rack"), ...inside.map(drawHolder));
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
  $("moves").replaceChildren(...table("Moves", ["what", "from", "to", "why"], moves), ...table("Stages", ["stage", "taken", "reason"], stages));
  const rounds = lines.filter((line) => line.group === chosen()).map((line) =>
    [time(line.decided_at_ms), line.generation, line.cause, line.kept, line.moved, line.new, `${line.plan_ms} ms`]);
  $("history").replaceChildren(...table("Rounds", ["when", "generation", "why", "kept", "moved", "new", "plan"], rounds));
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
    document.body.dataset.drawn = picture ? picture.generation : "none";
  } catch {
    $("when").textContent = "no answer from the process";
  }
}

addEventListener("hashchange", draw);
draw();
setInterval(draw, REFRESH_MS);
