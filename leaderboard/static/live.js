"use strict";
// Pages of `leaderboard serve` load themselves again when they change; what they show is in the
// link. The reader can pause that. Pages that were built for publishing do not load this file.
(function () {
  const SECONDS = 2;
  const MOST_SECONDS = 30;
  const version = `"${document.querySelector('meta[name="version"]').content}"`;
  const button = document.createElement("button");
  const message = document.createElement("span");
  let wait = SECONDS;
  let timer = 0;

  /** Keeps a value for this tab; null removes it. Storage may be blocked: it then is forgotten. */
  function keep(name, value) {
    try {
      if (value === null) {
        window.sessionStorage.removeItem(name);
      } else {
        window.sessionStorage.setItem(name, value);
      }
    } catch {
      // Nothing is lost but comfort.
    }
  }

  /** A value that was kept in this tab, or null. */
  function kept(name) {
    try {
      return window.sessionStorage.getItem(name);
    } catch {
      return null;
    }
  }

  let paused = kept("uedp-paused") === "yes";

  /** Loads the page again, with the focus where it is. */
  function reload() {
    keep("uedp-focus", document.activeElement ? document.activeElement.id : null);
    window.location.reload();
  }

  /** Asks for this page's version, unless nobody looks. */
  async function look() {
    if (document.hidden || paused) {
      return;
    }
    try {
      const answer = await fetch(window.location.pathname, { method: "HEAD", cache: "no-store" });
      wait = SECONDS;
      if (paused) {
        return;
      }
      message.textContent = answer.ok ? "" : "This page is gone: its run has no result any more.";
      if (answer.ok && answer.headers.get("ETag") !== version) {
        reload();
      }
    } catch {
      wait = Math.min(2 * wait, MOST_SECONDS);
      message.textContent = "The server does not answer.";
    }
  }

  /** Looks now and again. */
  async function follow() {
    window.clearTimeout(timer);
    await look();
    timer = window.setTimeout(follow, 1000 * wait);
  }

  /** Shows if pages refresh. */
  function show() {
    button.textContent = paused ? "Resume updates" : "Pause updates";
    if (paused) {
      message.textContent = "Updates are paused.";
    }
  }

  button.type = "button";
  button.id = "live";
  button.className = "quiet";
  button.addEventListener("click", () => {
    paused = !paused;
    message.textContent = "";
    keep("uedp-paused", paused ? "yes" : null);
    show();
    follow();
  });
  message.setAttribute("role", "status");
  message.className = "note";
  document.getElementById("theme").before(message, button);
  show();

  const focused = kept("uedp-focus");
  keep("uedp-focus", null);
  window.addEventListener("load", () => {
    const target = focused ? document.getElementById(focused) : null;
    if (target) {
      target.focus({ preventScroll: true });
      if (target.type === "search") {
        target.setSelectionRange(target.value.length, target.value.length);
      }
    }
  });
  document.addEventListener("visibilitychange", follow);
  follow();
})();
