"use strict";
// Search, filters with the number of rows that each choice would leave, and what is shown.
(function () {
  const { LISTS, raw, rows, sets, get, set, subscribe, found, choices, shown, element } =
    window.uedp;
  const TYPING = 150; // milliseconds without a key before the search runs
  const search = document.getElementById("q");
  const summary = document.getElementById("summary");
  const selects = new Map(LISTS.map((name) => [name, document.getElementById(`filter-${name}`)]));
  const order = new Intl.Collator("en", { numeric: true }).compare;
  let told = null;
  let waiting = 0;

  /** How many rows each choice of each filter would leave, beside the other filters. */
  function counts() {
    const left = new Map(LISTS.map((name) => [name, new Map([["", 0]])]));
    for (const row of rows.filter((row) => found(row))) {
      for (const name of LISTS) {
        for (const choice of choices(row, name)) {
          left.get(name).set(choice, (left.get(name).get(choice) || 0) + 1);
        }
      }
    }
    return left;
  }

  /** All choices of a filter, in the order in which the list has them. */
  function every(name) {
    if (name === "set") {
      return sets.map((one) => one.id);
    }
    return [...new Set(rows.flatMap((row) => row.facets[name]))].sort(order);
  }

  /** What a choice is called in its list. */
  function label(name, choice) {
    if (choice === "") {
      return "any";
    }
    const of = name === "set" ? sets.find((one) => one.id === choice) : null;
    return of ? `${of.letter}: ${of.title}` : choice;
  }

  /** Fills a list: choices that would leave nothing are disabled, unless they are in force. */
  function fill(name, left) {
    const select = selects.get(name);
    if (!select.options.length) {
      select.append(...["", ...every(name)].map((value) => element("option", { value })));
    }
    const now = get(name);
    if (now && ![...select.options].some((option) => option.value === now)) {
      select.append(element("option", { value: now }));
    }
    for (const option of select.options) {
      const count = left.get(option.value) || 0;
      option.textContent = `${label(name, option.value)} (${count})`;
      option.disabled = !count && option.value !== "" && option.value !== now;
    }
    select.value = now;
    select.classList.toggle("in-force", now !== "");
  }

  // -------------------------------------------------------------------------------------- summary

  /** "1 row", "2 rows". */
  function plural(count, word) {
    return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  }

  /** How many rows and runs are shown, of how many. */
  function tally(now) {
    const runs = now.reduce((sum, row) => sum + row.runs.length, 0);
    const lost = now.reduce((sum, row) => sum + row.failed, 0);
    const failures = lost ? `, ${lost} of them failed` : "";
    return (
      `${now.length.toLocaleString("en")} of ${plural(rows.length, "row")}, ` +
      `${runs.toLocaleString("en")} of ${plural(raw.runs, "run")}${failures}.`
    );
  }

  /** The sets of the shown rows; where there are several, that ranks hold within one. */
  function comparable(now) {
    const members = new Map();
    now.forEach((row) => members.set(row.set, (members.get(row.set) || 0) + 1));
    const found = [...members].sort(([a], [b]) => a - b);
    if (found.length < 2) {
      return found.map(([at]) => element("p", {}, `All rows compare: ${sets[at].title}.`));
    }
    const items = found.map(([at, count]) =>
      element("li", {}, `${sets[at].letter}: ${sets[at].title} (${plural(count, "row")}) `,
        element("button", {
          type: "button",
          class: "small",
          "aria-label": `Show set ${sets[at].letter} only`,
          onclick: () => narrow({ set: sets[at].id }),
        }, "Show only these")),
    );
    const letters = found.map(([at]) => sets[at].letter).join(", ");
    return [
      element("details", {},
        element("summary", {},
          `Rows belong to ${found.length} sets (${letters}); ranks are within sets of rows that ` +
          "compare: same task, source, model, corpus and vocabulary."),
        element("ul", {}, items)),
    ];
  }

  /** Where nothing is left: whether the search finds rows that the filters hide. */
  function elsewhere() {
    const hidden = get("q") ? rows.filter((row) => found(row)).length : 0;
    if (!hidden) {
      const nowhere = get("q") ? "The search finds no row at all." : "The filters leave no row.";
      return [element("p", {}, rows.length ? nowhere : "There are no results yet.")];
    }
    const clear = Object.fromEntries(LISTS.map((name) => [name, ""]));
    return [
      element("p", {}, `The filters leave no row; the search finds ${plural(hidden, "row")} elsewhere. `,
        element("button", { type: "button", class: "primary", onclick: () => narrow(clear) },
          `Search without filters (${hidden})`)),
    ];
  }

  /** A button's action that replaces the button: the focus goes to the summary. */
  function narrow(changes) {
    set(changes);
    summary.focus();
  }

  // ----------------------------------------------------------------------------------------- draw

  /** Draws where filters or search have changed; the summary is read aloud each time. */
  function draw() {
    const key = JSON.stringify(["q", ...LISTS].map(get));
    if (key === told) {
      return;
    }
    told = key;
    const left = counts();
    LISTS.forEach((name) => fill(name, left.get(name)));
    if (!waiting) {
      search.value = get("q");
    }
    const active = LISTS.filter((name) => get(name)).length;
    document.getElementById("filters-in-force").textContent = active ? `(${active} in force)` : "";
    const now = shown();
    summary.replaceChildren(
      element("p", {}, tally(now)),
      ...(now.length ? comparable(now) : elsewhere()),
    );
  }

  /** Shows every row: no filter and no search. */
  function reset() {
    window.clearTimeout(waiting);
    waiting = 0;
    set(Object.fromEntries(["q", ...LISTS].map((name) => [name, ""])));
  }

  /** Runs the search once nothing has been typed for a moment. */
  function typed() {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(() => {
      set({ q: search.value.trim() });
      waiting = 0;
    }, TYPING);
  }

  selects.forEach((select, name) => {
    select.addEventListener("change", () => set({ [name]: select.value }));
  });
  search.addEventListener("input", typed);
  document.getElementById("everything").addEventListener("click", reset);
  // Small screens show the table first.
  document.getElementById("selects").open = window.matchMedia("(min-width: 701px)").matches;
  subscribe(draw);
})();
