// Draws the plan: a box per step, or a cell if many share one; on narrow pages an outline in plan order.
import { $, ORDER, WORD, count, cut, draw, figure, h, inWords, list, mark, plain, s, seconds, tick, tone,
  words } from "./words.js";
import { counts, itemsOf, step, steps, tables, ui } from "./rows.js";

const LEAST = 0.7, MOST = 1.25, BOX = 196, CELL = 9;
const nodes = new Map(), edges = new Map(), lines = new Map(), groups = new Map(), stale = new Set();
let drawn = null, timer = 0;
export const isNarrow = () => innerWidth < 760;

export function showGraph(keys) {
  const layout = tables.run.get("layout");
  if (layout !== drawn || keys.has("layout")) drawAll(layout);
  if (keys.has("all") || keys.has("layout")) {
    showOutline();
    for (const [id, row] of steps()) paint(id, row);
  } else for (const key of keys) if (key.startsWith("step:")) paint(key.slice(5), step(key.slice(5)));
}

function drawAll(layout) {
  const dag = $("#dag");
  for (const map of [nodes, edges, groups]) map.clear();
  dag.replaceChildren();
  if (!(drawn = layout)?.boxes) return;
  dag.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
  for (const [from, to, d] of layout.edges ?? []) {
    const edge = s("path.edge", { d, "data-from": from, "data-to": to });
    edges.set(to, [...(edges.get(to) ?? []), edge]);
    dag.append(edge);
  }
  for (const [id, [x, y, width, height, members]] of Object.entries(layout.boxes)) {
    const node = members ? drawGroup(id, width, height, members) : drawBox(id, width, height);
    node.setAttribute("transform", `translate(${x} ${y})`);
    dag.append(node);
  }
  fit();
}

/** The first step of a box that isn't completed. */
export function firstOf(group) {
  const { members } = groups.get(group);
  return members.find((id) => step(id)?.status !== "completed") ?? members[0];
}

function drawBox(id, width, height) {
  const text = (kind, x, y) => s("text." + kind, { x, y }), parts = { title: s("title"), mark: text("gl", 19, 20.5),
    name: text("ti", 12, 41), line: text("ln", 12, 55), checks: s("g") }, at = { cx: 19, cy: 20, r: 8 };
  const node = s("g", { "data-step": id, tabindex: 0, role: "button" }, parts.title,
    s("rect.box", { width, height }),
    s("circle.dot", at), s("circle.spin", { ...at, "stroke-dasharray": "14 40" }), parts.mark,
      s("text.id", { x: 34, y: 24.5 }, cut(id, 17)),
    s("svg", { width: width - 6 }, parts.name, parts.line), parts.checks);
  nodes.set(id, { node, parts });
  return node;
}

function drawGroup(id, width, height, members) {
  const columns = Math.floor((width - 24) / CELL), label = s("text.ln", { x: width - 12, y: 22, "text-anchor": "end" });
  const node = s("g", { "data-group": id, tabindex: 0, role: "button" }, s("rect.box", { width, height }),
    s("text.id", { x: 12, y: 22 }, count(members.length, "step")), label, members.map((member, at) => {
      const cell = s("rect.cell", { "data-step": member, x: 12 + (at % columns) * CELL,
        y: 33 + Math.floor(at / columns) * CELL,
        width: 7, height: 7 });
      nodes.set(member, { node: cell, group: id });
      return cell;
    }));
  groups.set(id, { node, members, label });
  return node;
}

/** Fit the drawing to its column as far as it stays readable; beyond that it scrolls. */
export function fit() {
  const sheet = $("#graph"), { width, height } = drawn ?? {};
  if (!width || !sheet.clientWidth) return;
  const scale = Math.min(MOST, Math.max(LEAST, Math.min((sheet.clientWidth - 26) / width,
    (sheet.clientHeight - 44) / height)));
  $("#dag").setAttribute("width", Math.round(width * scale));
  $("#dag").setAttribute("height", Math.round(height * scale));
}

const set = (element, text) => element.textContent !== text && (element.textContent = text);

function paint(id, row) {
  const { node, parts, group } = nodes.get(id) ?? {};
  if (!row) return;
  if (lines.has(id)) paintLine(id);
  if (!node) return;
  if (node.dataset.status !== row.status) {
    node.setAttribute("data-status", row.status);
    for (const edge of edges.get(group ?? id) ?? []) edge.setAttribute("data-now", row.status);
    if (group) recount(group);
  }
  node.classList.toggle("asks", !!(row.asks || row.items?.needs_decision));
  node.classList.toggle("working", !!row.items?.in_progress);
  node.classList.toggle("selected", id === ui.step);
  if (!parts) return;
  node.classList.toggle("fresh", ui.fresh.has(id));
  const checks = row.checks ?? [], red = checks.filter((one) => one[1] === "failed").length;
  node.setAttribute("aria-label", plain(list(`${id}: ${row.title}`, statusWords(row), row.items && itemWords(row.items),
    red && `${count(red, "check")} red`, ui.fresh.has(id) && "new")));
  set(parts.title, `${id}: ${row.title}`);
  set(parts.mark, row.asks ? "?" : mark(row.status));
  set(parts.name, cut(row.title ?? "", 29));
  set(parts.line, cut(doing(row), 33));
  draw(parts.checks, checks.slice(0, 6).map(([, status], at) =>
    s("rect.pip." + tone(status), { x: BOX - 20 - at * 11, y: 16, width: 8, height: 8 })));
}

function recount(group) {
  stale.add(group);
  timer ||= setTimeout(() => {
    timer = 0;
    for (const { node, members, label } of [...stale].map((id) => groups.get(id)).filter(Boolean)) {
      const all = counts(members.map((id) => [id, step(id) ?? {}]));
      set(label, inWords(all, ORDER.slice(0, 6)).map(([, text]) => text).join(", ") || "to do");
      node.setAttribute("aria-label", `${count(members.length, "step")}: ${label.textContent}`);
    }
    stale.clear();
  }, 200);
}

/** The status a step is shown with: that of its items while these are at work. */
export const statusOf = (row) => (row.asks ? "needs_decision" : row.items?.in_progress ? "in_progress" : row.status);
export const statusWords = (row) => (row.asks ? "waits for you" : WORD[statusOf(row)])
  + (row.tolerated ? ", tolerated" : "");

/** Count the steps of a list: `34/120 2 failed 8 running`. */
function itemWords(items) {
  const some = inWords(items, ["failed", "in_progress", "needs_decision", "skipped", "cancelled"]);
  const total = Object.values(items).reduce((sum, one) => sum + one, 0);
  return [`${items.completed ?? 0}/${total}`, ...some.map(([, text]) => text)].join(" ");
}

/** One line: what a step does now, or its result. */
function doing(row) {
  if (row.asks) return row.status === "needs_decision" ? "waits for a decision" : "waits for your answer";
  if (row.items) return itemWords(row.items);
  if (row.status === "in_progress") return row.doing || "running";
  const { for: what, steps: whose = [] } = row.waits ?? {};
  if (what && row.status === "pending") return "waits for "
    + (whose.length ? `${whose.join(", ")} (same file)` : `a ${what}`);
  return words(row.duration_s != null && row.status !== "pending" && seconds(row.duration_s), row.tokens
    && figure(row.tokens) + " tok",
    row.attempt > 1 && `attempt ${row.attempt}`, row.tolerated && "tolerated", row.reused && "done before",
      row.worktree?.status)
    || (row.status === "pending" || row.status === "blocked" ? row.mode ?? "" : WORD[row.status]);
}

function showOutline() {
  lines.clear();
  if (isNarrow()) for (const id of itemsOf()) lines.set(id, lineOf(id));
  $("#outline").replaceChildren(...lines.values());
}

/** A line about a step: its mark, name, activity or result, and a mark per check. */
export const lineOf = (id, name = id, row = step(id)) => h("button.line",
  { "data-line": id, "data-key": id, "data-open": id }, tick(statusOf(row)), h("div", h("b", name), h("p", doing(row))),
  h("span", (row.checks ?? []).map((one) => mark(one[1]) || "·").join("")));
const paintLine = (id) => draw(lines.get(id), ...lineOf(id, ui.fresh.has(id) ? id + ", new" : id).childNodes);

export const showLegend = (all = counts()) => draw($("#legend"), inWords(all).map(([one, text]) =>
  h("span", { "data-key": one }, h("i.s-" + one), text)), [...ui.removed].map((id) => h("button.link",
  { "data-key": id, title: "seen", onclick: () => (ui.removed.delete(id), showLegend()) }, `${id} was removed`)));

/** Dim the steps that don't match a searched text. */
export function dim(text) {
  const isNamed = (id) => !text || `${id} ${step(id)?.title} ${WORD[step(id)?.status]}`.toLowerCase().includes(text);
  for (const [id, { node }] of nodes) node.classList.toggle("dimmed", !isNamed(id));
  for (const [id, line] of lines) line.hidden = !isNamed(id);
}
export const reveal = (id) => (lines.get(id) ?? nodes.get(id)?.node)?.scrollIntoView({ block: "nearest",
  inline: "nearest" });
