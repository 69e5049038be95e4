// Diffs, and comments on their lines, which are kept here until they are sent.
import { $, $$, act, clockTime, count, cut, h, list, onEnter } from "./words.js";
import { ask, changed, clock, entries, isLive, newId, step, stepPath, ui } from "./rows.js";

const KIND = { "+": "add", "-": "del", " ": "ctx" }, loaded = new Map();
let anchor = null;

/** Parse a unified diff into files of hunks, as the server sends them. */
function parse(text) {
  const files = [{ path: "", hunks: [] }];
  let left = [0, 0];
  for (const line of text.split("\n")) {
    const { hunks } = files.at(-1), at = line.match(/^@@ -(\d+),?(\d*) \+(\d+),?(\d*) @@/), [sign] = line;
    const name = line.match(/^\+\+\+ (?:b\/)?([^\t]*)/);
    if (Math.max(...left) > 0 && KIND[sign]) {
      hunks.at(-1).lines.push([sign, line.slice(1)]);
      left = [left[0] - (sign !== "+"), left[1] - (sign !== "-")];
    } else if (at) {
      hunks.push({ old: [+at[1]], new: [+at[3]], lines: [] });
      left = [+(at[2] || 1), +(at[4] || 1)];
    } else if (name) files.push({ path: name[1], hunks: [] });
  }
  return files.filter((file) => file.hunks.length);
}

/** The lines of a file with their kinds, sides and numbers. */
const numbered = (file) => (file.hunks ?? []).flatMap((hunk) => {
  let [a] = hunk.old, [b] = hunk.new;
  return [{ kind: "hunk", text: `@@ −${hunk.old} +${hunk.new} @@` }, ...hunk.lines.map(([sign, text]) => (!KIND[sign]
    ? { kind: "hunk", text } : { kind: KIND[sign], text, side: sign === "-" ? "old" : "new",
      line: sign === "-" ? a++ : (a += sign === " ", b++) }))];
});

const lineOf = ({ kind, line, text }, comment) => h("div." + kind, comment && line
  ? h("button", { "aria-label": `line ${line}, comment`, onclick: comment }, line) : h("i", line),
    h("span", text || " "));
export const small = (text) => h("div.df", parse(text).map((file) => [file.path && h("div.name", file.path),
  numbered(file).map((line) => lineOf(line))]));

const place = () => `vibe ${ui.run} ${ui.step}`;
const comments = (of = place()) => JSON.parse(localStorage[of] ?? "[]");
const save = (all, of = place()) => localStorage[of] = JSON.stringify(all);

/** The edits of a step in the shared folder, whose net result is known at its end. */
const edits = () => entries().filter(([, row]) => row.diff && row.status === "ok").flatMap(([, row]) =>
  parse(row.diff));

/** Show the net changes of the open step, fetched again when its files or its status change. */
export async function showDiff(box, { files, added, removed, status, attempt, worktree }, isAnew) {
  const key = place(), version = JSON.stringify([edits().length, files, added, removed, status, attempt,
    worktree?.status]),
    known = loaded.get(key), isWriting = () => $("textarea", box);
  if (isWriting()) return;
  if (known?.version === version && !(isAnew && known.reply?.ok === false)) return known.reply
    && box.dataset.diff !== version && paint(box, version, known.reply);
  loaded.set(key, { version, reply: known?.reply });
  if (!known) box.replaceChildren(h("p.empty", "Looking at what it changed."));
  const reply = await ask(stepPath("diff"));
  const own = edits(), atWork = status === "in_progress" && !worktree;
  if (own.length && (atWork || !reply.files?.length)) reply.files = own;
  if (!reply.ok && isLive()) setTimeout(changed, 2000, "all");  // git may have been busy
  if (loaded.size > 20) loaded.clear();
  loaded.set(key, { version, reply });
  if (key === place() && ui.of === "changes" && !isWriting()) paint(box, version, reply);
}

function paint(box, version, reply) {
  const again = () => paint(box, version, reply), of = place(), unsent = () => comments(of).filter((one) => !one.sent),
    isOver = step(ui.step)?.status !== "in_progress", number = count(unsent().length, "comment");
  box.dataset.diff = version;
  const send = async ({ target }) => {
    const open = unsent();
    if (!open.length) return again();  // sent from another tab
    target.disabled = !target.classList.remove("act");
    const result = await ask(stepPath("comments"), { comments: open.map(({ id, ...one }) => one), retry: isOver });
    if (result.ok) save(comments(of).map((one) => (open.some(({ id }) => id === one.id) ? { ...one,
      sent: clock() } : one)), of);
    if (of !== place()) return;
    again();
    $(".told", box).textContent = result.ok ? "" : result.message;
  };
  box.replaceChildren(h("p.note", !reply.ok && reply.message),
    ...(reply.files ?? []).map((file) => fileOf(file, again)),
    h("p.told", { role: "status" }));
  for (const one of comments()) if (reply.ok && !$$(".said", box).some(({ dataset: { id } }) => id === one.id)) {
    box.append(said(one, again, `${one.path}, where this is gone: ${cut(one.quote, 80)} `));
  }
  if (reply.ok && !reply.files?.length) box.append(h("p.empty", step(ui.step)?.started_at
    ? "It changed no file." : "It has not begun."));
  if (unsent().length) box.append(h("div.sends", isOver && h("p.note", isLive()
    ? "The step has ended: with them it begins again, and what depends on it runs again."
    : "The run has ended: nobody hears them."), isLive() && act(isOver
    ? `Run it again with ${number}` : `Send ${number} to its agent`, send, "go")));
  changed("tab");
}

const said = (one, again, where) => h("section.said", { "data-id": one.id }, where, one.text, one.sent
  ? h("small", `sent ${clockTime(one.sent)}`) : h("button.bare",
    { onclick: () => (save(comments().filter(({ id }) => id !== one.id)), again()) }, "Remove"));

/** The last line of a comment as it is now: the nearest with that text, if any. */
function placeOf({ side, to, quote }, lines) {
  const last = quote.split("\n").at(-1), far = (one) => Math.abs(one.line - to);
  return lines.filter((one) => one.side === side && one.text === last).sort((a, b) => far(a) - far(b))[0];
}

function fileOf(file, again) {
  const ours = comments().filter((one) => one.path === file.path), lines = numbered(file), body = h("div.df");
  const facts = list(file.busy?.length && `while ${file.busy.join(" and ")} ran`, file.status !== "modified"
    && file.status, file.binary && "binary", file.cut && "only its beginning");
  const many = (kind) => lines.filter((one) => one.kind === kind).length,
    places = ours.map((one) => placeOf(one, lines));
  lines.forEach((line, at) => {
    const element = lineOf(line, (event) => comment(event, { file, lines, at, element, again }));
    body.append(element, ...ours.filter((_, each) => places[each] === line).map((one) => said(one, again,
      one.line < one.to && `${one.line} to ${one.to}: `)));
  });
  return h("section.file", { "aria-label": file.path },
    h("header", h("b", file.old && file.old !== file.path ? `${file.old} → ${file.path}` : file.path),
    h("span.dim", facts),
    h("span.added", `+${file.added ?? many("add")} `, h("span.bad", `−${file.removed ?? many("del")}`))), body);
}

/** Open a comment box under a line; with Shift it covers all lines from the last. */
function comment({ shiftKey }, { file, lines, at, element, again }) {
  const start = shiftKey && anchor?.path === file.path ? Math.min(anchor.at, at) : at, { side } = lines[at];
  const picked = lines.slice(start, at + 1).filter((one) => one.side === side), body = element.parentNode;
  anchor = { path: file.path, at };
  const text = h("textarea", { rows: 2, "aria-label": `Comment on ${file.path}, line ${lines[at].line}` });
  const close = () => (box.remove(), $("button", element).focus());
  const add = () => {
    if (!text.value.trim()) return close();
    save([...comments(), { id: newId(), path: file.path, side, line: picked[0].line, to: picked.at(-1).line,
      quote: picked.map((one) => one.text).join("\n"), text: text.value.trim() }]);
    again();
  };
  const enter = onEnter(add);
  text.onkeydown = (event) => (event.key === "Escape" ? close() : enter(event));
  const box = h("section.say", picked.length > 1 && h("small", `lines ${picked[0].line} to ${picked.at(-1).line}`),
    text,
    h("span.acts", h("button", { onclick: close }, "Cancel"), h("button.go", { onclick: add }, "Add comment")));
  $(".say", body)?.remove();
  element.after(box);
  text.focus();
}
