// Shows the open requests of all runs as cards, answered by a click or a key.
import { $, $$, age, cut, draw, given, h, onEnter, seconds, words } from "./words.js";
import { ask, byAge, changed, clock, isPast, mayAct, requests, tables, ui } from "./rows.js";
import { small } from "./diff.js";

const GUARD_MS = 500, SETTLED_MS = 2000, KIND = { approval: "Permission", question: "Question", decision: "Decision" };
const away = new Set(), settled = new Set(), focused = () => document.activeElement?.closest(".card");

/** The requests open in this run at the viewed time, and in the others now. */
export function waiting() {
  const others = isPast() ? [] : [...ui.others].filter(([id]) => !tables.run.has("request:" + id));
  return [...requests(), ...others].filter(([id]) => !away.has(id)).sort(byAge);
}

export function showInbox() {
  for (const id of away) if (!tables.run.has("request:" + id) && !ui.others.has(id)) away.delete(id);
  const box = $("#inbox"), old = new Map($$(".card", box).map((card) => [card.dataset.key, card]));
  const cards = waiting().map(([id, row]) => old.get(id) ?? cardOf(id, row)), before = [...old.values()],
    at = before.indexOf(focused());
  const next = at >= 0 && [...before.slice(at), ...before].find((card) => cards.includes(card));
  for (const card of before) if (!cards.includes(card)) settle(card);
  const chosen = cards.filter((card) => $(".pick:checked", card));
  draw(box, cards.filter((card) => $(".pick", card)).length > 1 && mayAct() && h("button.bulk.go",
    { onclick: () => chosen.forEach((card) => card.send({ allow: true, scope: "once" })) },
    `Allow ${chosen.length}`), [...settled], cards);
  cards.forEach((card, at) => {
    const place = `${settled.size} ${at}`;
    if (card.place !== place) Object.assign(card, { place, since: performance.now() });
  });
  box.hidden = !box.childElementCount;
  if (next && next !== before[at]) next.focus();
}

/** Replace a card that was answered elsewhere by a line that briefly says by whom. */
async function settle(card) {
  if (card.isOurs || isPast()) return;
  const { dataset: { request: id }, run, by } = card;
  const { answered = {} } = by || run === ui.run ? {} : await ask("api/runs/" + encodeURIComponent(run)),
    row = answered[id] ?? tables.run.get("answered:" + id);
  const note = h("p.settled", { role: "status", "data-key": "was " + card.dataset.key },
    `${card.label}: ${by ?? (row ? given(row) : "no longer open")}`);
  settled.add(note);
  changed("request:");
  setTimeout(() => (settled.delete(note), changed("request:")), SETTLED_MS);
}

function cardOf(id, row) {
  const other = row.run && row.run !== ui.run && cut(tables.board.get(row.run)?.title ?? row.run, 40),
    where = [row.step, other].filter(Boolean).join(" in "), label = `${KIND[row.kind]} ${where}`.trim();
  const card = h("article.card", { "data-request": id, "data-key": id, tabindex: 0,
    "aria-label": `${label}: ${row.summary ?? row.question ?? ""}` });
  Object.assign(card, { label, run: row.run ?? ui.run, send: (body) => send(card, id, body) });
  draw(card, h("header", row.kind === "approval" && h("input.pick", { type: "checkbox", checked: true,
    "aria-label": "allow with the others", onchange: () => changed("request:") }), h("span", KIND[row.kind]),
    where && h("button.link", { "data-open": row.step ?? "", "data-run": row.run }, where),
    h("time", { "aria-live": "off", "data-asked": row.asked_at, "data-until": row.timeout_seconds
      && row.asked_at + row.timeout_seconds })),
  { approval, question, decision }[row.kind](card, row, id), h("p.note.readonly"), h("p.told", { role: "status" }));
  card.onkeydown = (event) => {
    if (event.target.matches("input[type=text]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = $$("button[data-press]", card).find((one) => one.dataset.press === event.key);
    if (button) event.preventDefault(), event.stopPropagation(), button.click();
  };
  return card;
}

async function send(card, id, body) {
  if (card.isOurs || performance.now() - card.since < GUARD_MS || !mayAct()) return;
  card.isOurs = true;
  const reply = await ask("api/requests/" + encodeURIComponent(id), body);
  if (reply.ok || reply.error === "answered") {
    if (!reply.ok) Object.assign(card, { isOurs: false, by: given(reply) });
    away.add(id);
    ui.others.delete(id);
  } else [card.isOurs, $(".told", card).textContent] = [false, reply.message];
  changed("request:");
}

const key = (key, label, kind, act, ...more) => h(`button.act.${kind}`, { "data-press": key, onclick: act }, label, " ",
  key.length < 2 && h("kbd", key), more);
const own = (words, act) => h("input.act", { type: "text", placeholder: words,
  onkeydown: onEnter(act) });

function approval(card, row) {
  const yes = (scope) => () => card.send({ allow: true, scope }), no = () => card.send({ allow: false,
    reason: reason.value }), reason = own("why, if no", no);
  const reach = row.covers?.length && `session and always would allow: ${words(...row.covers)}`;
  return [h("h3", row.edits ? `Edit with ${row.tool}?` : `Run ${row.tool ?? "this"}?`), row.diff ? small(row.diff)
    : h("pre", row.command || row.summary), h("p.note", words(row.confined === true ? "in the sandbox"
      : row.confined === false && "not in the sandbox", row.cwd && `in ${row.cwd}`, row.reason || row.rule)),
    reach && h("p.note", reach), h("div.acts", key("1", "Once", "go", yes("once")),
      reach && [key("2", "This session", "", yes("session")), key("3", "Always", "", yes("always"))],
      row.edits && key("e", "All edits", "", yes("edits")), key("n", "No", "no", no), reason)];
}

/** Questions with options. A click answers a single question that takes one answer. */
function choices(questions, send, done, isOpen) {
  const isOne = questions.length === 1 && !questions[0].multi_select;
  let number = 0;
  const answer = () => {
    const answers = groups.map((group, at) => {
      const text = $("input", group)?.value.trim();
      return text ? [text] : $$("[aria-pressed=true]", group).map(({ value }) => questions[at].options[value].value
        ?? questions[at].options[value].label);
    }), missing = answers.findIndex((one) => !one.length);
    if (missing < 0) send(answers);
    else $("input", groups[missing])?.focus();
  };
  const pick = (isMany) => ({ currentTarget: button }) => {
    const isPicked = isOne || button.ariaPressed !== "true";
    for (const one of isMany ? [] : $$("button", button.parentNode)) one.ariaPressed = false;
    button.ariaPressed = isPicked;
    if (isOne) answer();
  };
  const groups = questions.map(({ options = [], multi_select: isMany }) => h("div.acts", options.map((one, value) => {
    const button = key(String(++number), one.label, one.isUsual ? "go" : "", pick(isMany), one.description
      && h("small", one.description));
    return Object.assign(button, { value, ariaPressed: false });
  }), isOpen && own("or your own words", answer)));
  return [questions.map((one, at) => [h("h3", one.question), groups[at]]),
    !isOne && h("div.acts", key("s", done, "go", answer))];
}

const question = (card, { questions = [] }) => choices(questions, (answers) => card.send({ answers }), "Send", true);

function decision(card, row, id) {
  const isUsual = (id, at) => !row.multi_select && (row.default?.length ? row.default.includes(id) : !at);
  const options = (row.options ?? []).map((value, at) => ({ value, label: row.labels?.[at] || value,
    description: row.descriptions?.[at], isUsual: isUsual(value, at) }));
  return h("form", { "data-request": id }, choices([{ ...row, question: row.question ?? row.summary, options }],
    ([selections]) => card.send({ selections }), "Decide"));
}

/** Update ages and the time left for decisions; each second. */
export function showClocks() {
  for (const time of $$("#inbox time")) {
    const left = time.dataset.until - clock();
    time.textContent = left > 0 ? `${seconds(left)} left` : age(clock() - time.dataset.asked);
  }
}

/** Focus the next card, so that keys answer it from now on. */
export function focusNext() {
  const cards = $$("#inbox .card"), at = cards.indexOf(focused());
  cards[(at + 1) % cards.length]?.focus();
}
