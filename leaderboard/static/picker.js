"use strict";
// What the reader picks of the table: the metric that ranks, columns, rows to compare; and notes.
(function () {
  const { get, set, subscribe, shown, columns, columnOf, heading, brief, number, element } = window.uedp;
  const { optional, picked, chosen, pickedRows, preset, PRESETS } = window.uedp.grid;
  const metric = document.getElementById("metric");
  const menu = document.getElementById("picker");
  const list = document.getElementById("column-list");
  const presets = document.getElementById("presets");
  const picks = document.getElementById("picks");
  let told = null;

  // ---------------------------------------------------------------------------------------- ranks

  /** The metrics that rank some shown row, by group. */
  function rankable(now) {
    const found = columns.filter((column) => column.better &&
      (column.key === get("metric") || now.some((row) => column.key in row.values)));
    return grouped(found);
  }

  /** Columns by group, in order. */
  function grouped(found) {
    const groups = new Map(found.map((column) => [column.group, []]));
    found.forEach((column) => groups.get(column.group).push(column));
    return groups;
  }

  /** Fills the list of metrics. */
  function offer(now) {
    const groups = [...rankable(now)].map(([label, found]) =>
      element("optgroup", { label }, found.map((column) =>
        element("option", { value: column.key },
          `${heading(column)} (${column.better} is better)`))));
    metric.replaceChildren(element("option", { value: "" }, "no metric"), ...groups);
    metric.value = columnOf.has(get("metric")) ? get("metric") : "";
  }

  /** Ranks by another metric; the table is sorted by rank unless the reader sorts it. */
  function rank() {
    const free = !get("sort") || get("sort").startsWith("rank:");
    set({ metric: metric.value, ...(free ? { sort: metric.value ? "rank:asc" : "" } : {}) });
  }

  // -------------------------------------------------------------------------------------- columns

  presets.append(...PRESETS.map(([name, about]) => element("button", {
    type: "button", value: name, title: about,
    onclick: () => set({ preset: name === PRESETS[0][0] ? "" : name, columns: "" }),
  }, name)));

  /** Marks the preset in force; none where readers picked columns themselves. */
  function press() {
    for (const button of presets.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(!picked() && button.value === preset()));
    }
  }

  /** Shows or hides a column; from then on the columns are the reader's. */
  function toggle(key, on) {
    const keys = new Set([...(picked() || chosen())].filter((other) => other !== key && other));
    if (on) {
      keys.add(key);
    }
    // Without any, only the mechanism shows: the link needs something to say so.
    set({ columns: [...keys].map(encodeURIComponent).join(",") || "none" });
  }

  /** One column's box, with what it is. */
  function choice(column, on) {
    const id = `column-${optional.indexOf(column)}`;
    return element("div", { class: "choice" },
      element("input", { type: "checkbox", id, value: column.key, checked: on,
        "aria-describedby": `${id}-about`,
        onchange: (event) => toggle(column.key, event.target.checked) }),
      element("label", { for: id }, column.label), " ",
      element("span", { class: "note", id: `${id}-about` }, column.about || ""));
  }

  /** The menu of columns that have a value in some shown row, or that are picked. */
  function fill(now) {
    const on = chosen(now);
    const groups = [...grouped(offers(now))].map(([name, found]) =>
      element("fieldset", {}, element("legend", {}, name),
        found.map((column) => choice(column, on.has(column.key)))));
    const focused = list.contains(document.activeElement) ? document.activeElement.id : "";
    list.replaceChildren(
      element("div", { class: "row" },
        element("button", { type: "button", id: "reset-columns", onclick: () => set({ columns: "" }) },
          "Reset to the preset"),
        element("button", { type: "button", onclick: close }, "Close")),
      ...groups);
    if (focused) {
      document.getElementById(focused)?.focus();
    }
  }

  /** The columns that some shown row has, or that are picked. */
  function offers(now) {
    const on = chosen(now);
    return optional.filter((column) => on.has(column.key) || now.some(column.has));
  }

  /** Says how many columns show. */
  function tally(now) {
    const [on, offered] = [chosen(now), offers(now)];
    const count = offered.filter((column) => on.has(column.key)).length;
    document.getElementById("picked-columns").textContent = `(${count} of ${offered.length})`;
  }

  /** Closes the menu; the keyboard goes on from its button. */
  function close() {
    menu.open = false;
    menu.querySelector("summary").focus();
  }

  // Many boxes: they are made when somebody looks.
  menu.addEventListener("toggle", () => menu.open && fill(shown()));
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && menu.open) {
      close();
    }
  });
  document.addEventListener("click", (event) => {
    // What was clicked may have been replaced by now.
    if (menu.open && event.target.isConnected && !menu.contains(event.target)) {
      menu.open = false;
    }
  });

  // ------------------------------------------------------------------------------- picks and notes

  /** Says how many rows are picked, with the ways on. */
  function count() {
    const rows = pickedRows().length;
    picks.classList.toggle("some", rows > 0);
    picks.querySelector("span").textContent = `${rows} picked`;
  }

  /** What the shown columns and marks mean. */
  function notes(now) {
    const on = chosen(now);
    const deltas = [...new Set(now.map((row) => row.delta))].sort((a, b) => a - b);
    const ranking = columnOf.get(get("metric"));
    const lines = [
      "± is half of the 95 % interval over seeds (Student's t); (n = 1) is one seed, without an interval.",
      `${deltas.length ? `δ = ${deltas.map(brief).join(", ")}. ` : ""}✗ marks a claim that an attack refuted, ⊘ a proof that is refused: open it for the reason.`,
      optional.some((column) => on.has(column.key) && column.kind === "promise")
        ? "Columns of ε sort within one notion, privacy unit and adjacency: others do not compare. A filter by privacy unit picks one."
        : null,
      now.some(window.uedp.idle) ? "learned nothing: no better than the best floor of its set, its interval considered. Such rows rank after all others, and stand on no front." : null,
      now.some((row) => row.better) ? "better than the unprotected row: the unprotected row of the set is under-trained, and nothing in the set says what privacy costs." : null,
      now.some((row) => row.learned === null && row.n) ? "Of some rows it is not known whether they learned anything: the column “learned” says of which." : null,
      ranking ? `Ranks by ${heading(ranking)} are among the rows shown, within a comparable set. ` +
        "Rows whose intervals overlap are tied: 1–3 is any rank from 1 to 3. A row of one seed has no interval and no rank." +
        (typeof ranking.nothing === "number" ? ` Nothing leaks at ${ranking.percent ? `${number(100 * ranking.nothing)} %` : number(ranking.nothing)}; less is chance, and ranks as that.` : "") : null,
    ];
    const terms = optional.filter((column) => on.has(column.key) && column.about).flatMap((column) => [
      element("dt", {}, element("a", { href: `glossary.html#${column.place}` },
        column.group.startsWith("leakage") ? `${column.label} (${column.group})` : column.label)),
      element("dd", {}, column.about + (column.better ? `; ${column.better} is better` : "")),
    ]);
    document.getElementById("table-notes").replaceChildren(
      ...lines.filter(Boolean).map((line) => element("p", { class: "note" }, line)),
      element("details", {}, element("summary", {}, "What the columns mean"), element("dl", {}, terms)));
  }

  // ----------------------------------------------------------------------------------------- draw

  function draw() {
    if (document.getElementById("view-table").hidden) {
      return;
    }
    const now = shown();
    const key = JSON.stringify([get("metric"), get("columns"), preset(), now.map((row) => row.id)]);
    count();
    press();
    if (key !== told) {
      told = key;
      offer(now);
      tally(now);
      if (menu.open) {
        fill(now);
      }
      notes(now);
    }
  }

  metric.addEventListener("change", rank);
  document.getElementById("compare-picked").addEventListener("click", () => {
    set({ view: "compare" });
    document.getElementById("tab-compare").focus();
  });
  document.getElementById("clear-picked").addEventListener("click", () => {
    set({ rows: "" });
    document.getElementById("copy-link").focus();
  });
  subscribe(draw);
})();
