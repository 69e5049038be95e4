// What waits for a person, in every run: a card each, answered by a click or a key.
import { $, $$, age, cut, given, h, seconds } from "./words.js";
import { READ_ONLY, ask, changed, clock, isPast, requests, tables, ui } from "./rows.js";
import { small } from "./diff.js";

const GUARD_MS = 500, SETTLED_MS = 2000, KIND = { approval: "Permission", question: "Question", decision: "Decision" };
const away = new Set();

/** Every open request: those of the open run at the time looked at, and of the others as they are. */
export function waiting() {
  const others = isPast() ? [] : [...ui.others].filter(([id]) => !tables.run.has("request:" + id));
  return [...requests(), ...others].filter(([id]) => !away.has(id)).sort((a, b) => a[1].asked_at - b[1].asked_at);
}

export function showInbox(openStep) {
  for (const id of away) if (!tables.run.has("request:" + id) && !ui.others.has(id)) away.delete(id);
  const box = $("#inbox"), list = waiting(), ids = new Set(list.map(([id]) => id)), old = $$(".card", box);
  const at = old.indexOf(document.activeElement?.closest(".card")), isGone = at >= 0
    && !ids.has(old[at].dataset.request);
  const next = isGone && [...old.slice(at), ...old].find((card) => ids.has(card.dataset.request));
  for (const card of old) if (!ids.has(card.dataset.request)) settle(card);
  const cards = new Map($$(".card", box).map((card) => [card.dataset.request, card]));
  let before = null;
  list.forEach(([id, row], place) => {
    const card = cards.get(id) ?? cardOf(id, row, openStep), isOff = !ui.control || isPast();
    if (card.place !== place) [card.place, card.since] = [place, performance.now()];
    if (!card.isConnected) before ? before.after(card) : box.prepend(card);
    before = card;
    for (const one of $$(".acts button, input", card)) one.disabled = isOff;
    $(".readonly", card).textContent = isOff && !isPast() ? READ_ONLY : "";
  });
  showBulk(box, list.filter(([, row]) => row.kind === "approval"));
  box.hidden = !box.childElementCount;
  if (next) next.focus();
}

/** A card goes at once if it was answered here; else a line says for a moment by whom. */
function settle(card) {
  const row = tables.run.get("answered:" + card.dataset.request);
  if (card.isOurs || isPast()) return card.remove();
  const note = h("p.settled", { role: "status" },
    `${card.told}: ${card.by ?? (row ? given(row) : "answered elsewhere")}`);
  card.replaceWith(note);
  setTimeout(() => (note.remove(), changed("request:")), SETTLED_MS);
}

function showBulk(box, approvals) {
  const isMany = approvals.length > 1 && ui.control && !isPast(), chosen = () => $$(".card",
    box).filter((card) => $(".pick:checked", card));
  const label = () => ($(".bulk", box).textContent = `Allow ${chosen().length}`);
  for (const pick of $$(".pick", box)) Object.assign(pick, { hidden: !isMany, onchange: label });
  if (!isMany) return $(".bulk", box)?.remove();
  if (!$(".bulk", box)) box.prepend(h("button.bulk.go",
    { onclick: () => chosen().forEach((card) => card.send({ allow: true, scope: "once" })) }));
  label();
}

function cardOf(id, row, openStep) {
  const where = row.step ?? (row.run && row.run !== ui.run ? cut(tables.board.get(row.run)?.title ?? row.run, 40) : ""),
    note = h("p.told", { role: "status" });
  const card = h("article.card", { "data-request": id, tabindex: 0,
    "aria-label": `${KIND[row.kind]} ${where}: ${row.summary ?? row.question ?? ""}` });
  Object.assign(card, { told: `${KIND[row.kind]} ${where}`, send: (body) => send(card, id, body, note) });
  card.append(h("header", row.kind === "approval" && h("input.pick", { type: "checkbox", checked: true,
    "aria-label": "allow with the others" }), h("span", KIND[row.kind]),
    where && h("button.link", { onclick: () => openStep(row.step, row.run) }, where),
      h("time", { "aria-live": "off", "data-asked": row.asked_at, "data-until": row.timeout_seconds
      && row.asked_at + row.timeout_seconds })),
  ...{ approval, question, decision }[row.kind](card, row, id).flat(3).filter(Boolean), h("p.note.readonly"), note);
  card.onkeydown = (event) => {
    if (event.target.matches("input[type=text]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = $$("button[data-key]", card).find((one) => one.dataset.key === event.key);
    if (button) event.preventDefault(), event.stopPropagation(), button.click();
  };
  return card;
}

async function send(card, id, body, note) {
  if (card.isOurs || performance.now() - card.since < GUARD_MS || !ui.control || isPast()) return;
  card.isOurs = true;
  const reply = await ask("/api/requests/" + encodeURIComponent(id), body);
  if (reply.ok || reply.error === "answered") {
    if (!reply.ok) Object.assign(card, { isOurs: false, by: given(reply) });
    away.add(id);
    ui.others.delete(id);
  } else [card.isOurs, note.textContent] = [false, reply.message];
  changed("request:");
}

const key = (key, label, act, props = {}, ...more) => h("button." + (props.class ?? ""), { ...props, class: null,
  "data-key": key, onclick: act }, label, h("kbd", key), more);
const own = (words, act) => h("input", { type: "text", placeholder: words, "aria-label": words,
  onkeydown: (event) => event.key === "Enter" && act() });

function approval(card, row) {
  const yes = (scope) => () => card.send({ allow: true, scope }), no = () => card.send({ allow: false,
    reason: reason.value }), reason = own("why, if no", () => no());
  const reach = row.covers?.length && `session and always would allow: ${row.covers.join(" · ")}`;
  const facts = [row.confined === true ? "in the sandbox" : row.confined === false && "not in the sandbox",
    row.cwd && `in ${row.cwd}`, row.reason, row.rule];
  return [h("h3", row.edits ? `Edit with ${row.tool}?` : `Run ${row.tool ?? "this"}?`), row.diff ? small(row.diff)
    : h("pre", row.command || row.summary), h("p.note", facts.filter(Boolean).join(" · ")),
    reach && h("p.note", reach), h("div.acts", key("1", "Once", yes("once"), { class: "go" }),
      reach && [key("2", "This session", yes("session")), key("3", "Always", yes("always"))],
      row.edits && key("e", "All edits", yes("edits")), key("n", "No", no, { class: "no" }), reason)];
}

/** Questions with their options; where there is but one and it takes one answer, a click on that sends it. */
function choices(card, questions, send, done, isOpen) {
  const isOne = questions.length === 1 && !questions[0].multi_select, texts = [];
  const picks = questions.map(() => new Set());
  const answer = () => {
    const answers = picks.map((set, at) => (texts[at]?.value.trim() ? [texts[at].value.trim()] : [...set])),
      missing = answers.findIndex((one) => !one.length);
    if (missing < 0) send(answers);
    else texts[missing]?.focus();
  };
  const pick = (at, value) => ({ currentTarget: { parentNode } }) => {
    const had = picks[at].has(value);
    if (!questions[at].multi_select) picks[at].clear();
    if (!had || isOne) picks[at].add(value);
    else picks[at].delete(value);
    for (const one of $$("button", parentNode)) one.ariaPressed = picks[at].has(one.value);
    if (isOne) answer();
  };
  let number = 0;
  const button = (at, { label, value = label, description, isUsual }) => key(String(++number), label, pick(at, value),
    { value, class: isUsual ? "go" : "", "aria-pressed": false }, description && h("small", description));
  return [...questions.map((one, at) => [h("h3", one.question), h("div.acts", (one.options ?? []).map((option) =>
    button(at, option)), isOpen && (texts[at] = own("or your own words", answer)))]),
  !isOne && h("div.acts", key("s", done, answer, { class: "go" }))];
}

const question = (card, { questions = [] }) => choices(card, questions, (answers) => card.send({ answers }), "Send",
  true);

function decision(card, row, id) {
  const isUsual = (id, at) => !row.multi_select && (row.default?.length ? row.default.includes(id) : !at);
  const options = (row.options ?? []).map((value, at) => ({ value, label: row.labels?.[at] || value,
    description: row.descriptions?.[at], isUsual: isUsual(value, at) }));
  const asked = { question: row.question ?? row.summary, multi_select: row.multi_select, options };
  return [h("form", { "data-request": id, onsubmit: (event) => event.preventDefault() },
    choices(card, [asked], ([selections]) => card.send({ selections }), "Decide"))];
}

/** Ages, and the time that is left for a decision; each second. */
export function showClocks() {
  for (const time of $$("#inbox time")) {
    const left = time.dataset.until - clock(), text = left > 0 ? `${seconds(left)} left`
      : age(clock() - time.dataset.asked);
    if (time.textContent !== text) time.textContent = text;
  }
}

/** The next card gets the focus; from then on its keys answer. */
export function focusNext() {
  const cards = $$("#inbox .card"), at = cards.indexOf(document.activeElement?.closest(".card"));
  cards[(at + 1) % cards.length]?.focus();
}
