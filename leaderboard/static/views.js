"use strict";
// The tabs Table, Plots and Compare: one panel shows, the link says which, arrow keys move.
(function () {
  const VIEWS = ["table", "plots", "compare"];
  const { get, set, subscribe, rowOf } = window.uedp;
  const tabs = VIEWS.map((view) => document.getElementById(`tab-${view}`));
  const plotly = document.getElementById("plotly");
  // A listener from before it is asked for hears every failure.
  plotly.addEventListener("error", () => plotly.setAttribute("data-missing", ""));

  /** The view of the link; the table where it names none that there is. */
  function view() {
    return VIEWS.includes(get("view")) ? get("view") : "table";
  }

  /** Shows the view's panel, selects its tab, and says how many rows are picked. */
  function draw() {
    VIEWS.forEach((name, at) => {
      const selected = name === view();
      tabs[at].setAttribute("aria-selected", String(selected));
      tabs[at].tabIndex = selected ? 0 : -1;
      document.getElementById(`view-${name}`).hidden = !selected;
    });
    // The script that draws is larger than all the rest: a table opens without it.
    if (view() !== "table" && !plotly.src) {
      plotly.src = plotly.dataset.src;
    }
    const picked = new Set(get("rows").split(",").filter((id) => rowOf.has(id))).size;
    document.getElementById("picked").textContent = picked ? `(${picked})` : "";
  }

  /** The tab that a key moves to, from the tab at a place; null for other keys. */
  function target(key, at) {
    const moves = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 };
    return key in moves ? (moves[key] + tabs.length) % tabs.length : null;
  }

  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => set({ view: VIEWS[at] }));
    tab.addEventListener("keydown", (event) => {
      const next = target(event.key, at);
      if (next !== null) {
        event.preventDefault();
        set({ view: VIEWS[next] });
        tabs[next].focus();
      }
    });
  });
  subscribe(draw);
})();
