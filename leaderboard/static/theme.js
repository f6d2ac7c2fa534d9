"use strict";
// Light or dark: what the system says, until the reader chooses. Loaded before the first paint.
(function () {
  const stored = "uedp-bench-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  /** Keeps a value, "" to forget it, or reads it. Storage may be blocked on pages that are opened from disk: comfort is lost. */
  window.uedpKept = (storage, name, value) => {
    try {
      return value === undefined ? window[storage].getItem(name) || "" : window[storage].setItem(name, value);
    } catch {
      return "";
    }
  };

  /** The theme in force: "light" or "dark". */
  function theme() {
    const chosen = window.uedpKept("localStorage", stored);
    return chosen === "light" || chosen === "dark" ? chosen : system.matches ? "dark" : "light";
  }

  /** Puts a theme on the page and tells those who draw (`uedp:theme` on the document). */
  function show(name) {
    document.documentElement.dataset.theme = name;
    // DataTables' own dark colours hang on this class.
    document.documentElement.classList.toggle("dark", name === "dark");
    document.getElementById("theme")?.replaceChildren(name === "dark" ? "Light theme" : "Dark theme");
    document.dispatchEvent(new CustomEvent("uedp:theme", { detail: name }));
  }

  // A link that holds a view shows it, and not first what is seen without.
  document.documentElement.classList.toggle("linked", window.location.hash.includes("="));
  show(theme());
  system.addEventListener("change", () => show(theme()));
  document.addEventListener("DOMContentLoaded", () => {
    show(document.documentElement.dataset.theme);
    document.getElementById("theme").addEventListener("click", () => {
      show(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
      window.uedpKept("localStorage", stored, document.documentElement.dataset.theme);
    });
  });
})();
