"use strict";
// Pages of `leaderboard serve` load themselves again when they change; what they show is in the
// link. The reader can pause that. Pages that were built for publishing do not load this file.
(function () {
  const [SECONDS, MOST_SECONDS] = [2, 30];
  const version = `"${document.querySelector('meta[name="version"]').content}"`;
  const message = document.createElement("span");
  const button = Object.assign(document.createElement("button"), { type: "button", id: "live", className: "quiet" });
  let [wait, timer] = [SECONDS, 0];

  const kept = (name, value) => window.uedpKept("sessionStorage", name, value);
  let paused = kept("uedp-paused") === "yes";

  /** Asks for this page's version, unless nobody looks; loads a new one with the focus where it is. */
  async function look() {
    const answer = await fetch(window.location.pathname, { method: "HEAD", cache: "no-store" }).catch(() => null);
    wait = answer ? SECONDS : Math.min(2 * wait, MOST_SECONDS);
    if (paused) {
      return;
    }
    message.textContent = !answer ? "The server does not answer." : answer.ok ? "" : "This page is gone: its run has no result any more.";
    if (answer?.ok && answer.headers.get("ETag") !== version) {
      kept("uedp-focus", document.activeElement ? document.activeElement.id : "");
      document.dispatchEvent(new CustomEvent("uedp:reload"));
      window.location.reload();
    }
  }

  async function follow() {
    window.clearTimeout(timer);
    if (!document.hidden && !paused) {
      await look();
    }
    timer = window.setTimeout(follow, 1000 * wait);
  }

  function show() {
    button.textContent = paused ? "Resume updates" : "Pause updates";
    message.textContent = paused ? "Updates are paused." : "";
  }

  button.addEventListener("click", () => {
    paused = !paused;
    kept("uedp-paused", paused ? "yes" : "");
    show();
    follow();
  });
  message.setAttribute("role", "status");
  message.className = "note";
  document.getElementById("theme").before(message, button);
  show();

  const focused = kept("uedp-focus");
  kept("uedp-focus", "");
  window.addEventListener("load", () => {
    const target = document.getElementById(focused);
    target?.focus({ preventScroll: true });
    if (target?.type === "search") {
      target.setSelectionRange(target.value.length, target.value.length);
    }
  });
  document.addEventListener("visibilitychange", follow);
  follow();
})();
