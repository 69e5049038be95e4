// Shows the open step, and a conversation.
import { $, $$, WORD, act, by, clockTime, count, cut, draw, figure, h, list, money, onEnter, pill, seconds, sure, tabs,
  tick, tone, words } from "./words.js";
import { ask, changed, command, entries, hasEnded, head, isLive, isPast, isRun, itemsOf, rowsOf, step, stepPath,
  tables, ui } from "./rows.js";
import { showDiff, small } from "./diff.js";
import { lineOf, statusOf, statusWords } from "./graph.js";

const BUSY = ["streaming", "writing", "queued", "running"], OPEN = [...BUSY, "error", "denied"];
const NONE = "It printed nothing.", PAGE = 50;
let older = { of: "", rows: [] };

/** Update the pane of the open step. */
export function showStep(keys) {
  const box = $("#step"), row = ui.step && step(ui.step), isNew = box.dataset.step !== ui.step;
  if (!row) return box.replaceChildren(h("p.empty", "Choose a step to see what its agent reads, says and does.")),
    delete box.dataset.step;
  if (isNew) box.replaceChildren(h("header.hd"), h("div.tabs", { role: "tablist",
    "aria-label": "How to show the step" }), h("div.body", { role: "tabpanel", tabindex: 0 }),
    sayForm((text) => command("steer", { step_id: ui.step, text })));
  box.dataset.step = ui.step;
  const list = entries(), body = $(".body", box), isOther = isNew || body.dataset.of !== ui.of;
  showHead($(".hd", box), row, list);
  showTabs($(".tabs", box), row, list);
  $(".say-form", box).hidden = !isRun() || hasEnded(row) || !!row.order?.command || !!row.items;
  if (isOther) body.replaceChildren(), delete body.dataset.diff;
  body.dataset.of = body.ariaLabel = ui.of;
  if (ui.of === "transcript" && row.items) showItems(body);
  else if (ui.of === "transcript") showTranscript(body, keys, isOther, row.order?.command
    ? "A command; it has not run yet." : "Its agent has not begun.");
  else if (ui.of === "details") showDetails(body, row);
  else if (!isPast()) showDiff(body, row, keys.has("all"));
  else draw(body, h("p.empty", "Changes are those of now: leave the replay to see them."));
}

function showHead(box, row, list) {
  const output = new Map(list.filter(([, one]) => one.purpose === "verify").map(([, one]) => [one.command, one.text]));
  const does = (action) => () => command("step_act", { step_id: ui.step, action }),
    over = hasEnded(row), isBad = over && row.status !== "completed", { pattern } = row.order ?? {};
  const acts = isRun() && h("span.acts", isBad && act("Retry", does("retry")), (!over || row.status === "failed")
    && sure("Skip", does("skip")),
    row.status === "in_progress" && sure("Cancel", does("cancel")));
  const said = { passed: "green", failed: "red", none: "not run yet" };
  const checks = (row.checks ?? []).map(([name, status, runs, took, same, , why]) => h("details.check",
    { "data-key": name }, h("summary", tick(status), h("code", { title: name }, name),
    h("span", words(said[status] ?? status, runs > 1 && `run ${runs}`, same > 1 && `the same failure ${same} times`,
      took && seconds(took)))), h("pre", output.get(name) || why || NONE)));
  draw(box, h("div.row", pill(tone(statusOf(row)), statusWords(row)), h("span", row.mode),
    row.worker && h("span", `on ${row.worker}`),
    row.attempt > 1 && h("span", `attempt ${row.attempt}`),
    pattern && h("button.link", { "data-open": pattern }, `one of ${pattern}`), acts),
    h("h2", row.title || ui.step),
    row.doing && h("p.doing", row.doing),
    isBad && h("p.why", row.why), checks[0] && h("div.proof", checks));
}

function showTabs(box, row, list) {
  const calls = list.filter(([, one]) => one.kind === "call" && one.purpose !== "verify").length;
  const number = (text) => text && h("span.n", text);
  draw(box, tabs({ transcript: row.items ? ["Items ", number(itemsOf(ui.step).length)] : ["Transcript ",
    calls > 0 && number(count(calls, "call"))],
    changes: ["Changes ", number(row.files?.length)], details: "Details" }, ui.of, (name) => ((ui.of = name),
    changed("tab"))));
}

/** The steps made for a list: failed and running first, the rest `PAGE` at a time. */
function showItems(box) {
  const rank = (row) => (row.status === "failed" ? 0 : ["now", "ask"].includes(tone(statusOf(row))) ? 1 : 2);
  const all = itemsOf(ui.step).map((id) => [id, step(id)]).sort(by(rank));
  const first = all.filter(([, row]) => rank(row) < 2).length, pages = +(box.dataset.pages ?? 1);
  const some = all.slice(0, first + PAGE * pages), more = () => ((box.dataset.pages = pages + 1), changed("tab"));
  draw(box, some.map(([id, row]) => lineOf(id, row.title, row)), some.length < all.length
    && h("button.older", { onclick: more }, `${all.length - some.length} more`));
}

/** A field to message an agent, with its draft; `say` returns whether it was accepted. */
function sayForm(say) {
  const of = [ui.run, ui.step], text = h("textarea.act", { rows: 1, placeholder: "Say something to it",
    oninput: () => (sessionStorage[of] = text.value) });
  const go = async () => {
    if (text.readOnly || !text.value.trim()) return;
    text.readOnly = true;
    if (await say(text.value.trim())) text.value = sessionStorage[of] = "";
    text.readOnly = false;
  };
  text.value = sessionStorage[of] ?? "";
  text.onkeydown = onEnter(go);
  return h("div.say-form", text, act("Send", go, "go"));
}

/** Show a transcript. Only changed entries are rebuilt, and a view at the end stays there. */
function showTranscript(box, keys, isNew, none) {
  const isAtEnd = isNew || box.scrollHeight - box.scrollTop - box.clientHeight < 60;
  const of = `${ui.run} ${ui.step}`, all = isNew || keys.has("all") || keys.has("entries");
  const known = new Map(all ? [] : $$(":scope > .e", box).map((one) => [one.dataset.entry, one]));
  if (older.of !== of) older = { of, rows: [] };
  const kept = older;
  const list = [...kept.rows.filter(([key]) => !isPast() && !tables.step.has("entry:" + key)), ...entries()];
  const [agent, { first = 1 } = {}] = rowsOf("agent:", tables.step).find(([, row]) => row.first > 1) ?? [];
  const from = kept.rows[0]?.[1].n ?? first, fetchOlder = async () => {
    if (kept.asked === from) return;
    kept.asked = from;
    const { entries: rows = [], ok } = await ask(stepPath() + `?before=${from}&limit=200`);
    if (!ok) kept.asked = 0;
    kept.low = box.scrollHeight - box.scrollTop;
    kept.rows.unshift(...rows.map((row) => [`${row.agent ?? agent}:${row.n}`, row]));
    changed("entries");
  };
  draw(box, from > 1 && !isPast() && h("button.older", { onclick: fetchOlder }, "Earlier entries"),
    list.map(([key, row]) => (!keys.has("entry:" + key) && known.get(key)) || entryOf(key, row)),
    !list.length && h("p.empty", tables.step.isRead ? none : "Reading it."));
  if (isAtEnd || kept.low) box.scrollTop = box.scrollHeight - (kept.low ?? 0);
  delete kept.low;
}

function entryOf(key, row) {
  const isBusy = BUSY.includes(row.status), text = h("div.t", row.text),
    isYou = row.name === "steer" || (row.name === "prompt" && !ui.step);
  const who = isYou ? `${!row.by || ["user", "page"].includes(row.by) ? "You" : row.by} said` : row.n === 1 ? "Its task"
    : "The host says";
  const first = (row.text ?? "").replace(/^#.*\n+/gm, "").trim().split("\n")[0];
  const inside = row.kind === "call" ? callOf(row) : row.kind === "note" ? row.text : row.kind !== "user" ? text
    : h("details", { open: isYou }, h("summary", `${who}: `, !isYou && cut(first, 100)), text);
  return h(`div.e.${row.kind}.${isBusy ? "streaming" : ""}`, { "data-entry": key,
    "data-key": `${key} ${row.kind === "call" ? row.status : ""}` }, inside);
}

function callOf(row) {
  const status = row.asks && BUSY.includes(row.status) ? "needs_decision" : row.status;
  const made = (row.files ?? []).map(([, added, removed]) => `+${added} −${removed}`).join(" ");
  const facts = words(made, row.exit_code && `exit ${row.exit_code}`, row.duration_s > 0.05 ? seconds(row.duration_s)
    : !["ok", "error"].includes(status) && (WORD[status] ?? status));
  return h("details.call." + status, { open: OPEN.includes(row.status) }, h("summary", tick(status),
    h("code", row.purpose === "verify" ? `check  ${row.command}` : row.words || row.tool), h("span", facts)),
    row.diff ? small(row.diff) : h("pre", row.text || row.written || (BUSY.includes(row.status) ? "" : NONE)),
      (row.output_files ?? []).map((file) => h("p.note", `all of it: ${file}`)));
}

function showDetails(box, row) {
  const { order = {}, worktree: tree = {} } = row,
    agent = (!isPast() && rowsOf("agent:", tables.step).at(-1)?.[1]) || {},
    lines = (one) => (Array.isArray(one) ? one.join("\n") : one);
  const facts = { id: ui.step, after: lines(row.depends_on) || "nothing", prompt: order.prompt, command: order.command,
    decision: order.decision?.question, writes: lines(order.writes), "if it fails": order.on_failure,
    model: agent.model, machine: row.worker, folder: tree.folder || agent.folder, branch: tree.branch,
    worktree: tree.status && words(tree.status, tree.detail),
      process: agent.pid, tokens: list(figure(row.tokens ?? 0),
      row.max_tokens && `this attempt ${figure(row.used ?? 0)} of ${figure(row.max_tokens)}`),
    cost: row.cost_usd && money(row.cost_usd),
    context: agent.context_limit && `${figure(agent.context_tokens)} of ${figure(agent.context_limit)}`,
      turns: row.turns, took: row.duration_s && seconds(row.duration_s), summary: row.summary, files: lines(row.files),
    attempts: (row.history ?? []).map(([time, status, attempt]) =>
      `${clockTime(time)}  ${WORD[status]}${attempt > 1 ? `, attempt ${attempt}` : ""}`).join("\n") };
  draw(box, h("dl.kv", Object.entries(facts).filter(([, value]) => value).map(([name, value]) => [h("dt", name),
    h("dd", value)])));
}

/** Show the transcript of a run without a plan. */
export function showTalk(keys) {
  const box = $("#talk"), row = head(), isNew = box.dataset.run !== ui.run;
  if (isNew) box.replaceChildren(h("div.body", { role: "log", "aria-live": "off", tabindex: 0 }),
    h("div.acts", act("Interrupt", () => command("interrupt"))),
    sayForm((text) => command(head()?.status === "active" ? "steer" : "prompt", { text })));
  box.dataset.run = ui.run;
  $(".acts", box).hidden = !isLive() || row.status !== "active";
  $(".say-form", box).hidden = !isLive();
  showTranscript($(".body", box), keys, isNew, "Nothing was said yet.");
}
