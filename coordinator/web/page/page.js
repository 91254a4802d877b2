// Asks again and again, draws what has changed, and follows the address: #GROUP, #GROUP/SECTION, ?q=WORDS.
import { group } from "./group.js";
import { overview } from "./overview.js";

const REFRESH_MS = 3000;
const $ = (id) => document.getElementById(id);
const texts = new Map(); // by path, the answer before, so that what has not changed is not drawn again
let data = {};
let filter = "";
let jumped = "";

function route() {
  const [name = "", section = ""] = location.hash.slice(1).split("/");
  return { name: decodeURIComponent(name), section };
}

const query = () => new URLSearchParams(location.search).get("q") ?? "";

// The answer, null where there is none; `changed` as against the one before.
async function get(path) {
  const answer = await fetch(path);
  const text = answer.ok ? await answer.text() : "null";
  const changed = texts.get(path) !== text;
  texts.set(path, text);
  return { changed, value: changed ? JSON.parse(text) : data[path] };
}

async function refresh() {
  const began = performance.now();
  const { name } = route();
  const wanted = encodeURIComponent(name);
  const paths = name ? [`api/overview/${wanted}`, `api/groups/${wanted}`, "decisions"] : ["api/overview"];
  try {
    const found = await Promise.all(paths.map(get));
    if (route().name !== name) return;
    const changed = found.some((one) => one.changed) || !paths.every((path) => path in data);
    for (const path of texts.keys()) if (!paths.includes(path)) texts.delete(path);
    data = Object.fromEntries(paths.map((path, i) => [path, found[i].value]));
    $("when").textContent = `as of ${new Date().toLocaleTimeString()}`;
    if (changed || document.body.dataset.view !== location.hash) draw(began);
  } catch {
    $("when").textContent = "no answer from the process";
  }
}

function draw(began = performance.now()) {
  const { name } = route();
  const values = Object.values(data);
  keepingFocus(() => $("main").replaceChildren(...(name ? oneGroup(name, values) : overview(values[0] ?? [], query()))));
  document.title = name ? `${name} · Bellwether` : "Bellwether";
  document.body.dataset.view = location.hash;
  document.body.dataset.drawn = name ? (values[1] ? (values[1].generation ?? "observed") : "none") : "overview";
  document.body.getBoundingClientRect(); // layout counts
  document.body.dataset.tookMs = (performance.now() - began).toFixed(1);
  jump();
}

function oneGroup(name, [rows, picture, lines]) {
  const row = rows?.[0];
  if (row) return group(row, picture, lines ?? [], filter);
  const back = Object.assign(document.createElement("a"), { href: "#", id: "back", textContent: "All groups" });
  const text = Object.assign(document.createElement("p"), { id: "nothing", textContent: `This process neither leads nor observes a group ${name}.` });
  return [back, text];
}

// What is drawn anew is another element with the same id.
function keepingFocus(change) {
  const before = document.activeElement;
  const [id, from, to] = [before?.id, before?.selectionStart, before?.selectionEnd];
  change();
  const after = id && document.activeElement?.id !== id && $(id);
  if (!after) return;
  after.focus({ preventScroll: true });
  if (from !== undefined && from !== null) after.setSelectionRange(from, to);
}

// Once for each address; later changes leave the scroll where it is.
function jump() {
  const { section } = route();
  if (jumped === location.hash) return;
  jumped = location.hash;
  if (section) $(section)?.scrollIntoView();
  else scrollTo(0, 0);
}

function search(words) {
  const address = new URL(location.href);
  if (words) address.searchParams.set("q", words);
  else address.searchParams.delete("q");
  address.hash = "";
  const shown = route().name;
  history.replaceState(null, "", address);
  if (shown) refresh();
  else draw();
}

function step(by) {
  const links = [...document.querySelectorAll("a.group")];
  const at = links.indexOf(document.activeElement);
  if (at + by < 0) $("search").focus();
  else links[Math.min(links.length - 1, at + by)]?.focus();
}

const typing = () => document.activeElement instanceof HTMLInputElement;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const act = {
    "/": () => !typing() && ($("search").focus(), $("search").select(), true),
    ArrowDown: () => !route().name && (step(1), true),
    ArrowUp: () => !route().name && (step(-1), true),
    Enter: () => document.activeElement === $("search") && document.querySelector("a.group") && (document.querySelector("a.group").click(), true),
    Escape: () => {
      if (document.activeElement === $("search") && $("search").value) ($("search").value = ""), search("");
      else if (typing()) document.activeElement.blur();
      else if (route().name) location.hash = "";
      return true;
    },
  }[event.key];
  if (act?.()) event.preventDefault();
}

$("search").value = query();
$("search").addEventListener("input", () => search($("search").value.trim()));
addEventListener("keydown", onKey);
addEventListener("again", () => draw());
addEventListener("filter", (event) => {
  filter = event.detail;
  draw();
});
addEventListener("hashchange", () => {
  if (!location.hash.startsWith(document.body.dataset.view?.split("/")[0] || "#\0")) filter = "";
  refresh();
});
refresh();
setInterval(() => document.hidden || refresh(), REFRESH_MS);
