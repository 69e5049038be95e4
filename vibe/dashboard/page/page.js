// The page: the list of runs, a run's head, the open panes, keys, and notifications.
import { $, $$, act, age, bar, by, count, cut, draw, figure, h, money, pill, plain, s, seconds, sure, tabs,
  tone } from "./words.js";
import { ask, changed, clock, command, connect, counts, disconnect, forget, head, isListed, isLive, isPast, isRun,
  itemsOf, mayAct, onRows, step, stepIds, tables, ui, waitedUntil } from "./rows.js";
import { firstOf, fit, isNarrow, reveal, showGraph, showLegend } from "./graph.js";
import { scale, showChanges, showLog, showTimeline } from "./timeline.js";
import { showStep, showTalk } from "./step.js";
import { focusNext, showClocks, showInbox, waiting } from "./inbox.js";
import { byChange, play, showReplay, stop, toLive } from "./replay.js";

const EARLIER = 50, MOST_HITS = 30, REST_MS = 10_000, STUCK = 600, SLOW = 120, RATE_OVER = 180,
  READ_ONLY = "this page only looks: start it with --control";
const LABELS = { graph: "Graph", timeline: "Timeline", changes: "Changes", log: "Log" };
const PANES = { runs: "Runs", run: "Plan", inbox: "Inbox", step: "Step" }, body = document.body;
const KEYS = { "j k": "next, previous step", Enter: "open it", "g t c l": "graph, timeline, changes, log",
  w: "next thing that waits", "1 2 3 n": "answer it", "/": "find",
  "[ ]": "previous, next run", Space: "play", ", .": "one change back, on", Esc: "live, close", "?": "all keys" };
let hits = [], elsewhere = "", timers = {}, bell = null, isBack = false;
const later = (name, ms, does) => (clearTimeout(timers[name]), (timers[name] = setTimeout(does, ms)));

function show(keys) {
  const [first] = listed();
  if (first && !ui.run) return openRun(first[0]);
  const some = (...starts) => keys.has("all") || [...keys].some((key) => starts.some((one) => key.startsWith(one))),
    row = head();
  body.dataset.kind = row?.kind ?? "plan";
  body.toggleAttribute("data-lost", row?.status === "lost");
  if (some("board")) showRuns(), lookElsewhere();
  if (some("head", "request:", "board")) showHead(row);
  if (some("board", "head", "request:", "answered:")) showInbox(), showClocks(), showTitle();
  if (row && row.kind !== "plan" && some("head", "entr", "agent:")) showTalk(keys);
  if (row?.kind !== "conversation") showPlan(keys, some);
  else if (ui.step) ui.step = "", connect();
  permit();
  notify();
}

/** Enable actions only while the page may act. */
function permit() {
  for (const one of $$(".act")) Object.assign(one, { disabled: !mayAct(), title: ui.control ? "" : READ_ONLY });
  for (const one of $$(".readonly")) one.textContent = ui.control ? "" : READ_ONLY;
}

function showPlan(keys, some) {
  if (some("head", "step:")) showLegend();
  if (ui.tab === "graph") showGraph(keys);
  if (ui.tab === "timeline" && some("step:", "timeline", "answered:", "request:", "entr")) showTimeline();
  if (ui.tab === "log" && some("note:", "answered:", "step:")) showLog();
  if (ui.tab === "changes" && some("step:")) showChanges();
  if (some("step:" + ui.step, "entr", "agent:", "tab")) showStep(keys);
  if (some("head", "step:")) showReplay(some("step:"));
}

/** Why the page isn't live, or why a command was refused; blank if all is well. */
const trouble = () => ($("#conn").className === "on" ? "" : $("#conn").textContent);
const isAsking = (row) => row.live && row.requests > 0, rank = (row) => (isAsking(row) ? 0 : row.live ? 1 : 2);
const listed = () => [...tables.board].filter(([id, row]) =>
  `${row.title} ${id} ${row.folder} ${row.status}`.toLowerCase().includes(ui.find))
  .sort(by((row) => -(row.started_at ?? 0))).sort(by(rank));

function showRuns() {
  const all = listed(), found = ui.find.length > 2 ? hits : [];
  draw($("#runlist"), ["Waiting for you", "Running", "Earlier"].map((name, at) => {
    const list = all.filter(([, row]) => rank(row) === at).slice(0, at === 2 ? EARLIER : Infinity);
    return list[0] && [h("h2", { "data-key": name }, name), list.map(runOf)];
  }), found[0] && h("h2", "Inside"), found.map((hit) => h("button.run", { "data-open": hit.step, "data-run": hit.run },
    h("b", hit.line), h("span.meta", h("span", hit.step), h("span", tables.board.get(hit.run)?.title)))),
    !all[0] && !found[0] && h("p.empty", ui.find ? "No run is called so." : trouble() || "No run yet."));
}

function runOf([id, row]) {
  const status = isAsking(row) ? pill("ask", `${row.requests} waiting`) : h("span." + tone(row.status), row.live
    && row.total ? `${row.done ?? 0}/${row.total}` : row.status);
  return h("button.run", { "data-run": id, "data-key": id, "aria-current": id === ui.run },
    h("b", row.title || id), row.total && bar("segs", row.counts ?? {}, row.total),
    row.status === "lost" && h("span.why", row.reason), h("span.meta", status, h("span", { title: row.folder },
      row.folder?.split("/").pop()), h("span", row.started_at && age(clock() - (row.ended_at ?? row.started_at)))));
}

/** Fetch the requests of other runs when the list says they changed. */
async function lookElsewhere() {
  const key = [...tables.board].filter(([id, row]) => id !== ui.run && isAsking(row)).map(([id, row]) =>
    `${id} ${row.requests}`).join();
  if (key === elsewhere) return;
  elsewhere = key;
  const { requests = {} } = key ? await ask("api/runs") : {};
  ui.others = new Map(Object.entries(requests).filter(([, row]) => row.run !== ui.run));
  changed("request:");
}

function find({ target }) {
  const { value } = target;
  ui.find = value.toLowerCase();
  changed("all");
  if (value.length > 2) later("find", 300, async () => {
    const { hits: found = [] } = await ask("api/search?" + new URLSearchParams({ q: value }));
    if (target.value === value) hits = found.slice(0, MOST_HITS);
    changed("board");
  });
}

function showHead(row) {
  const box = $("#head"), asks = waiting().filter(([, one]) => (one.run ?? ui.run) === ui.run).length,
    isPlan = row?.kind === "plan";
  if (!row) return draw(box, h("h1", !tables.board.size ? trouble() || "No run yet" : isListed() ? "Reading the run"
    : "Choose a run"));
  const all = counts(), still = row.progress_at ? clock() - row.progress_at : 0, isActive = row.status === "active";
  const status = isPast() ? "replay" : !isListed() ? "deleted: this is what it was" : asks ? `${asks} waiting for you`
    : row.words ?? (isActive ? "running" : row.status);
  draw(box, h("div.top", h("button.menu", { onclick: () => drawer(true) }, "Runs"),
    h("h1", row.title || row.id), isRun() && h("div.acts",
    act("Pause", () => command("pause")),
    sure("Stop", () => command("cancel"), "no"))),
      h("div.sub", pill(isPast() ? "" : asks ? "ask" : tone(row.status), status),
    isLive() && !asks && isActive && still > SLOW && h("span." + (still > STUCK ? "amber" : ""),
      `last progress ${age(still)} ago`), isLive() && row.same_failure > 1 && h("span.bad",
      `the same failure ${row.same_failure} times`), innerWidth < 1120 && trouble()
      && h("span.bad", trouble()),
    row.problem && h("span.bad", row.problem), h("span.mono", row.folder), h("span", row.id), isPlan && h("a", {
    target: "_blank", rel: "opener", href: "report.html?" + new URLSearchParams({ run: ui.run }) }, "Report")),
    row.total && bar("progress", all, row.total),
      h("div.tiles", tiles(row, all, isPlan)));
}

function tiles(row, all, isPlan) {
  const isThen = isPast(), until = isThen ? ui.at : row.ended_at ?? clock(),
    samples = (row.samples ?? []).filter(([time]) => time <= until + .1), [, spent, paid] = isThen
    ? samples.at(-1) ?? [0, 0] : [0, row.tokens, row.cost_usd];
  const then = isThen && stepIds().flatMap((id) => step(id).checks),
    made = (status) => then.filter((one) => one[1] === status).length, [passed, failed, checks] = then
    ? [made("passed"), made("failed"), then.length] : row.checks ?? [0, 0, 0];
  const waited = Math.max(waitedUntil(until), (!isThen && row.waited_s) || 0),
    recent = samples.filter(([time, , cost]) => until - time < RATE_OVER && cost != null);
  const rate = recent.length > 1 && ((recent.at(-1)[2] - recent[0][2]) / Math.max(10, until - recent[0][0])) * 60;
  const tile = (name, value, words, more) => h("div.tile", { "data-figure": name, "data-key": name }, h("b", value),
    h("span", words), more);
  return [isPlan && [tile("steps", `${(isThen ? all.completed : row.done) ?? 0} / ${row.total ?? 0}`,
    all.in_progress && row.live ? `steps, ${all.in_progress} running` : "steps"),
    tile("checks", checks ? [h("span.done", `${passed} ✓`), failed > 0 && h("span.bad", ` ${failed} ✗`)] : "–",
      checks ? `of ${count(checks, "check")}` : "checks")], tile("tokens", figure(spent ?? 0),
      row.max_tokens ? `of ${figure(row.max_tokens)} tokens` : "tokens", row.max_tokens
      && h("progress", { value: (spent ?? 0) / row.max_tokens, "aria-label": "of the budget" })),
  tile("cost", money(paid), rate > 0 ? `${money(rate)} a minute` : isThen ? "cost"
    : count(row.calls ?? 0, "model call")),
    tile("time", row.started_at ? seconds(Math.max(0, until - (isThen ? scale().from : row.started_at))) : "–",
    waited >= 1 ? `${seconds(waited)} waited for you` : row.ended_at ? "in all" : "so far"),
  samples.length > 2 && curve(samples)];
}

function curve(samples) {
  const from = samples[0][0], length = samples.at(-1)[0] - from || 1, most = samples.at(-1)[1] || 1;
  const d = samples.map(([time, tokens]) =>
    `${(((time - from) / length) * 118 + 1).toFixed(1)} ${(32 - (tokens / most) * 29).toFixed(1)}`).join("L");
  return s("svg.curve", { viewBox: "0 0 120 34", role: "img", "aria-label": "tokens over time" },
    s("path.area", { d: `M${d}V34H1Z` }), s("path", { d: "M" + d }));
}

function openRun(id, stepId = "") {
  drawer(false);
  pane(stepId ? "step" : "run");
  if (id === ui.run) return stepId && openStep(stepId);
  stop();
  Object.assign(ui, { run: id, step: stepId, at: null });
  forget();
  elsewhere = "";
  for (const part of $$("#head, #inbox, #replay")) part.replaceChildren();
  remember();
  changed("all");
  connect();
}

function openStep(id, run = ui.run) {
  if (id == null || run !== ui.run) return openRun(run, id);
  pane(id ? "step" : "run");
  if (id === ui.step) return changed("tab");
  changed("entries", "step:" + ui.step, "step:" + id);
  ui.step = id;
  ui.fresh.delete(id);
  tables.step = new Map();
  remember();
  disconnect();
  later("step", 60, connect);
}

/** Open the run or the step that was clicked, if any. */
function follow({ target }) {
  if (!target.closest("#runs, .menu")) drawer(false);
  const found = target.closest("[data-open], [data-run]:not(#talk), #dag [data-step], [data-group]")?.dataset;
  if (!found) return;
  const { open, step = open, group, run = ui.run, of } = found;
  if (of) ui.of = of;
  openStep(step ?? (group && firstOf(group)), run);
}

/** Keep the view in the address, for the browser's back. */
function remember() {
  const { run, step, tab } = ui, to = "?" + new URLSearchParams({ run, step, tab });
  if (location.href.endsWith("/" + to)) return;
  history[isBack || !/run=[^&]/.test(location.search) ? "replaceState" : "pushState"](null, "", to);
}

/** Show the view of the address. */
function visit() {
  const { run = "", step = "", tab } = Object.fromEntries(new URLSearchParams(location.search));
  isBack = true;
  openStep(step, run);
  openTab(Object.hasOwn(LABELS, tab) ? tab : "graph");
  isBack = false;
}

const pane = (name) => ((body.dataset.pane = name), showDock(), fit());

function drawer(isOpen) {
  body.toggleAttribute("data-drawer", isOpen);
  if (isOpen) $("#find").focus();
}

function showDock(asks = waiting().length) {
  draw($("#dock"), Object.entries(PANES).map(([name, label]) => h("button", { "data-pane": name,
    "aria-current": body.dataset.pane === name, onclick: () => pane(name) },
    name === "run" && body.dataset.kind === "conversation" ? "Talk" : label, name === "inbox" && asks > 0
    && [" ", h("span.badge", asks)])));
}

function openTab(name) {
  ui.tab = name;
  draw($("#tabs"), tabs(LABELS, name, openTab));
  for (const one in LABELS) $("#" + one).hidden = one !== name;
  remember();
  changed("all");
  fit();
}

const mark = fetch("mark.svg").then((reply) => reply.text());

async function showTitle() {
  const asks = waiting().length, dot = asks ? "<circle cx='25' cy='7' r='6' fill='#c77700'/>" : "";
  document.title = plain((asks ? `(${asks}) ` : "") + cut(head()?.title ?? "vibe", 100));
  showDock(asks);
  $("#icon").href = "data:image/svg+xml," + encodeURIComponent((await mark).replace("</svg>", dot + "</svg>"));
}

const notes = new Map(), going = new Set();

function announce(key, text) {
  if (notes.has(key)) return;
  notes.set(key, null);
  if (Date.now() - (localStorage.seen ?? 0) < 3000) return;
  notes.set(key, new Notification("vibe", { body: plain(text), tag: key, silent: !ui.sound }));
}

function notify() {
  const open = new Map(waiting()), title = (id) => cut(tables.board.get(id)?.title ?? id, 150);
  for (const [key, note] of notes) if (key.startsWith("? ") && !open.has(key.slice(2))) note?.close();
  if (!ui.rings) return;
  for (const [id, one] of open) announce("? " + id, `${title(one.run ?? ui.run)}: ${one.step ?? "it"} waits for you`);
  for (const [id, one] of tables.board) {
    if (one.live) going.add(id);
    else if (going.delete(id)) announce("! " + id + one.ended_at, `${title(id)}: ${one.status}`);
    if (one.live && !one.requests && clock() - one.progress_at > STUCK) announce("~ " + id + one.progress_at,
      `${title(id)}: no progress for 10 minutes`);
  }
}

const tell = (className, textContent) => (Object.assign($("#conn"), { className, textContent }), changed("board"));

async function ring() {
  const isOn = !bell && (await window.Notification?.requestPermission()) === "granted";
  if (!bell && !isOn) tell("bad", "the browser refuses: allow notifications for this page");
  bell?.abort();
  ui.rings = bell = null;
  $("#bell").ariaPressed = isOn;
  $("#sound").hidden = !isOn;
  if (!isOn) return;
  const { signal } = (bell = new AbortController());
  navigator.locks.request("vibe-notify", { signal }, () => new Promise((off) => {
    ui.rings = true;
    signal.onabort = off;
  })).catch(() => {});
}

function key(event) {
  const { target, key: pressed } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || $("#keys").open) return;
  if (target.matches("input:not([type=range], [type=checkbox]), textarea, select")) return pressed === "Escape"
    && target.blur();
  const onButton = target.closest("button, summary, [role=button], a, input, .card");
  const close = () => (body.hasAttribute("data-drawer") ? drawer(false) : isPast() ? toLive()
    : isNarrow() ? pane("run") : target.blur());
  const find = () => (isNarrow() ? pane("runs") : innerWidth < 1120 && drawer(true), $("#find").focus()),
    onStep = target.closest("#dag g"), enter = () => (onStep ? follow(event) : (pane("step"), $("#step").focus()));
  const tab = Object.keys(LABELS).find((name) => name[0] === pressed), does = tab ? () => openTab(tab)
    : { j: () => byStep(1), k: () => byStep(-1), "[": () => byRun(-1), "]": () => byRun(1), ",": () => byChange(-1),
      ".": () => byChange(1), "?": showKeys, Escape: close, "/": find, " ": onStep ? enter : !onButton && play,
      w: () => (isNarrow() && pane("inbox"), focusNext()),
      Enter: (onStep || (!onButton && ui.step)) && enter }[pressed];
  if (does) event.preventDefault(), does();
}

function byStep(way) {
  const ids = itemsOf(step(ui.step)?.order?.pattern), at = ids.indexOf(ui.step), id = ids[at < 0 ? 0 : at + way];
  const before = body.dataset.pane;
  if (id) openStep(id), isNarrow() && pane(before), reveal(id);
}

function byRun(way) {
  const ids = listed().map(([id]) => id), id = ids[ids.indexOf(ui.run) + way];
  if (id) openRun(id);
}

function showKeys() {
  draw($("#keys"), h("h2", "Keys"),
    h("dl", Object.entries(KEYS).map(([keys, text]) => [h("dt", keys.split(" ").map((one) => h("kbd", one))),
    h("dd", text)])), h("button", { onclick: () => $("#keys").close() }, "Close"));
  $("#keys").showModal();
}

function begin() {
  if (location.hash.length > 1) sessionStorage.vibe = location.hash.slice(1);
  for (const [id, label] of Object.entries(LABELS).slice(1)) {
    $("#stage").append(h("div.sheet", { id, role: "tabpanel", "aria-label": label, tabindex: 0 }));
  }
  onRows(show, tell);
  visit();
  $("#find").oninput = find;
  $("#keysbutton").onclick = showKeys;
  $("#bell").onclick = ring;
  $("#sound").onclick = ({ currentTarget }) => (currentTarget.ariaPressed = ui.sound = !ui.sound);
  addEventListener("popstate", visit);
  addEventListener("pagehide", disconnect);  // kept for "back"
  addEventListener("click", follow);
  addEventListener("keydown", key);
  addEventListener("beforeprint", () => (showGraph(new Set(["all"])), showChanges()));
  addEventListener("resize", () => (fit(), changed("all")));
  const rest = () => later("rest", REST_MS, () => ui.rings || disconnect());
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return rest();
    clearTimeout(timers.rest);
    connect();
  });
  if (document.hidden) rest();  // opened behind another tab
  setInterval(() => {
    if (!document.hidden && document.hasFocus()) localStorage.seen = Date.now();
    showClocks();
    if (isLive()) changed("head", "timeline");
  }, 1000);
  if (!ui.run) connect();
}
begin();
