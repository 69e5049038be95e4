// Fetches a run's report with the token, and shows it in a frame without any rights.
const run = new URLSearchParams(location.search).get("run") ?? "", note = document.querySelector("p");
const reply = await fetch(`api/runs/${encodeURIComponent(run)}/report`, { cache: "no-store",
  headers: { Authorization: "Bearer " + sessionStorage.vibe } })
  .catch(() => Response.json({ message: "the server can't be reached" }, { status: 504 }));
if (reply.ok) {
  const frame = Object.assign(document.createElement("iframe"), { title: "Report", sandbox: "" });
  frame.src = URL.createObjectURL(await reply.blob());
  note.replaceWith(frame);
} else note.textContent = (await reply.json()).message;
