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
  const before = new Map(questions().map((form) => [form.action, height(form)]));
  for (const old of document.querySelectorAll("[data-live]")) {
    const now = fresh.getElementById(old.id);
    if (!now || now.innerHTML === old.innerHTML) continue;
    const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
    old.replaceChildren(...now.childNodes);
    if (focused) (document.getElementById(focused) ?? document.querySelector("h1")).focus();
  }
  for (const form of questions()) {
    if (!before.has(form.action)) settle(form);
    else if (before.get(form.action) !== height(form)) settle(form, "moved"); // the keyboard is where it was
  }
}

const questions = () => [...document.querySelectorAll("form.question")];
const height = (form) => form.getBoundingClientRect().top;

// A question that has just come takes no answer for a moment, and one that has taken another's place none of a finger:
// who was about to press something else did not mean it. A command decides when its questions come, and when they go.
function settle(form, how = "inert") {
  form.toggleAttribute(how, true);
  setTimeout(() => form.toggleAttribute(how, false), 700);
}
questions().forEach((form) => settle(form)); // who pressed twice meant what was there before

// The rule that is shown is the rule that would be stored.
document.addEventListener("change", (event) => {
  const rule = event.target.form?.querySelector("[data-rule]");
  if (rule && event.target.name === "target") rule.textContent = rule.dataset.rule.replace("{}", () => event.target.selectedOptions[0].dataset.word);
});

// A browser has six connections to us, for all its tabs: one that nobody looks at gives back what it has.
function listen(address, acts) {
  const url = new URL(address, location.href);
  let source;
  const turn = () => {
    source?.close();
    if (document.hidden) return;
    source = new EventSource(url);
    for (const [name, act] of Object.entries(acts))
      source.addEventListener(name, (event) => {
        if (event.lastEventId) url.searchParams.set("after", event.lastEventId);
        act(event);
      });
  };
  const close = () => {
    document.removeEventListener("visibilitychange", turn);
    source?.close();
  };
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", () => source?.close());
  turn();
  return close;
}

const live = document.querySelector("[data-changes]");
if (live) {
  let waiting = 0;
  listen(live.dataset.changes, {
    changed: () => {
      clearTimeout(waiting);
      waiting = setTimeout(refresh, 50);
    },
  });
}

const output = document.querySelector("[data-events]");
if (output) {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const close = listen(output.dataset.events, {
    output: (event) => {
      const { stream, data } = JSON.parse(event.data);
      const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
      const piece = document.createElement("span");
      piece.className = stream;
      piece.textContent = plain(decoders[stream].decode(Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), { stream: true }));
      output.append(piece);
      while (output.childNodes.length > 5000) output.firstChild.remove();
      if (atEnd) output.scrollTop = output.scrollHeight;
    },
    ended: () => {
      close();
      refresh();
    },
  });
}
