// Makes elements, and figures into words. A run's text only becomes text nodes.
const ANSI = /\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const JOINING = /\p{Emoji}\ufe0f|[\p{ExtPict}\p{EMod}\ufe0f]\u200d(?=\p{ExtPict})|\p{sc=Arab}\u200c(?=\p{sc=Arab})/u;
const UNSEEN = new RegExp(String.raw`[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u2800](?<![\n\t]|${JOINING.source})`, "gu");
// What a browser refuses to store is kept while the page is open.
for (const name of ["localStorage", "sessionStorage"]) try { window[name].vibe; } catch {
  Object.defineProperty(window, name, { value: {} });
}
export const $ = (query, within = document) => within.querySelector(query);
export const $$ = (query, within = document) => [...within.querySelectorAll(query)];

/** Remove ANSI, and show by numbers what hides or turns text. What joins emoji or parts letters does neither. */
export const plain = (text) => String(text).replace(ANSI, "").replace(/\r\n?/g, "\n")
  .replace(UNSEEN, (c) => `<U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

const nodes = (parts) => parts.flat(4).filter((one) => one || one === 0)
  .map((one) => (one instanceof Node ? one : document.createTextNode(plain(one))));

const make = (create) => (name, ...parts) => {
  const [tag, ...classes] = name.split("."), element = create(tag);
  if (classes.length) element.setAttribute("class", classes.filter(Boolean).join(" "));
  if (tag === "button") element.type = "button";
  for (const [key, value] of parts[0]?.constructor === Object ? Object.entries(parts.shift()) : []) {
    if (key.startsWith("on")) element[key] = value;
    else if (key === "style") Object.assign(element.style, value);
    else if (value != null && (value !== false || key.startsWith("aria-"))) {
      element.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : plain(value));
    }
  }
  element.append(...nodes(parts));
  return element;
};
/** Make an element of `tag.class`, attributes, handlers and style, and contents; `s`: in SVG. */
export const h = make((tag) => document.createElement(tag));
export const s = make((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));

const KEPT = new Set(["open", "style"]), HANDLERS = ["onclick", "onchange"];
const nameOf = (node) => node.dataset?.key && node.nodeName + node.dataset.key;

/** Set an element's contents. What stays, by data-key or place, keeps its focus, and stays open. */
export function draw(parent, ...parts) {
  const wanted = nodes(parts), names = new Set(wanted.map(nameOf)), named = new Map();
  for (const old of [...parent.childNodes]) {
    if (names.has(nameOf(old))) named.set(nameOf(old), old);
    else old.remove();
  }
  wanted.forEach((fresh, at) => {
    const there = parent.childNodes[at], name = nameOf(fresh);
    const old = name ? named.get(name) : there?.nodeName === fresh.nodeName && !nameOf(there) && there;
    if (old) become(old, fresh);
    if (!old || old !== there) parent.insertBefore(old || fresh, there ?? null);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
}

export function become(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) return old.data !== fresh.data && (old.data = fresh.data);
  if (old === fresh || old.dataset.keep) return;
  for (const { name } of [...old.attributes]) {
    if (!KEPT.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (!KEPT.has(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const name of HANDLERS) if (old[name] !== fresh[name]) old[name] = fresh[name];
  draw(old, ...fresh.childNodes);
}

export const cut = (text, most) => (text.length > most ? text.slice(0, most - 1).replace(/\p{Cs}$/u, "") + "…" : text);
export const count = (number, one) => `${number} ${one}${number === 1 ? "" : "s"}`;
export const clockTime = (ts) => new Date(ts * 1000).toLocaleTimeString([], { hourCycle: "h23" });
const joined = (sign) => (...parts) => parts.filter(Boolean).join(sign);
export const words = joined(" · "), list = joined(", ");
/** Order pairs, such as ids with rows, by a figure of the second. */
export const by = (of) => ([, a], [, b]) => of(a) - of(b);
export const figure = (n) => (n == null ? "–" : n < 1e3 ? String(Math.round(n))
  : n < 1e6 ? (n / 1e3).toFixed(n < 1e4 ? 1 : 0) + "k" : (n / 1e6).toFixed(2) + "M");
export const money = (x) => (x == null ? "–" : x > 0 && x < 0.01 ? "<$0.01" : "$" + x.toFixed(2));
export function seconds(x) {
  if (x < 0.0995) return x < 0.0005 ? "0 s" : `${Math.round(x * 1000)} ms`;
  if (x < 60) return x.toFixed(x < 10 ? 1 : 0) + " s";
  const [days, hours, minutes] = [86400, 3600, 60].map((unit) => Math.floor(x / unit));
  return days ? `${days} d` : hours ? `${hours} h ${minutes % 60} min`
    : `${minutes}:${String(Math.floor(x % 60)).padStart(2, "0")}`;
}
export const age = (x) => (x < 60 ? "now" : seconds(x).replace(/^(\d+):.*/, "$1 min").replace(/ h .*/, " h"));

const TONES = { done: "completed passed ok", bad: "failed error denied lost", now: "in_progress running writing active",
  ask: "needs_decision paused" };
const TONE = Object.fromEntries(Object.entries(TONES).flatMap(([tone, all]) =>
  all.split(" ").map((status) => [status, tone])));
export const tone = (status) => TONE[status] ?? "";
const MARKS = { done: "✓", bad: "✗", ask: "?", skipped: "–", cancelled: "×" };
export const mark = (status) => MARKS[tone(status) || status] ?? "";
export const WORD = { completed: "done", in_progress: "running", needs_decision: "waiting for you", failed: "failed",
  skipped: "skipped", cancelled: "cancelled", pending: "to do", blocked: "to do" };
const ORDER = Object.keys(WORD).slice(0, 7);

/** Counts by status: pairs of a status and `3 failed`. */
export const inWords = (counts, names = ORDER) => names.filter((one) => counts[one]).map((one) => [one,
  `${counts[one]} ${WORD[one]}`]);

export const inList = (counts) => list(...inWords(counts).map(([, text]) => text)) || "to do";

export const tick = (status) => h("span.tick." + tone(status), { role: "img",
  "aria-label": WORD[status] ?? status }, mark(status));
export const pill = (tone, text) => h("span.pill." + tone, text);
export function bar(kind, counts, total) {
  return h("div." + kind, { role: "img", "aria-label": inList(counts) }, inWords(counts).map(([one, title]) =>
    h("i.s-" + one, { title, "data-key": one, style: { flexGrow: counts[one] / total } })));
}

/** Tabs by name and label, one of them chosen. */
export const tabs = (all, chosen, choose) => Object.entries(all).map(([name, label]) => h("button",
  { role: "tab", "data-tab": name, "aria-selected": name === chosen,
    onclick: () => choose(name) }, label));

const BY = { timeout: "nobody answered in time", nobody: "nobody answered", default: "by default" };

/** The answer in a row, in words. */
export const given = ({ answer, by }) => list(answer === true ? "yes" : answer === false ? "no"
  : [answer].flat(2).join(", "), BY[by] ?? (by ? `by ${by}` : "no longer open"));

/** A handler that acts on Enter. It never returns false, which would undo other keys. */
export const onEnter = (does) => (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) event.preventDefault(), does(event);
};

/** A button for an action. `sure` asks once more before it does what can't be undone. */
export const act = (label, onclick, kind = "") => h(`button.act.${kind}`, { onclick }, label);
export const sure = (label, does, kind) => act(label, ({ target: button }) => {
  const was = button.dataset.keep;
  button.dataset.keep = was ? "" : "1";
  button.textContent = was ? label : `${label} it?`;
  if (was) does();
  else setTimeout(() => delete Object.assign(button, { textContent: label }).dataset.keep, 4000);
}, kind);
