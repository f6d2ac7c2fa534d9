"use strict";
// What a column is: a button in its heading opens a box with a link into the glossary. It opens by
// touch and by key, and closes by Escape or a touch elsewhere.
(function () {
  const { element } = window.uedp;
  const place = document.getElementById("table-place");
  const known = new Map();
  const box = element("div", { id: "about-column", popover: "auto", role: "dialog",
    "aria-labelledby": "about-column-name" });
  document.body.append(box);

  /** The button of a column's heading. */
  function button(column) {
    known.set(column.key, column);
    return element("button", { type: "button", class: "about", value: column.key,
      "aria-label": `About ${column.label}`, "aria-haspopup": "dialog" }, "?");
  }

  function show(from) {
    const column = known.get(from.value);
    const better = column.better ? ` ${column.better[0].toUpperCase()}${column.better.slice(1)} is better.` : "";
    const about = column.about ? `${column.about[0].toUpperCase()}${column.about.slice(1)}.` : "Its component does not say what this is.";
    const link = element("a", { href: `glossary.html#${column.place}` }, "More in the glossary");
    box.replaceChildren(
      element("p", {}, element("strong", { id: "about-column-name" }, column.label)),
      element("p", {}, about + better),
      element("p", {}, link));
    box.showPopover();
    const { left, bottom } = from.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(left, window.innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(bottom + 4, window.innerHeight - box.offsetHeight - 8))}px`;
    link.focus({ preventScroll: true });
  }

  // Before the heading hears of it, for a heading sorts.
  for (const kind of ["click", "keydown", "keypress", "mousedown"]) {
    place.addEventListener(kind, (event) => {
      const from = event.target.closest("button.about");
      if (from) {
        event.stopPropagation();
        if (kind === "click") {
          show(from);
        }
      }
    }, true);
  }

  window.uedp.grid.about = button;
})();
