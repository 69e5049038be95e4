// The list of runs: rows come by patches, are kept as they come, and are shown; text only ever as text.
const rows = new Map();

if (location.hash.length > 1) {
  sessionStorage.setItem("vibe", location.hash.slice(1));
  history.replaceState(null, "", location.pathname + location.search);
}

function merge(patch) {
  if (patch.whole) rows.clear();
  for (const key of patch.gone ?? []) rows.delete(key);
  for (const [key, fields] of Object.entries(patch.set ?? {})) rows.set(key, { ...rows.get(key), ...fields });
}

function show() {
  const items = [...rows].map(([key, row]) => {
    const item = document.createElement("li");
    item.dataset.run = key;
    item.textContent = `${row.title}  ${row.status}  ${row.requests ? `${row.requests} waiting` : ""}`;
    return item;
  });
  document.querySelector("#runs").replaceChildren(...items);
}

async function listen() {
  const headers = { Authorization: `Bearer ${sessionStorage.getItem("vibe") ?? ""}` };
  const reply = await fetch("/api/stream", { headers });
  document.querySelector("#conn").textContent = reply.ok ? "live" : (await reply.json()).message;
  if (!reply.ok) return false;
  let rest = "";
  for await (const piece of reply.body.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + piece).split("\n\n");
    rest = frames.pop();
    for (const line of frames.flatMap((frame) => frame.split("\n"))) {
      if (line.startsWith("data: [")) for (const patch of JSON.parse(line.slice(6))) merge(patch);
    }
    show();
  }
  return true;
}

for (let goesOn = true; goesOn; ) {
  goesOn = await listen().catch(() => true);
  await new Promise((done) => setTimeout(done, 1000));
}
