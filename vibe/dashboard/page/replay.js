// Replays a run, by the slider or one change after the other.
import { $, draw, h, s, seconds, tone } from "./words.js";
import { changed, clock, changes, head, isPast, rowsOf, stepIds, ui } from "./rows.js";
import { scale } from "./timeline.js";

const SHORTEST = 6, LONGEST = 20, PLACES = 1000, MOST_STEPS = 300, TICKED = ["completed", "failed", "needs_decision"];
let playing = 0;

export function showReplay(withTicks) {
  const row = head(), box = $("#replay");
  if (!row?.started_at || row.kind !== "plan") return box.replaceChildren();
  const map = scale(), slider = $("input", box) ?? build(box), passed = seconds((ui.at ?? map.to) - map.from),
    text = `${passed} of ${seconds(map.to - map.from)}`;
  if (withTicks && stepIds().length <= MOST_STEPS) showTicks($("svg", box), map);
  slider.value = isPast() ? map.place(ui.at) * PLACES : PLACES;
  slider.setAttribute("aria-valuetext", isPast() ? text : "now");
  $(".when", box).textContent = text;
  Object.assign($(".live", box), { disabled: !isPast(), textContent: row.live ? "Live" : "End" });
  $(".play", box).textContent = playing ? "Pause" : "Play";
}

function build(box) {
  const slider = h("input", { type: "range", min: 0, max: PLACES, "aria-label": "Time", oninput: () => (stop(),
    seek(+slider.value >= PLACES ? null : scale().time(slider.value / PLACES))) });
  box.replaceChildren(h("button.play", { onclick: play }, "Play"),
    h("div.wrap", s("svg", { preserveAspectRatio: "none", viewBox: `0 0 ${PLACES} 26` }), slider),
    h("span.when"), h("button.live.bare", { onclick: toLive }, "Live"));
  return slider;
}

function showTicks(svg, map) {
  const ends = changes().filter(({ status }) => TICKED.includes(status));
  const all = [...ends, ...rowsOf("answered:").map(([, row]) => ({ ts: row.answered_at, status: "needs_decision" }))];
  draw(svg, all.map(({ ts, status }) => s("rect." + tone(status), { x: (map.place(ts) * PLACES).toFixed(1), y: 19,
    width: 2.4, height: 6 })));
}

/** Show the run as it was at a time, or as it is if null. */
export function seek(time) {
  ui.at = time && Math.max(scale().from, time);
  changed("all");
}
export const stop = () => (clearInterval(playing), (playing = 0));
export const toLive = () => (stop(), seek(null));

export function play() {
  if (!head()?.started_at) return;
  if (playing) return stop(), changed("head");
  const map = scale(), from = isPast() ? map.place(ui.at) : 0, began = performance.now(), whole = Math.min(LONGEST,
    Math.max(SHORTEST, map.to - map.from));
  playing = setInterval(() => {
    const place = from + (performance.now() - began) / 1000 / whole;
    if (place < 1) seek(map.time(place));
    else toLive();
  }, 60);
}

/** Go one change back (-1) or on (1). */
export function byChange(way) {
  const times = changes().map(({ ts }) => ts).sort((a, b) => a - b), at = ui.at ?? clock();
  const next = way < 0 ? times.findLast((time) => time < at) : times.find((time) => time > at);
  stop();
  if (next || way > 0) seek(next ?? null);
}
