"use strict";
// The tabs Table, Plots and Compare; the search; filters with the number of rows that each choice
// would leave; and what is shown.
(function () {
  const { LISTS, raw, rows, rowOf, sets, get, set, subscribe, matches, choices, shown, element, fill: fillList } = window.uedp;

  const VIEWS = ["table", "plots", "compare"];
  const tabs = VIEWS.map((view) => document.getElementById(`tab-${view}`));
  const plotly = document.getElementById("plotly");
  // A listener from before it is asked for hears every failure.
  plotly.addEventListener("error", () => plotly.setAttribute("data-missing", ""));

  /** Shows the link's view, selects its tab, and says how many rows are picked. */
  function drawTabs() {
    const view = Math.max(VIEWS.indexOf(get("view")), 0);
    VIEWS.forEach((name, at) => {
      tabs[at].setAttribute("aria-selected", String(at === view));
      tabs[at].tabIndex = at === view ? 0 : -1;
      document.getElementById(`view-${name}`).hidden = at !== view;
    });
    // The script that draws is larger than all the rest: a table opens without it.
    if (view && !plotly.src) {
      plotly.src = plotly.dataset.src;
    }
    const picked = new Set(get("rows").split(",").filter((id) => rowOf.has(id))).size;
    document.getElementById("picked").textContent = picked ? `(${picked})` : "";
  }

  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => set({ view: VIEWS[at] }));
    tab.addEventListener("keydown", (event) => {
      const next = { ArrowLeft: at + tabs.length - 1, ArrowRight: at + 1, Home: 0, End: tabs.length - 1 }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        set({ view: VIEWS[next % tabs.length] });
        tabs[next % tabs.length].focus();
      }
    });
  });
  subscribe(drawTabs);

  const search = document.getElementById("q");
  const summary = document.getElementById("summary");
  const selects = new Map(LISTS.map((name) => [name, document.getElementById(`filter-${name}`)]));
  const collator = new Intl.Collator("en", { numeric: true });
  const nothing = (...more) => Object.fromEntries([...more, ...LISTS].map((name) => [name, ""]));
  const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
  const titled = (at) => `${sets[at].letter}: ${sets[at].title}`;
  let [drawn, waiting] = [null, 0];

  /** How many rows each choice of a filter would leave, beside the other filters. */
  function counts(name, found) {
    const left = new Map();
    found.flatMap((row) => choices(row, name)).forEach((choice) => left.set(choice, (left.get(choice) || 0) + 1));
    return left;
  }

  /** Fills a list: choices that would leave nothing are disabled, unless they are in force. */
  function fill(name, left) {
    const [select, now] = [selects.get(name), get(name)];
    const every = name === "set" ? sets.map(({ id }, at) => [id, titled(at)])
      : [...new Set(rows.flatMap((row) => row.facets[name]))].sort(collator.compare).map((value) => [value, value]);
    const missing = now && !every.some(([value]) => value === now) ? [[now, now]] : []; // of a link that somebody made up
    fillList(select, [["", "any"], ...every, ...missing].map(([value, text]) => [value, `${text} (${left.get(value) || 0})`]), now);
    [...select.options].forEach((option) => {
      option.disabled = !left.get(option.value) && option.value !== "" && option.value !== now;
    });
    select.classList.toggle("in-force", now !== "");
  }

  function tally(now) {
    const sum = (of) => now.reduce((total, row) => total + of(row), 0);
    const lost = sum((row) => row.failed);
    return `${now.length.toLocaleString("en")} of ${plural(rows.length, "row")}, ${sum((row) => row.runs.length).toLocaleString("en")} of ` +
      `${plural(raw.runs, "run")}${lost ? `, ${lost} of them failed` : ""}.`;
  }

  /** A button that it replaces by what it shows: the focus goes to the summary. */
  function narrow(changes, attributes, text) {
    return element("button", { type: "button", ...attributes, onclick: () => {
      set(changes);
      summary.focus();
    } }, text);
  }

  /** The sets of the shown rows; where there are several, that ranks hold within one. */
  function comparable(now) {
    const members = [...Map.groupBy(now, (row) => row.set)].sort(([a], [b]) => a - b);
    if (members.length === 1) {
      return element("p", {}, `All rows compare: ${sets[members[0][0]].title}.`);
    }
    return element("details", {},
      element("summary", {}, `Rows belong to ${members.length} sets (${members.map(([at]) => sets[at].letter).join(", ")}); ranks are within sets ` +
        "of rows that compare: same task, source, model, corpus and vocabulary."),
      element("ul", {}, members.map(([at, mine]) => element("li", {}, `${titled(at)} (${plural(mine.length, "row")}) `,
        narrow({ set: sets[at].id }, { class: "small", "aria-label": `Show set ${sets[at].letter} only` }, "Show only these")))));
  }

  function elsewhere(found) {
    return get("q") && found.length
      ? element("p", {}, `The filters leave no row; the search finds ${plural(found.length, "row")} elsewhere. `,
        narrow(nothing(), { class: "primary" }, `Search without filters (${found.length})`))
      : element("p", {}, !rows.length ? "There are no results yet." : get("q") ? "The search finds no row at all." : "The filters leave no row.");
  }

  /** Draws where filters or search have changed; the summary is read aloud each time. */
  function draw() {
    const key = JSON.stringify(["q", ...LISTS].map(get));
    if (key === drawn) {
      return;
    }
    drawn = key;
    const found = rows.filter((row) => matches(row));
    LISTS.forEach((name) => fill(name, counts(name, found)));
    if (!waiting) {
      search.value = get("q");
    }
    const active = LISTS.filter((name) => get(name)).length;
    document.getElementById("filters-in-force").textContent = active ? `(${active} in force)` : "";
    const now = shown();
    summary.replaceChildren(element("p", {}, tally(now)), now.length ? comparable(now) : elsewhere(found));
  }

  /** Searches for what is in the box. */
  function find() {
    set({ q: search.value.trim() });
    waiting = 0; // only now: `draw` leaves the box alone while somebody types
  }

  selects.forEach((select, name) => select.addEventListener("change", () => set({ [name]: select.value })));
  search.addEventListener("input", () => {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(find, 150); // milliseconds without a key
  });
  // A page that loads itself again reads from the link what was typed a moment before.
  document.addEventListener("uedp:reload", () => waiting && find());
  document.getElementById("everything").addEventListener("click", () => {
    window.clearTimeout(waiting);
    waiting = 0;
    set(nothing("q"));
  });
  // Small screens show the table first.
  document.getElementById("selects").open = window.matchMedia("(min-width: 701px)").matches;
  subscribe(draw);
})();
