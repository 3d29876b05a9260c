"use strict";
// Two things: what has `data-live` is fetched again when the server says that something changed, and what has
// `data-events` shows a run's output as it comes. Without this script the page shows the same when it is loaded again.

const plain = (text) => text.replace(/\x1b\[[0-9;?]{0,64}[ -/]{0,8}[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "");

let waiting = 0;
function soon(wait) {
  waiting ||= setTimeout(refresh, wait);
}

const LATER = 5000; // for who is told that it is too often, or finds nobody
function refresh() {
  waiting = 0;
  const asked = new XMLHttpRequest(); // which gives a document, where a parser of strings would be a way in for scripts
  asked.responseType = "document";
  asked.onload = () => {
    if (asked.status === 429 || asked.status >= 500) soon(LATER);
    else if (asked.status === 200 && asked.response?.querySelector("[data-live]")) show(asked.response);
    else location.reload(); // to log in, for one; what stands here is not true any more
  };
  asked.onerror = () => soon(LATER);
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
    if (!before.has(form.action)) settle(form, "inert");
    else if (before.get(form.action) !== height(form)) settle(form, "moved"); // the keyboard is where it was
  }
  calm();
}

const questions = () => [...document.querySelectorAll("form.question")];
const height = (form) => form.getBoundingClientRect().top;

// A question that has just come takes no answer for a moment, and one that has taken another's place none of a finger:
// who was about to press something else did not mean it. A command decides when its questions come, and when they go; and
// each makes the forms of all of them anew.
const until = { inert: new Map(), moved: new Map() };
function settle(form, how) {
  until[how].set(form.action, performance.now() + 700);
}
function calm() {
  for (const form of questions())
    for (const [how, ends] of Object.entries(until)) {
      const left = (ends.get(form.action) ?? 0) - performance.now();
      form.toggleAttribute(how, left > 0);
      if (left > 0) setTimeout(calm, left);
    }
}
for (const form of questions()) settle(form, "inert"); // who pressed twice meant what was there before
calm();

// The rule that is shown is the rule that would be stored.
document.addEventListener("change", (event) => {
  const rule = event.target.form?.querySelector("[data-rule]");
  if (rule && event.target.name === "target") rule.textContent = rule.dataset.rule.replace("{}", () => event.target.selectedOptions[0].dataset.word);
});

// A browser has six connections to us, for all its tabs: one that nobody looks at gives back what it has.
function listen(address, acts) {
  const url = new URL(address, location.href);
  let source, over;
  const turn = () => {
    source?.close();
    if (document.hidden || over) return;
    source = new EventSource(url);
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return; // it tries again by itself
      soon(200);
      setTimeout(turn, LATER);
    };
    for (const [name, act] of Object.entries(acts))
      source.addEventListener(name, (event) => {
        if (event.lastEventId) url.searchParams.set("after", event.lastEventId);
        act(event);
      });
  };
  document.addEventListener("visibilitychange", turn);
  addEventListener("pagehide", () => source?.close());
  turn();
  return () => {
    over = true;
    source.close();
  };
}

const live = document.querySelector("[data-changes]");
if (live) listen(live.dataset.changes, { changed: () => soon(200) });

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
