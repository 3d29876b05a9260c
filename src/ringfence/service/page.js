"use strict";
// Two things: what has `data-live` is fetched again when the server says that something changed, and what has
// `data-events` shows a run's output as it comes. Without this script the page shows the same when it is loaded again.

const plain = (text) => text.replace(/\x1b\[[0-9;?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "");

function refresh() {
  const asked = new XMLHttpRequest(); // which gives a document, where a parser of strings would be a way in for scripts
  asked.responseType = "document";
  asked.onload = () => (asked.status === 200 && asked.response ? show(asked.response) : location.reload());
  asked.open("GET", location.href);
  asked.send();
}

function show(fresh) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    if (!now || now.innerHTML === old.innerHTML) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    const known = new Set([...old.querySelectorAll("form.question")].map((form) => form.action));
    old.replaceChildren(...now.childNodes);
    for (const form of old.querySelectorAll("form.question")) if (!known.has(form.action)) settle(form);
    if (focused) (document.getElementById(focused) ?? document.querySelector("h1")).focus();
  }
}

// A question that has just come takes no answer for a moment: who was about to press something else did not mean it.
function settle(form) {
  form.inert = true;
  setTimeout(() => (form.inert = false), 700);
}

// The rule that is shown is the rule that would be stored.
document.addEventListener("change", (event) => {
  const rule = event.target.form?.querySelector("[data-rule]");
  if (rule && event.target.name === "target") rule.textContent = rule.dataset.rule.replace("{}", () => event.target.selectedOptions[0].dataset.word);
});

const live = document.querySelector("[data-changes]");
if (live) {
  let waiting = 0;
  const source = new EventSource(live.dataset.changes);
  source.addEventListener("changed", () => {
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 50);
  });
  addEventListener("pagehide", () => source.close());
}

const output = document.querySelector("[data-events]");
if (output) {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const source = new EventSource(output.dataset.events);
  source.addEventListener("output", (event) => {
    const { stream, data } = JSON.parse(event.data);
    const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
    const piece = document.createElement("span");
    piece.className = stream;
    piece.textContent = plain(decoders[stream].decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), { stream: true }));
    output.append(piece);
    while (output.childNodes.length > 5000) output.firstChild.remove();
    if (atEnd) output.scrollTop = output.scrollHeight;
  });
  source.addEventListener("ended", () => {
    source.close();
    refresh();
  });
  addEventListener("pagehide", () => source.close());
}
