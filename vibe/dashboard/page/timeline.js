// Shows steps over time, with idle time folded; the log; and the changed files.
import { $, WORD, by, clockTime, cut, draw, given, h, seconds, tick } from "./words.js";
import { asked, changed, clock, changes, head, rowsOf, step, steps, ui } from "./rows.js";

const ROW = 30, SPARE = 6, IDLE = 0.1, FOLDED = 0.02;
const chosen = { kind: "", step: "" };
let known = { key: "", map: null };

/** The periods in which no step ran, if longer than a tenth of the whole. */
function gapsOf(from, to) {
  const busy = changes().filter(({ status }) => status === "in_progress").map(({ ts, next = to }) => [ts, next]);
  const gaps = [];
  let at = from;
  for (const [start, stop] of [...busy.sort((a, b) => a[0] - b[0]), [to, to]]) {
    if (start - at > (to - from) * IDLE) gaps.push([at, start]);
    at = Math.max(at, stop);
  }
  return gaps;
}

/** Map time to a place from 0 to 1, and back; idle time is only a mark. */
export function scale() {
  const end = head()?.ended_at ?? clock(), key = JSON.stringify([ui.run, Math.floor(end), head()?.counts]);
  if (known.key === key) return known.map;
  const from = changes().reduce((first, { ts }) => Math.min(first, ts), head()?.started_at ?? end),
    to = Math.max(from + 0.01, end);
  const gaps = gapsOf(from, to), busy = to - from - gaps.reduce((sum, [a, b]) => sum + b - a, 0),
    short = (busy || to - from) * FOLDED;
  const whole = busy + gaps.length * short;
  const place = (time) => {
    let x = Math.min(Math.max(time, from), to) - from;
    for (const [a, b] of gaps) x -= Math.min(1, Math.max(0, (time - a) / (b - a))) * (b - a - short);
    return x / whole;
  };
  const time = (x) => {
    let at = to;
    for (let part = (to - from) / 2; part > 1e-4; part /= 2) if (place(at - part) >= x) at -= part;
    return at;
  };
  known = { key, map: { from, to, gaps, place, time } };
  return known.map;
}

const percent = (part) => part * 100 + "%";

export function showTimeline() {
  const box = $("#timeline"), map = scale(), first = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
  const rows = steps().filter(([, row]) => row.history?.length).sort(by((row) => row.history[0][0]));
  box.onscroll = () => changed("timeline");
  const all = asked().map(([, row]) => row);
  const lines = rows.slice(first, first + Math.ceil(box.clientHeight / ROW) + 2 * SPARE).map(([id, row], at) => {
    const style = { top: (first + at) * ROW + "px" };
    return h("div.tl." + (id === ui.step ? "selected" : ""), { "data-key": id, style },
      h("button.name", { title: row.title, "data-open": id }, id),
      h("span.track", map.gaps.map(([a, b]) => h("u", { title: `${seconds(b - a)} in which nothing ran`,
        style: { left: percent(map.place(a)), width: percent(FOLDED / 2) } })),
        bars(row, map, all.filter((one) => one.step === id))));
  });
  const marks = [0, 0.25, 0.5, 0.75, 1].map((x) => h("span", seconds(map.time(x) - map.from)));
  draw(box, rows.length ? [h("div.axis", marks),
    h("div.tlrows", { style: { height: rows.length * ROW + "px" } }, lines)] : h("p.empty", "Nothing has begun."));
}

function bars(row, map, requests) {
  const until = ui.at ?? map.to, { history } = row;
  const part = (kind, start, stop, title) => h("i." + kind, { title: `${title}, ${seconds(stop - start)}`,
    style: { left: percent(map.place(start)), width: percent(Math.max(0.003, map.place(stop) - map.place(start))) } });
  const ready = Math.max(map.from, ...(row.depends_on ?? []).map((id) => step(id)?.history?.at(-1)?.[0] ?? 0));
  const start = history.find(([, status]) => status === "in_progress")?.[0] ?? (row.waits && until);
  return [start - ready > 0.5 && part("slot", ready, start, "waited for a slot or files"),
    history.map(([time, status, attempt], at) => {
    const [stop, next] = history[at + 1] ?? [until, "in_progress"];
    if (status === "needs_decision") return part("wait", time, stop, "asked you");
    return status === "in_progress" && part("s-" + (WORD[next] === "to do" ? "cancelled" : next), time, stop,
      `attempt ${attempt}`);
  }), requests.filter((one) => one.asked_at <= until).map((one) => part("wait", one.asked_at,
    Math.min(until, one.answered_at ?? until), "waited for you")),
  (row.checks ?? []).flatMap(([name, status, , , , at, , red]) => [...red.map((one) => [one, "failed"]),
    ...(status === "failed" ? [] : [[at, status]])].map(([time, how]) => time != null && time <= until
      && h("b." + how, { title: `${name}: ${how}`, style: { left: percent(map.place(time)) } }))),
  row.duration_s != null && h("em", { style: { left: percent(map.place(history.at(-1)[0])) } },
    seconds(row.duration_s))];
}

export function showLog() {
  const answers = rowsOf("answered:").map(([id, row]) => [id, { kind: "answer", ts: row.answered_at, step: row.step,
    text: `${cut(row.summary ?? row.kind, 200)}: ${given(row)}` }]);
  const ends = steps().flatMap(([id, { history = [], why }]) => history.filter(([, status]) =>
    ["failed", "skipped", "cancelled"].includes(status)).map(([ts, status]) => [id + ts, { kind: status, ts, step: id,
      text: why ? `${WORD[status]}: ${why}` : WORD[status] }]));
  const all = [...rowsOf("note:"), ...answers, ...ends].filter(([, row]) => ui.at == null || row.ts <= ui.at)
    .sort(by((row) => -(row.ts ?? 0)));
  const some = all.filter(([, row]) => Object.keys(chosen).every((name) => !chosen[name]
    || row[name] === chosen[name])).slice(0, 500);
  const pick = (name) => h("select", { "aria-label": name, "data-key": name, onchange: ({ target }) => {
    chosen[name] = target.value;
    changed("note:");
  } }, h("option", { value: "" }, `every ${name}`),
    [...new Set(all.map(([, row]) => row[name]))].filter(Boolean).sort().map((one) => h("option", { value: one },
    one)));
  draw($("#log"), h("div.filters", pick("kind"), pick("step")), some.map(([id, row]) => h("p." + row.kind,
    { "data-key": row.kind + id }, h("time", clockTime(row.ts ?? 0)),
    row.step && h("button.link", { "data-open": row.step }, row.step), h("span", row.text))), !some.length
      && h("p.empty", "Nothing to report."));
}

/** Every changed file once, with the steps that changed it; conflicts first. */
export function showChanges() {
  const files = new Map();
  for (const [id, row] of steps().filter(([, one]) => !one.items)) {
    for (const file of row.files ?? row.worktree?.files ?? []) files.set(file, [...(files.get(file) ?? []), [id, row]]);
  }
  const torn = (row) => row.worktree?.status === "conflict";
  const list = [...files].sort().sort(by((all) => -all.some(([, row]) => torn(row))));
  const where = ({ worktree: { status, branch } = {} }) => (!status ? "in the workspace"
    : ["merged", "conflict"].includes(status) ? status : `on ${branch}`);
  draw($("#changes"), list.map(([file, all]) => h("div.changed", { "data-key": file }, h("code", file),
    all.map(([id, row]) =>
    h("button", { "data-open": id, "data-of": "changes" }, tick(row.status), id,
      h("span." + (torn(row) ? "bad" : "dim"), where(row)),
      row.files?.length === 1 && row.added != null && h("span.dim", `+${row.added} −${row.removed ?? 0}`))))),
        !list.length && h("p.empty", "No file was changed yet."));
}
