"use strict";
// The table: DataTables sorts and pages what the filters leave, in the columns of a preset or those
// that the reader picked. Cells are nodes, never markup.
window.uedp.grid = (function () {
  const { LISTS, raw, columns, columnOf, sets, rowOf, get, set, shown, subscribe, ranks, element, idle, NONE } = window.uedp;
  const NOTIONS = ["dp", "metric-dp", "simulation"];
  const hidden = (text) => element("span", { class: "visually-hidden" }, text);
  const second = (text) => element("span", { class: "second" }, text);
  const place = document.getElementById("table-place");

  /** The mechanism and what tells it apart, a link to each run, and links to what its mechanisms are. */
  function mechanism(row) {
    const apart = row.mechanism.slice(row.label.length).replace(/^ \((.*)\)$/s, "$1");
    const badge = (on, name, text, href) => (on ? [element(href ? "a" : "span", { class: `badge ${name}`, href }, text), " "] : []);
    const runs = row.runs.map((run) => [" ", element("a", { href: run.page }, hidden(`${row.mechanism}, seed `), String(run.seed),
      run.error === "" ? [] : ["\u202f✗", hidden(" failed")])]);
    const names = [...new Set(row.mechanisms)];
    const about = names.map((name) => [" ", element("a", {
      href: `glossary.html#${encodeURIComponent(`mechanism-${name.replaceAll(" ", "-")}`)}`,
      "aria-label": `About ${name}: paper, code and threat model`,
    }, names.length > 1 ? `about ${name}` : "about")]);
    return element("div", {},
      element("a", { href: row.runs[0].page, class: "row-link" }, row.label, apart ? [" ", second(apart)] : []), " ",
      badge(idle(row), "warn idle", "learned nothing"), badge(row.older, "older", "older code", "glossary.html#older-code"),
      badge(row.better, "bad idle", "better than the unprotected row"),
      element("span", { class: "second" }, element("span", { "aria-hidden": "true" }, runs.length > 1 ? "seeds" : "seed"), runs, about));
  }

  /** Mean, then ± half of the interval or the one seed on a line of its own, then what stands beside it. */
  function measured(column, row) {
    const [mean, ...rest] = (row.values[column.key]?.text ?? NONE).split(" ");
    const beside = (row.beside[column.key] ?? []).map((line) => [" ", element("span", { class: "second beside" }, line)]);
    return element("div", { class: mean === NONE ? "missing" : null }, rest.length ? [`${mean} `, second(rest.join(" "))] : mean, beside);
  }

  /** A guarantee or a bound; one that is refuted or refused says so, and opens to say why. */
  function promise(one) {
    const mark = { refuted: "✗ ", refused: "⊘ " }[one.status];
    // An infinite ε is a promise of nothing: a sign alone is easily taken for much of something.
    const text = mark ? mark + one.text : one.epsilon === Infinity ? `${one.text}: no protection` : one.text;
    return mark || (one.reason && one.epsilon === Infinity) ? element("details", { class: `why ${one.status}` },
      element("summary", {}, text), element("p", {}, one.reason || "no reason is given")) : element("div", {}, text);
  }

  /** All of one kind, each once, with its conditions where they change. */
  function promises(found, row) {
    const unique = [...new Map(found.map((one) => [`${one.text},${one.under}`, one])).values()];
    const far = found.some((one) => one.notion === "metric-dp") ? row.distances : [];
    return unique.length ? element("div", {}, unique.map((one, at) =>
      [promise(one), at + 1 < unique.length && unique[at + 1].under === one.under ? [] : second(one.under)]), far.map((text) => [" ", second(text)]))
      : element("div", { class: "missing" }, NONE);
  }

  /** A rank; ties inside the interval as a range; a dash that says why where there is none. */
  function rank(row, places) {
    const [best, worst] = places.get(row.id) || [];
    const one = row.values[get("metric")];
    if (best !== undefined) {
      return element("div", {}, best === worst ? String(best) : [element("span", { "aria-hidden": "true" }, `${best}–${worst}`),
        hidden(`tied, rank ${best} to ${worst}`), " ", element("span", { class: "second", "aria-hidden": "true" }, "tied")]);
    }
    const [short, why] = !one ? ["", "not measured"] : one.n === 1 ? ["(n = 1)", "not ranked: one seed has no interval"]
      : ["(no interval)", "not ranked: its mean has no interval"];
    return element("div", { class: "missing" }, `${NONE} `, hidden(why), short ? element("span", { class: "second", "aria-hidden": "true" }, short) : []);
  }

  /** What the epsilons of a row sort by: notion, unit, adjacency and size of the first of the unit asked for. */
  function first(found) {
    const unit = get("unit");
    const fitting = found.filter((one) => (unit ? one.unit === unit : one.unit !== "computation")).map((one) =>
      (one.epsilon === Infinity ? [NOTIONS.length, "", "", Infinity] : [NOTIONS.indexOf(one.notion || "dp"), one.unit, one.adjacency, one.epsilon]));
    return fitting.sort((a, b) => compare(a, b, 1))[0] || null;
  }

  function epsilons(field) {
    const of = (row) => (field.key === "bound" ? row.bounds : row.guarantees.filter((one) => one.kind === field.key));
    return { ...field, kind: "promise", cell: (row) => promises(of(row), row), sort: (row) => first(of(row)), has: (row) => of(row).length > 0 };
  }

  const word = (field, of = (row) => row[field.key], more = {}) => ({ group: "", label: field.key, place: field.key, ...field, cell: (row) => element("div", {}, String(of(row))), sort: of, has: () => true, ...more });

  const numbers = { seeds: "n", delta: "delta" };
  const run = (field) => word(field, (row) => row.texts[field.key] ?? row[field.key], { has: (row) => row[field.key] !== "",
    ...(numbers[field.key] ? { number: true, sort: (row) => row[numbers[field.key]] } : {}) });
  const fields = raw.fields.map((field) => (field.group === "run" ? run(field) : epsilons(field)));
  const metrics = columns.map((column) => ({ ...column, label: column.heading, number: true, cell: (row) => measured(column, row),
    sort: (row) => (row.values[column.key] ? row.values[column.key].value : null), has: (row) => column.key in row.values }));
  /** What readers may pick, in the order in which the table shows it. */
  const optional = [...fields.slice(0, 7), ...metrics, ...fields.slice(7)];

  /** Columns that show before the others, whatever is picked. */
  function fixed(now) {
    const places = ranks(now, get("metric"));
    const { better } = columnOf.get(get("metric")) || {};
    const leading = (row) => row.values[get("metric")].value * (better === "higher" ? -1 : 1);
    return [
      { key: "pick", label: "compare", cell: picker, sort: () => null },
      // Sets stay together; in a set the best place counts, then the worst, then the mean.
      ...(better ? [word({ key: "rank", about: "among the rows shown, within a set" }, undefined, { number: true, cell: (row) => rank(row, places),
        sort: (row) => (places.has(row.id) ? [row.set, ...places.get(row.id), leading(row)] : null) })] : []),
      ...(new Set(now.map((row) => row.set)).size > 1 ? [word({ key: "set", about: "rows of one set compare" }, (row) => sets[row.set].letter,
        { sort: (row) => row.set })] : []),
      word({ key: "mechanism", place: "mechanisms", about: "what protects the text; a link to its first run" }, undefined, { cell: mechanism }),
    ];
  }

  /** The set of columns in force; the first unless readers choose. */
  const preset = () => (["guarantee", "leakage", "cost"].includes(get("preset")) ? get("preset") : "decide");

  /** Keys that readers picked, which may hold any character; null where they did not. */
  const picked = () => get("columns") ? new Set(get("columns").split(",").map(window.uedp.decoded)) : null;

  /** Keys of the optional columns in force: picked or of the preset, with the metric that ranks. */
  function chosen(now = shown()) {
    const varying = ["task", "source", "model"].filter((name) => !get(name) && new Set(now.map((row) => row[name])).size > 1);
    const usual = new Set([...varying, ...[...new Set(now.map((row) => row.set))].flatMap((at) => sets[at].presets[preset()])]);
    const had = () => optional.filter((column) => usual.has(column.key) && now.some(column.has)).map(({ key }) => key);
    return new Set([...(picked() || had()), get("metric")]);
  }

  let table = null; // {api, columns, shape, data}
  let drawing = false;
  const collator = new Intl.Collator("en", { numeric: true });

  /** Compares numbers as numbers and words as words; what is missing comes last either way. */
  function compare(a, b, sign) {
    if (a === null || b === null) {
      return (a === null) - (b === null);
    }
    if (Array.isArray(a)) {
      const at = a.findIndex((value, index) => value !== b[index]);
      return at < 0 ? 0 : compare(a[at], b[at], sign);
    }
    return sign * (typeof a === "string" ? collator.compare(a, b) : a < b ? -1 : a > b ? 1 : 0);
  }

  window.DataTable.type("uedp", { order: { asc: (a, b) => compare(a, b, 1), desc: (a, b) => compare(a, b, -1) } });

  /** The link's order for DataTables: [[index, direction]]; none where it names no column. */
  function wanted() {
    const [, key, direction] = /^(.*):(asc|desc)$/s.exec(get("sort")) || [];
    const at = table.columns.findIndex((column) => column.key === key);
    return at > 0 ? [[at, direction]] : [];
  }

  const order = () => table.api.order().filter((one) => one[1]).map(([at, direction]) => [at, direction]);

  function sorted() {
    const [[at, direction] = []] = order();
    const text = direction ? `${table.columns[at].key}:${direction}` : "";
    if (!drawing && text !== get("sort")) {
      set({ sort: text });
    }
  }

  const pickedRows = () => [...new Set(get("rows").split(","))].filter((id) => rowOf.has(id));

  function picker(row) {
    return element("input", { type: "checkbox", value: row.id, "aria-label": `Compare ${row.mechanism}, ${row.task}, ${row.source}, ${row.model}`,
      onchange: ({ target }) => set({ rows: [...pickedRows().filter((other) => other !== row.id), ...(target.checked ? [row.id] : [])].join(",") }) });
  }

  /** On the page of the table that shows: which rows are picked, and no pager where there is one page. */
  function mark() {
    const ids = new Set(pickedRows());
    for (const box of place.querySelectorAll("tbody input")) {
      box.checked = ids.has(box.value);
      box.closest("tr").classList.toggle("picked", box.checked);
    }
    const { pages, recordsTotal } = table.api.page.info();
    place.classList.toggle("one-page", pages < 2 && recordsTotal <= 25);
  }

  const box = document.getElementById("about-column");
  const sentence = (text) => (text ? `${text[0].toUpperCase()}${text.slice(1)}.` : "");

  /** Opens a box that says what a column is, with a link into the glossary. */
  function explain(button) {
    const column = table.columns.find(({ key }) => key === button.value);
    const [name, about, link] = ["strong", "p + p", "a"].map((selector) => box.querySelector(selector));
    name.textContent = column.label;
    about.textContent = `${sentence(column.about) || "Its component does not say what this is."} ${column.better ? sentence(`${column.better} is better`) : ""}`;
    link.hash = column.place;
    box.showPopover();
    const { left, bottom } = button.getBoundingClientRect();
    box.style.left = `${Math.max(8, Math.min(left, window.innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(bottom + 4, window.innerHeight - box.offsetHeight - 8))}px`;
    link.focus({ preventScroll: true });
  }

  // A heading sorts by what it hears; of its button it hears nothing.
  const quiet = (event) => event.stopPropagation();
  const asks = { onkeydown: quiet, onkeypress: quiet, onmousedown: quiet, onclick: (event) => {
    quiet(event);
    explain(event.currentTarget);
  } };

  function head(column, rows) {
    const pick = column.key === "pick";
    return element("th", { scope: "col", rowspan: rows, "data-dt-order": pick ? "disable" : null }, pick ? hidden(column.label)
      // A unit stays with the last word before it.
      : [column.label.replace(/ (%|\(\w+\)|ε)$/, "\u00a0$1"), " ", element("span", { class: "tail" }, column.better ? [" ",
        element("span", { class: "second", "aria-hidden": "true" }, { lower: "↓ better", higher: "↑ better" }[column.better]), hidden(`${column.better} is better`)] : [],
      " ", element("button", { type: "button", class: "about", value: column.key, "aria-label": `About ${column.label}`, "aria-haspopup": "dialog", ...asks }, "?"))]);
  }

  /** One row of headings; two where columns form groups. */
  function header(shownColumns) {
    const grouped = ({ group }) => group && group !== "run";
    const several = shownColumns.some(grouped);
    const [top, bottom] = [element("tr", {}), element("tr", {})];
    shownColumns.forEach((column, at) => {
      if (!grouped(column)) {
        top.append(head(column, several ? 2 : 1));
        return;
      }
      bottom.append(head(column, 1));
      if (at === 0 || shownColumns[at - 1].group !== column.group) {
        top.append(element("th", { scope: "colgroup", colspan: shownColumns.filter(({ group }) => group === column.group).length, class: "group",
          "data-dt-order": "disable" }, element("span", {}, column.group)));
      }
    });
    return several ? [top, bottom] : [top];
  }

  function definition(column, at) {
    const kind = column.number ? "number" : column.kind === "promise" ? "promise" : "word";
    const name = column.key === "mechanism";
    return {
      data: null, type: "uedp", orderable: column.key !== "pick", ariaTitle: column.label, cellType: name ? "th" : "td",
      orderSequence: column.better === "higher" ? ["desc", "asc", ""] : ["asc", "desc", ""],
      className: ["mechanism", "pick", "seeds"].includes(column.key) ? `${kind} column-${column.key}` : kind,
      createdCell: name ? (cell) => cell.setAttribute("scope", "row") : null,
      render: (data, type, row) => (type === "display" ? table.columns[at].cell(row) : type === "sort" ? table.columns[at].sort(row) : ""),
    };
  }

  /** A new table of some rows and columns in the place of the old one. */
  function build(now, shownColumns, shape) {
    table?.api.destroy(true);
    const titles = header(shownColumns);
    const node = element("table", { id: "leaderboard" }, element("caption", {}, element("span", { id: "caption" })), element("thead", {}, titles));
    place.replaceChildren(node);
    table = { columns: shownColumns, shape, data: "" };
    table.api = new window.DataTable(node, {
      data: now, columns: shownColumns.map(definition), order: wanted(), titleRow: titles.length - 1, autoWidth: false, searching: false,
      orderMulti: false, orderClasses: false, pageLength: 50, lengthMenu: [25, 50, 100, 250, { label: "all", value: -1 }],
      layout: { topStart: null, topEnd: null, bottomStart: ["info", "pageLength"], bottomEnd: "paging" },
      language: { entries: { _: "rows", 1: "row" }, emptyTable: "No row to show.", lengthMenu: "_MENU_ rows a page" },
    });
    node.parentElement.classList.add("region");
    for (const [name, value] of [["role", "region"], ["tabindex", "0"], ["aria-label", "Leaderboard, scrolls sideways"]]) {
      node.parentElement.setAttribute(name, value);
    }
    table.api.on("order", sorted);
    table.api.on("draw", mark);
  }

  /** Below all pages of the table: what the sets' baselines and floors are; none where there are too many sets to read them. */
  function foot(now) {
    const found = [...new Set(now.map((row) => row.set))].sort((a, b) => a - b);
    const lines = found.length > 3 ? [] : found.flatMap((at) => sets[at].references.map(({ name, text }) => element("tr", { class: "floor" },
      table.columns.map(({ key, number }) => (key === "mechanism" ? element("th", { scope: "row" }, name) : element("td", { class: number ? "number" : null },
        key === sets[at].headline ? text : key === "set" ? sets[at].letter : ""))))));
    table.api.table().node().createTFoot().replaceChildren(...lines); // DataTables takes an empty foot away
  }

  function caption(now) {
    const common = ["task", "source", "model"].filter((name) => new Set(now.map((row) => row[name])).size === 1);
    return `Mechanisms${common.length ? " of " : ""}${common.map((name) => `${name} ${now[0][name]}`).join(", ")}`;
  }

  /** Draws what has changed: other columns make a new table, other rows fill it anew. */
  function draw() {
    if (document.getElementById("view-table").hidden) {
      return;
    }
    const now = shown();
    const on = chosen(now);
    const visible = [...fixed(now), ...optional.filter((column) => on.has(column.key))];
    const shape = JSON.stringify(visible.map(({ key }) => key));
    const data = JSON.stringify(["q", "metric", ...LISTS].map(get));
    drawing = true;
    if (!table || table.shape !== shape) {
      build(now, visible, shape);
    } else if (table.data !== data) {
      table.columns = visible;
      table.api.order(wanted()).clear().rows.add(now).draw();
    } else if (JSON.stringify(order()) !== JSON.stringify(wanted())) {
      table.api.order(wanted()).draw();
    }
    drawing = false;
    table.data = data;
    foot(now);
    document.getElementById("caption").textContent = caption(now);
    mark();
  }

  /** The shown rows in the order of the table, over all its pages. */
  const inOrder = () => table ? table.api.rows({ order: "applied" }).data().toArray() : shown();

  subscribe(draw);
  return { preset, picked, chosen, optional, inOrder, pickedRows };
})();
