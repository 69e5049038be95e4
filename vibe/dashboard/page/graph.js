// Draws the plan: a box per step, or a cell if many share one; if narrow, an outline.
import { $, WORD, become, count, cut, draw, figure, h, inList, inWords, list, mark, s, seconds, tick, tone,
  words } from "./words.js";
import { counts, itemsOf, step, steps, tables, ui } from "./rows.js";

const LEAST = 0.7, MOST = 1.25, BOX = 196, CELL = 9;
const nodes = new Map(), edges = new Map(), lines = new Map(), groups = new Map(), stale = new Set();
let drawn = null;
export const isNarrow = () => innerWidth < 760;

export function showGraph(keys) {
  const layout = tables.run.get("layout");
  if (layout !== drawn || keys.has("layout")) drawAll(layout);
  if (keys.has("all") || keys.has("layout")) {
    showOutline();
    for (const [id, row] of steps()) paint(id, row);
  } else for (const key of keys) if (key.startsWith("step:")) paint(key.slice(5), step(key.slice(5)));
  for (const one of stale) recount(groups.get(one));
  stale.clear();
}

function drawAll(layout) {
  const dag = $("#dag");
  for (const map of [nodes, edges, groups, stale]) map.clear();
  dag.replaceChildren();
  if (!(drawn = layout)?.boxes) return;
  dag.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
  for (const [, to, d] of layout.edges ?? []) {
    const edge = s("path.edge", { d });
    edges.set(to, [...(edges.get(to) ?? []), edge]);
    dag.append(edge);
  }
  for (const [id, box] of Object.entries(layout.boxes)) {
    const node = box[4] ? drawGroup(id, box) : s("g");
    if (!box[4]) nodes.set(id, { node });
    dag.append(node);
  }
  fit();
}

/** The box of a step or group, with contents. */
const boxOf = (id, attributes, ...parts) => {
  const [x, y, width, height] = drawn.boxes[id];
  return s("g", { ...attributes, transform: `translate(${x} ${y})`, tabindex: 0, role: "button" },
    s("rect.box", { width, height }), parts);
};

/** The first step of a box that isn't completed. */
export function firstOf(group) {
  const { members } = groups.get(group);
  return members.find((id) => step(id)?.status !== "completed") ?? members[0];
}

function stepBox(id, row) {
  const at = { cx: 19, cy: 20, r: 8 }, name = `${id}: ${row.title}`, checks = row.checks ?? [],
    red = checks.filter((one) => one[1] === "failed").length, isNew = ui.fresh.has(id);
  return boxOf(id, { "data-step": id, "data-status": row.status, class: classesOf(id, row), "aria-label": list(name,
    statusWords(row), row.status !== "in_progress" && row.doing, row.items && itemWords(row.items),
    red && `${count(red, "check")} red`, isNew && "new") },
  s("title", name), s("circle.dot", at), s("circle.spin", { ...at, "stroke-dasharray": "14 40" }),
  s("text.gl", { x: 19, y: 20.5 }, mark(statusOf(row))), s("text.id", { x: 34, y: 24.5 }, cut(id, 17)),
  s("svg", { width: BOX - 6 }, s("text.ti", { x: 12, y: 41 }, cut(row.title ?? "", 29)),
    s("text.ln", { x: 12, y: 55 }, cut(doing(row), 33))), s("g", checks.slice(0, 6).map(([, status], at) =>
    s("rect.pip." + tone(status), { x: BOX - 20 - at * 11, y: 16, width: 8, height: 8 }))));
}

function drawGroup(id, [, , width, , members]) {
  const columns = Math.floor((width - 24) / CELL), label = s("text.ln", { x: 12, y: 22 });
  const node = boxOf(id, { "data-group": id }, s("svg", { width: width - 6 }, label), members.map((member, at) => {
    const cell = s("rect", { "data-step": member, x: 12 + (at % columns) * CELL,
      y: 33 + Math.floor(at / columns) * CELL, width: 7, height: 7 });
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
}

const isDim = (id, row) => !`${id} ${row.title} ${WORD[row.status]}`.toLowerCase().includes(ui.find);
const toneOf = (status) => tone(status) || (WORD[status] === "to do" ? "todo" : status);
const classesOf = (id, row) => [toneOf(statusOf(row)), isDim(id, row) && "dimmed", id === ui.step && "selected",
  ui.fresh.has(id) && "fresh"].filter(Boolean).join(" ");

function paint(id, row) {
  const { node, group } = nodes.get(id) ?? {}, { status } = row ?? {}, line = lines.get(id);
  if (!row) return;
  const name = ui.fresh.has(id) ? id + ", new" : id;
  if (line) become(line, Object.assign(lineOf(id, name, row), { hidden: isDim(id, row) }));
  if (!node) return;
  const isSame = node.dataset.status === status;
  if (!group) become(node, stepBox(id, row));
  else node.setAttribute("class", "cell " + classesOf(id, row)), node.setAttribute("data-status", status);
  if (isSame) return;
  for (const edge of edges.get(group ?? id) ?? []) edge.setAttribute("class", "edge " + tone(status));
  if (group) stale.add(group);
}

function recount({ node, members, label }) {
  const all = counts(members.map((id) => [id, step(id) ?? {}]));
  label.textContent = itemWords(all);
  node.setAttribute("aria-label", `${count(members.length, "step")}: ${inList(all)}`);
}

/** The status a step is shown with: that of its items while these are at work. */
export const statusOf = ({ asks, items, status }) => (asks || items?.needs_decision ? "needs_decision"
  : items?.in_progress ? "in_progress" : status);
export const statusWords = (row) => (row.asks ? "waits for you" : WORD[statusOf(row)])
  + (row.tolerated ? ", tolerated" : "");

/** Count the steps of a list or box: `34/120 2 failed 8 running`. */
function itemWords(items) {
  const some = inWords(items, ["failed", "in_progress", "needs_decision", "skipped", "cancelled"]);
  const total = Object.values(items).reduce((sum, one) => sum + one, 0);
  return [`${items.completed ?? 0}/${total}`, ...some.map(([, text]) => text)].join(" ");
}

/** One line: what a step does now, or its result. */
function doing(row) {
  if (row.asks) return row.status === "needs_decision" ? "waits for a decision" : "waits for your answer";
  if (row.items) return itemWords(row.items);
  if (row.doing || row.status === "in_progress") return row.doing || "running";
  return words(row.duration_s != null && row.status !== "pending" && seconds(row.duration_s), row.tokens
    && figure(row.tokens) + " tok",
    row.attempt > 1 && `attempt ${row.attempt}`, row.tolerated && "tolerated", row.reused && "done before",
      row.worktree?.status)
    || (WORD[row.status] === "to do" ? row.mode ?? "" : WORD[row.status]);
}

function showOutline() {
  lines.clear();
  if (isNarrow()) for (const id of itemsOf()) lines.set(id, h("button"));
  $("#outline").replaceChildren(...lines.values());
}

/** A line about a step: its mark, name, activity or result, and a mark per check. */
export const lineOf = (id, name, row) => h("button.line",
  { "data-line": id, "data-key": id, "data-open": id }, tick(statusOf(row)), h("div", h("b", name), h("p", doing(row))),
  h("span", (row.checks ?? []).map((one) => mark(one[1])).join("")));
export const showLegend = (all = counts()) => draw($("#legend"), inWords(all).map(([one, text]) =>
  h("span", { "data-key": one }, h("i.s-" + one), text)), [...ui.removed].map((id) => h("button.link",
  { "data-key": id, title: "seen", onclick: () => (ui.removed.delete(id), showLegend()) }, `${id} was removed`)));

export const reveal = (id) => (lines.get(id) ?? nodes.get(id)?.node)?.scrollIntoView({ block: "nearest" });
