"use strict";
// The comparison: rows that the reader picked side by side, tested against the first of them.
(function () {
  const { element, rowOf, sets, columnOf } = uedp;
  const { setName } = uedp.compareData;
  const view = document.getElementById("view-compare");

  /** How a row is called here: its place and its mechanism with parameters. */
  function name(row, at) {
    return `${at + 1} · ${row.mechanism}`;
  }

  /** The picked rows that the data have, the reference first. */
  function chosen() {
    return uedp.compareData
      .picked()
      .filter((id) => rowOf.has(id))
      .map((id) => rowOf.get(id));
  }

  // ------------------------------------------------------------------------------------ picked rows

  const status = element("p", { role: "status", class: "note" });
  const list = element("ol", {
    class: "compare-picked",
    tabindex: "-1",
    "aria-label": "Rows compared",
  });

  function pick(ids) {
    uedp.set({ rows: ids.join(",") });
    // The button that was pressed may be gone.
    list.focus();
  }

  /** A row of the list, with what can be done to it. */
  function item(id, ids, rows) {
    const row = rowOf.get(id);
    const rest = ids.filter((other) => other !== id);
    const label = row ? name(row, rows.indexOf(row)) : id;
    const button = (text, told, next) =>
      element("button", { type: "button", "aria-label": told, onclick: () => pick(next) }, text);
    return element(
      "li",
      {},
      element(
        "span",
        {},
        ...(row
          ? described(row, label, row === rows[0])
          : [element("span", { class: "bad" }, `Not found: these results have no row “${id}”.`)]),
      ),
      element(
        "span",
        { class: "compare-buttons" },
        row && row !== rows[0]
          ? button("Make reference", `Make ${label} the reference`, [id, ...rest])
          : null,
        button("Remove", `Remove ${label}`, rest),
      ),
    );
  }

  function described(row, label, first) {
    const errors = row.runs
      .map((run) => run.error)
      .filter(Boolean)
      .join("; ");
    return [
      element("strong", {}, label),
      first ? element("span", { class: "badge" }, "reference") : "",
      element("span", { class: "note" }, setName(row)),
      row.n === 0 ? element("span", { class: "bad" }, `No run finished: ${errors}`) : "",
    ].flatMap((part) => [part, " "]);
  }

  function drawPicked(ids, rows) {
    list.hidden = ids.length === 0;
    list.replaceChildren(...ids.map((id) => item(id, ids, rows)));
    const lost = ids.length - rows.length;
    const counted = `${rows.length} ${rows.length === 1 ? "row" : "rows"} compared`;
    const told = rows.length
      ? `${counted}; the reference is ${name(rows[0], 0)}.`
      : "No row to compare. Tick rows in the table, or add them here: two or more stand side by " +
        "side, and are tested against the first.";
    status.textContent = lost ? `${told} Not found: ${lost}.` : told;
  }

  // -------------------------------------------------------------------------------------- adding

  // What readers may pick by typing: every row under a text of its own.
  const offered = new Map();

  function offer() {
    for (const row of uedp.rows) {
      const text = `${row.mechanism}, ${setName(row)}`;
      offered.set(offered.has(text) ? `${text}, row ${row.id}` : text, row);
    }
    return [...offered.keys()].map((text) => element("option", { value: text }));
  }

  /** The row that a text names: its own text, its id, or words that no other row has. */
  function find(text) {
    const exact = offered.get(text) || rowOf.get(text);
    if (exact || !text) {
      return { row: exact, trouble: "Type the name of a mechanism, a task or a source first." };
    }
    const words = text.toLowerCase().split(/\s+/);
    const found = [...offered].filter(([one]) => words.every((w) => one.toLowerCase().includes(w)));
    return found.length === 1
      ? { row: found[0][1] }
      : { trouble: `${found.length || "No"} rows have “${text}”: pick one of the list.` };
  }

  function adder() {
    const input = element("input", {
      type: "text",
      id: "compare-add",
      list: "compare-rows",
      autocomplete: "off",
      placeholder: "mechanism, parameter, task, source",
      "aria-describedby": "compare-trouble",
    });
    const trouble = element("p", { id: "compare-trouble", role: "alert", class: "warn" });
    const add = (event) => {
      event.preventDefault();
      const ids = uedp.compareData.picked();
      const found = find(input.value.trim());
      const known = found.row && ids.includes(found.row.id);
      trouble.textContent = known ? "This row is there already." : found.row ? "" : found.trouble;
      if (found.row && !known) {
        input.value = "";
        uedp.set({ rows: [...ids, found.row.id].join(",") });
      }
    };
    return element(
      "form",
      { class: "compare-add", onsubmit: add },
      element("label", { for: "compare-add" }, "Add a row"),
      input,
      element("datalist", { id: "compare-rows" }, offer()),
      element("button", { type: "submit" }, "Add"),
      trouble,
    );
  }

  // --------------------------------------------------------------------------------- seed by seed

  const metric = element("select", {
    id: "compare-metric",
    onchange: () => uedp.set({ compareMetric: metric.value }),
  });
  const chart = element("div", { class: "compare-chart" });
  const numbers = element("div", {});

  /** Metrics that runs of the rows have, in groups. */
  function drawMetrics(rows) {
    const had = uedp.columns.filter(({ key }) =>
      rows.some((row) => uedp.significance.measures(row, key)),
    );
    const groups = [...new Set(had.map((column) => column.group))];
    metric.replaceChildren(
      ...groups.map((group) =>
        element(
          "optgroup",
          { label: group },
          had
            .filter((column) => column.group === group)
            .map((column) => element("option", { value: column.key }, uedp.heading(column))),
        ),
      ),
    );
    return had.map((column) => column.key);
  }

  function drawSeeds(rows) {
    const keys = [...metric.options].map((option) => option.value);
    const [asked, headline] = [uedp.get("compareMetric"), sets[rows[0].set].headline];
    metric.value = [asked, headline, keys[0]].find((key) => keys.includes(key));
    uedp.comparePlot.draw(chart, rows, columnOf.get(metric.value));
    numbers.replaceChildren(
      uedp.compareTables.scroll(
        "compare-seeds",
        `${uedp.heading(columnOf.get(metric.value))} by seed.`,
        uedp.comparePlot.table(rows, columnOf.get(metric.value), name),
      ),
    );
  }

  // ---------------------------------------------------------------------------------------- drawing

  const [verdict, side, tests] = [element("section", { class: "verdict", "aria-label": "Verdict" }), element("div", {}), element("div", {})];
  const download = element(
    "button",
    {
      type: "button",
      onclick: () => uedp.compareDownload.save(chosen(), uedp.compareTables.tested(chosen())),
    },
    "Download as CSV",
  );
  const seeds = element(
    "div",
    {},
    element("h3", {}, "Seed by seed"),
    element("p", {}, element("label", { for: "compare-metric" }, "Metric "), metric),
    chart,
    numbers,
  );
  const body = element(
    "div",
    {},
    element("h3", {}, "Side by side"),
    side,
    element("h3", {}, "Significance over seeds"),
    tests,
    seeds,
    element("p", {}, download),
  );
  let drawn = null;
  let plotted = null;

  /** Draws what is not drawn yet, if the view is the one that is seen. */
  function draw() {
    if (uedp.get("view") !== "compare") {
      return;
    }
    if (!view.hasChildNodes()) {
      view.append(element("h2", {}, "Compare"), status, verdict, list, adder(), body);
    }
    const [ids, rows] = [uedp.compareData.picked(), chosen()];
    if (drawn !== ids.join()) {
      drawn = ids.join();
      plotted = null;
      body.hidden = rows.length === 0;
      drawPicked(ids, rows);
      verdict.replaceChildren(...(rows.length
        ? [uedp.compareVerdict.show(rows, name, uedp.compareTables.tested(rows))] : []));
      side.replaceChildren(...(rows.length ? [uedp.compareTables.side(rows, name)] : []));
      tests.replaceChildren(...(rows.length ? uedp.compareTables.tests(rows, name) : []));
      seeds.hidden = drawMetrics(rows).length === 0;
    }
    if (!seeds.hidden && plotted !== uedp.get("compareMetric")) {
      plotted = uedp.get("compareMetric");
      drawSeeds(rows);
    }
  }

  document.addEventListener("uedp:theme", () => {
    plotted = null;
    draw();
  });
  uedp.subscribe(draw);
})();
