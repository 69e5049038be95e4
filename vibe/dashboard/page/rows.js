// Holds the rows that the server sends, reads their stream, and computes them for an earlier time.
import { by } from "./words.js";

export const tables = { board: new Map(), run: new Map(), step: new Map() };
export const ui = { run: "", step: "", tab: "graph", of: "transcript", find: "", at: null, control: false,
  fresh: new Set(), removed: new Set(), others: new Map() };
const then = new Map(), SILENT_MS = 40_000;
let dirty = new Set(), isQueued = false, last = "", open = null, skew = 0, sorted = null, show = null, report = null,
  gone = "", refused = "", asking = null, silence = 0;

export const clock = () => Date.now() / 1000 + skew;
export const head = () => tables.run.get("head");
export const isPast = () => ui.at != null;
export const mayAct = () => ui.control && !isPast();
/** Whether the open run still exists: it may be deleted meanwhile. */
export const isListed = () => tables.board.has(ui.run);
export const isLive = () => !isPast() && isListed() && !!head()?.live;
export const isRun = () => isLive() && head().kind === "plan";
export const onRows = (rows, state) => ([show, report] = [rows, state]);

export function changed(...keys) {
  for (const key of keys) dirty.add(key);
  if (isQueued) return;
  isQueued = true;
  const now = () => {
    const keys = dirty;
    [dirty, isQueued, asking] = [new Set(), false, null];
    then.clear();
    if (keys.size) show(keys);
  };
  setTimeout(now, 500);  // a hidden page has no frames
  requestAnimationFrame(now);
}

function merge({ table: name, whole, gone: removed = [], set = {}, append = {} }) {
  const table = tables[name], isBegun = !whole && stepIds().length;
  const mark = (key) => dirty.add(name === "board" ? name : key);
  if (whole) table.clear(), (table.isRead = true), dirty.add({ board: "board", run: "all", step: "entries" }[name]);
  const isPlanned = (key, row) => key.startsWith("step:") && !row?.order?.pattern;
  for (const key of removed) {
    if (isPlanned(key, table.get(key))) ui.removed.add(key.slice(5));
    if (table.delete(key)) mark(key);
  }
  for (const [key, fields] of Object.entries(set)) {
    const row = table.get(key) ?? {};
    if (isBegun && !table.has(key) && isPlanned(key, fields)) ui.fresh.add(key.slice(5));
    ui.removed.delete(key.slice(5));
    table.set(key, Object.assign(row, fields));
    for (const field in fields) if (fields[field] === null) delete row[field];
    mark(key);
  }
  for (const [key, text] of Object.entries(append)) {
    const row = table.get(key);
    if (row) row.text = (row.text ?? "") + text;
    mark(key);
  }
  if (whole || removed.length || Object.values(set).some((fields) => "n" in fields)) sorted = null;
}

/** Apply an event. Its id counts only once all its patches do. */
function frame(text) {
  const { event, id, data } = Object.fromEntries([...text.matchAll(/^(\w+): (.*)$/gm)].map(([, ...pair]) => pair));
  const message = data && JSON.parse(data);
  if (event === "now") {
    skew = message.now - Date.now() / 1000;
    if (ui.control !== message.control) dirty.add("all");
    ui.control = message.control;
  } else message?.forEach(merge);
  last = id ?? last;
  if (gone && isListed()) gone = "", setTimeout(connect, 500);  // it was not known yet
  changed();
}

const authorization = () => ({ Authorization: "Bearer " + sessionStorage.vibe });

/** Connect again if nothing more is heard: a lost network may fail without an error. */
function listen() {
  clearTimeout(silence);
  silence = setTimeout(() => (report("off", "reconnecting"), connect()), SILENT_MS);
}

/** Read the stream of the open run and step, reconnecting until the next call. */
export async function connect() {
  disconnect();
  const mine = (open = new AbortController());
  gone = "";
  for (let tries = 0; open === mine; tries++) {
    let why = tries < 8 ? "reconnecting" : "no answer: it may have ended";
    try {
      listen();
      const query = new URLSearchParams({ run: gone ? "" : ui.run, step: ui.step, after: last });
      const reply = await fetch("api/stream?" + query, { headers: authorization(), signal: mine.signal,
        cache: "no-store" });
      if (reply.status === 401) return disconnect(), report("off", "open the link that vibe printed");
      if (reply.status === 404 && !gone && (gone = ui.run)) continue;  // the list, at least
      if (!reply.ok) throw (why = (await reply.json()).message);
      report(gone ? "off" : refused ? "bad" : "on", gone ? "no such run" : refused || "live");
      if (tries) dirty.add("all");
      tries = 0;
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", read; !(read = await reader.read()).done;) {
        listen();
        const parts = (rest + read.value).split("\n\n");
        rest = parts.pop();
        parts.forEach(frame);
      }
    } catch {
      if (mine.signal.aborted) return;
    }
    report("off", why);
    await new Promise((done) => setTimeout(done, Math.min(5000, 250 * 2 ** tries)));
  }
}
export const disconnect = () => (clearTimeout(silence), open?.abort(), (open = null));

/** A unique id. Plain HTTP by another name lacks `crypto.randomUUID`. */
export const newId = () => `${Date.now()} ${Math.random()}`;

/** Ask the server. Return its answer, and `ok`. */
export async function ask(path, body) {
  const post = body && { method: "POST", body: JSON.stringify({ command_id: newId(), ...body }) };
  const headers = { ...authorization(), ...(body && { "Content-Type": "application/json" }) };
  try {
    const reply = await fetch(path, { ...post, headers, cache: "no-store", signal: AbortSignal.timeout(SILENT_MS) });
    return { message: `the server says ${reply.status}`, ...(await reply.json().catch(() => ({}))), ok: reply.ok };
  } catch {
    return { ok: false, message: "the server can't be reached" };
  }
}
const path = (...parts) => "api/runs/" + [ui.run, ...parts].map(encodeURIComponent).join("/");
export const stepPath = (...parts) => path("steps", ui.step, ...parts);
export async function command(type, fields = {}) {
  const reply = await ask(path("commands"), { type, ...fields });
  refused = reply.error ? reply.message : "";
  report(...(reply.ok ? ["on", "live"] : ["bad", reply.message]));
  return reply.ok;
}

export const rowsOf = (prefix, table = tables.run) => [...table].filter(([key]) => key.startsWith(prefix))
  .map(([key, row]) => [key.slice(prefix.length), row]);
function sort() {
  const rows = rowsOf("step:").sort(by((row) => row.n ?? 0)), lists = new Map();
  for (const [id, { order: { pattern = "" } = {} }] of rows) {
    if (!lists.get(pattern)?.push(id)) lists.set(pattern, [id]);
  }
  return { ids: rows.map(([id]) => id), lists };
}
export const stepIds = () => (sorted ??= sort()).ids;
/** The steps made for a list's items, or those of the plan itself. */
export const itemsOf = (id = "") => (stepIds(), sorted.lists.get(id) ?? []);
export const steps = () => stepIds().map((id) => [id, step(id)]);
/** All changes of steps' statuses, at whatever time, each with the time of the next. */
export const changes = () => stepIds().flatMap((id) => (tables.run.get("step:" + id)?.history ?? []).map(
  ([ts, status], at, all) => ({ ts, status, next: all[at + 1]?.[0] })));
const ENDED = ["completed", "failed", "skipped", "cancelled"], PLANNED = "n title mode depends_on order max_tokens",
  FINAL = "why tolerated tokens cost_usd files worktree worker summary duration_s",
  BEGUN = "n kind ts tool words command purpose";
const only = (row, names) => Object.fromEntries(names.split(" ").map((name) => [name, row[name]]));
export const hasEnded = (row) => ENDED.includes(row?.status);

/** A step as it was at the viewed time, without anything that came later. */
export function step(id) {
  const row = tables.run.get("step:" + id);
  if (!row || !isPast()) return row;
  if (!then.has(id)) then.set(id, before(id, row));
  return then.get(id);
}

function before(id, row) {
  const all = row.history ?? [], history = all.filter(([time]) => time <= ui.at),
    [, status = "pending", attempt] = history.at(-1) ?? [];
  const checks = (row.checks ?? []).map((one) => (one[5] != null && one[5] <= ui.at ? one
    : [one[0], one[7].some((time) => time <= ui.at) ? "failed" : "none", 0, 0, 0, null, "", one[7]]));
  asking ??= new Set(requests().map(([, one]) => one.step));
  const asks = asking.has(id), isOver = history.length === all.length && hasEnded(row);
  const made = row.items ? itemsOf(id).map((one) => [one, step(one)]) : [];
  const items = made.some(([, one]) => one.history.length) ? counts(made) : undefined;
  return { ...only(row, PLANNED), ...(isOver && only(row, FINAL)), history, checks, status, attempt, asks, items };
}

export const byAge = by((row) => row.asked_at);
/** The requests that were open at the viewed time. */
export function requests() {
  const at = ui.at ?? Infinity;
  return asked().filter(([, row]) => row.asked_at <= at && !(row.answered_at <= at));
}

export function counts(list = isPast() && steps()) {
  const all = list ? {} : { ...head()?.counts };
  for (const [, row] of list || []) all[row.status] = (all[row.status] ?? 0) + 1;
  const { blocked = 0, pending = 0, ...rest } = all;
  return { ...rest, pending: pending + blocked };
}

/** All requests of the run, answered or open. */
export const asked = () => [...rowsOf("answered:"), ...rowsOf("request:")];

/** The seconds until a time in which anything waited for a person. */
export function waitedUntil(until) {
  let [sum, last] = [0, 0];
  for (const [, row] of asked().sort(byAge)) {
    const end = Math.min(until, row.answered_at ?? until);
    sum += Math.max(0, end - Math.max(last, row.asked_at));
    last = Math.max(last, end);
  }
  return sum;
}

/** The entries of the open step up to the viewed time; a call that ran then has no outcome yet. */
export function entries() {
  const at = ui.at ?? Infinity, isLater = (row) => row.kind === "call" && row.ts + (row.duration_s ?? 0) > at;
  return rowsOf("entry:", tables.step).filter(([, row]) => row.ts <= at)
    .map(([key, row]) => [key, isLater(row) ? { ...only(row, BEGUN), status: "running" } : row])
    .sort(by((row) => row.n)).sort(by((row) => row.ts));
}

export function forget() {
  for (const one of [tables.run, ui.fresh, ui.removed]) one.clear();
  [sorted, refused, tables.step] = [null, "", new Map()];
}
