"use strict";
// The comparison: rows that the reader picked side by side, tested against the first of them.
(function () {
  const { element, get, set, rows: all, rowOf, sets, columns, columnOf, raw, idle, subscribe, significance } = window.uedp;
  const { NONE, number, plain, lines, coloured, fill, CONFIG, csv, save } = window.uedp;
  const { optional } = window.uedp.grid;
  const SYMBOLS = ["circle", "square", "triangle-up", "cross", "star", "x", "hexagon", "pentagon"];
  const [status, sentences, list, form, body, beside, differences, seedwise, metric, chart, numbers] = ["status", "verdict", "list", "form", "body",
    "beside", "differences", "seedwise", "metric", "chart", "numbers"].map((name) => document.getElementById(`compare-${name}`));
  const setName = (row) => `${sets[row.set].letter}: ${sets[row.set].title}`;
  const name = (row, at) => `${at + 1} · ${row.mechanism}`;
  const note = (...text) => element("p", { class: "note" }, ...text);
  /** "a, b and c". */
  const listed = (words) => (words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`);

  // A cell is a list of elements.
  const cell = (...texts) => texts.filter(Boolean).map((text) => element("div", {}, String(text)));
  const line = (label, rows, of, column = {}) => ({ label, cells: rows.map(of), about: column.about, column });
  const textOf = (parts) => parts.map((part) => part.textContent).join("; ");

  function runs(row) {
    return row.runs.flatMap((run) => [element("a", { href: run.page }, `seed ${run.seed}`),
      ...(run.error ? [element("div", { class: "note" }, `failed: ${run.error}`)] : [])]);
  }

  /** What was run, split into what differs between the rows and what they share. */
  function settings(rows) {
    const keys = [...new Set(rows.flatMap((row) => Object.keys(row.differs)))];
    const short = keys.map((key) => key.replace(/^(mechanism|attack)\d+\./, ""));
    const unique = (at) => (short.indexOf(short[at]) === short.lastIndexOf(short[at]) ? short[at] : keys[at]);
    const lines = [
      line("mechanism", rows, (row) => cell(row.label)), ...keys.map((key, at) => line(unique(at), rows, (row) => cell(row.differs[key]))),
      ...optional.filter(({ group }) => group === "run").map((column) => line(column.label, rows, (row) => [column.cell(row)], column)),
      line("comparable set", rows, (row) => cell(setName(row))),
      line("hyper-parameters chosen by comparing runs", rows, (row) => cell(row.selection ? "yes" : "no")),
    ];
    const differs = (one) => new Set(one.cells.map(textOf)).size > 1;
    return [{ title: "What differs", lines: [...lines.filter(differs), line("runs", rows, runs)] },
      { title: "What they share", lines: lines.filter((one) => !differs(one)) }];
  }

  /** Everything that a comparison shows: groups {title, lines}; an empty cell is one that the row does not have. */
  function groups(rows) {
    const had = optional.filter((column) => column.group !== "run" && rows.some(column.has));
    const skipped = [...new Set(rows.flatMap((row) => row.skipped.map((attack) => attack.name)))];
    return [...settings(rows),
      ...[...Map.groupBy(had, ({ group }) => group)].map(([title, found]) => ({ title, lines: found.map((column) =>
        line(column.label, rows, (row) => (column.has(row) ? [column.cell(row)] : []), column)) })),
      { title: "attacks without a measurement", lines: skipped.map((attack) => line(attack, rows, (row) =>
        cell(...row.skipped.filter((one) => one.name === attack).map((one) => one.reason)))) },
    ].filter((group) => group.lines.length);
  }

  /** A table that scrolls by itself, with the keyboard too, below what says what it is. */
  function table(id, caption, heads, body, corner = element("td", {})) {
    return element("div", {}, element("p", { id, class: "note" }, caption),
      element("div", { class: "scroll", role: "region", "aria-labelledby": id, tabindex: "0" },
        element("table", { class: "plain compare-table", "aria-labelledby": id },
          element("thead", {}, element("tr", {}, corner, heads.map((head) => element("th", { scope: "col" }, head)))),
          body.map(({ title, lines }) => element("tbody", {},
            title ? element("tr", {}, element("th", { scope: "rowgroup", colspan: heads.length + 1, class: "compare-group" }, title)) : [],
            lines.map(({ label, about, cells }) => element("tr", {}, element("th", { scope: "row", title: about }, label), cells)))))));
  }

  function side(rows) {
    const body = groups(rows).map(({ title, lines }) => ({ title, lines: lines.map((one) => ({ ...one, cells: one.cells.map((parts) =>
      element("td", {}, parts.length ? parts.flatMap((part) => [part, " "]) : NONE)) })) }));
    return table("compare-side", "Means ± half of the 95 % interval over seeds; n = 1 is one seed, which has no interval.",
      rows.map((row, at) => [element("div", {}, name(row, at)), element("div", { class: "note" }, `${row.task} on ${row.source}, ${row.model}`)]), body);
  }

  const compares = (rows) => rows.slice(1).filter((row) => row.set === rows[0].set);

  /** A difference with its sign and its interval. */
  function difference({ difference: mean, low, high }, column) {
    if (mean === null) {
      return "";
    }
    const text = (value, sign) => number(value * (column.percent ? 100 : 1), sign);
    return text(mean, "exceptZero") + (low === null ? "" : ` [${text(low)}, ${text(high)}]`);
  }

  function result(test, column) {
    const { side: which, text } = significance.verdict(test, column);
    return element("td", {}, element("div", {}, difference(test, column)), element("div", { class: which ? null : "note" },
      which ? [element("span", { class: `badge ${which === "better" ? "good" : "bad"}` }, which), " "] : [], text));
  }

  function explained(tested, several) {
    const done = tested.map(({ tests }) => tests.filter((test) => test.p !== null)).filter((tests) => tests.length);
    const least = Math.min(...done.flat().map((test) => test.n));
    return [
      several && "p is corrected by Holm's method over the rows that are compared with the reference, metric by metric; the intervals are not.",
      done.length > 1 && `Metrics are not corrected for each other: of ${done.length} tested at 5 %, about ` +
        `${number(done.length * significance.LEVEL)} differ by chance where nothing does.`,
      least <= 5 && `With n = ${least} the power is low: no mean difference below ${number(significance.resolution(least))} standard ` +
        "deviations of the differences is seen, so “no difference seen” does not say that there is none.",
    ].filter(Boolean).map((text) => note(text));
  }

  function tests(rows, tested) {
    if (rows.length < 2) {
      return [note("Add a second row to test it against this one.")];
    }
    const refused = rows.slice(1).filter((row) => row.set !== rows[0].set).map((row) =>
      note(`No test of ${name(row, rows.indexOf(row))}: its utility does not compare with the reference's. ` +
        `It is of set ${setName(row)}; the reference of set ${setName(rows[0])}.`));
    const others = compares(rows);
    if (!tested.length) {
      return [...(others.length ? [note("There is nothing to test: no row has a metric of the reference.")] : []), ...refused];
    }
    const body = [...Map.groupBy(tested, ({ column }) => column.group)].map(([title, found]) => ({ title, lines: found.map((one) => ({
      label: one.column.heading, about: one.column.about, cells: one.tests.map((test) => result(test, one.column)) })) }));
    return [...explained(tested, others.length > 1), table("compare-tests", `Differences from the reference, ${name(rows[0], 0)}.`,
      others.map((row) => name(row, rows.indexOf(row))), body), ...refused];
  }

  /** "significantly better in perplexity", "no difference seen in leakage". */
  function differing(tested, at, kind) {
    const mine = tested.filter(({ column }) => column.kind === kind);
    const shared = (column) => tested.some((one) => one.column !== column && one.column.heading === column.heading);
    const parts = ["better", "worse"].map((which) => [which, mine.filter(({ column, tests: each }) =>
      column.main && significance.verdict(each[at], column).side === which)]).filter(([, found]) => found.length)
      .map(([which, found]) => `${which} in ${listed(found.map(({ column }) =>
        column.heading + (shared(column) ? ` (${column.attack})` : "")))}`);
    return parts.length ? `significantly ${listed(parts)}`
      : mine.some((one) => one.tests[at].p !== null) ? `no difference seen in ${kind}` : `nothing to test in ${kind}`;
  }

  /** What is proven of a row, of all units; where nothing is, what is stated. */
  function proven(row) {
    const of = (kind) => row.guarantees.filter((one) => one.kind === kind && one.epsilon < Infinity);
    const kind = ["proven", "stated"].find((one) => of(one).length);
    return kind ? `${kind} ε ${listed(of(kind).map((one) => one.text))}` : "nothing proven";
  }

  function verdict(rows, tested) {
    const others = compares(rows);
    const lines = rows.map((row, at) => {
      const end = `${proven(row)}${at ? "" : columnOf.has(sets[row.set].headline) ? `; ${columnOf.get(sets[row.set].headline).heading} ranks` : ""}.` +
        (idle(row) ? " It learned nothing." : "");
      const place = others.indexOf(row);
      const text = !at ? ` is the reference: ${end}`
        : row.set !== rows[0].set ? " does not compare with the reference: it is of another set."
          : tested.length ? `: ${differing(tested, place, "utility")}; ${differing(tested, place, "leakage")}; ${end}`
            : ` has no metric of the reference; ${end}`;
      return element("li", {}, element("strong", {}, name(row, at)), text);
    });
    return element("ul", {}, lines);
  }

  const HEAD = ["group", "line", "metric", "unit", "row", "mechanism", "value", "low", "high", "n", "reference", "difference",
    "difference_low", "difference_high", "t", "p", "p_holm", "pairs", "test"];

  /** The comparison as CSV: a record for every line and row; fractions as fractions. */
  function comparison(rows, tested) {
    const others = compares(rows);
    const records = groups(rows).flatMap(({ title, lines }) => lines.flatMap(({ label, column, cells }) => rows.map((row, at) => {
      const base = { group: title, line: label, row: row.id, mechanism: row.mechanism };
      if (!columnOf.has(column.key) || !cells[at].length) {
        return cells[at].length ? { ...base, value: textOf(cells[at]) } : null;
      }
      const found = tested.find((one) => one.column.key === column.key);
      const test = found && found.tests[others.indexOf(row)];
      const { label: line, percent, unit } = columnOf.get(column.key);
      return { ...base, ...row.values[column.key], line, metric: column.key, unit: percent ? "fraction" : unit,
        ...(test ? { reference: rows[0].id, difference: test.difference, difference_low: test.low, difference_high: test.high, t: test.t,
          p: test.p, p_holm: test.corrected, pairs: test.n, test: significance.verdict(test, columnOf.get(column.key)).text } : {}) };
    })));
    return csv([HEAD, ...records.filter(Boolean).map((one) => HEAD.map((key) => one[key]))]);
  }

  const picked = () => [...new Set(get("rows").split(",").filter(Boolean))];
  const chosen = () => picked().filter((id) => rowOf.has(id)).map((id) => rowOf.get(id));

  function item(id, ids, rows) {
    const row = rowOf.get(id);
    const label = row ? name(row, rows.indexOf(row)) : id;
    const rest = ids.filter((other) => other !== id);
    const button = (text, about, next) => element("button", { type: "button", "aria-label": about, onclick: () => {
      set({ rows: next.join(",") });
      list.focus(); // the button that was pressed may be gone
    } }, text);
    const errors = row ? row.runs.map((run) => run.error).filter(Boolean).join("; ") : "";
    return element("li", {}, element("span", {}, row ? [element("strong", {}, label), " ",
      row === rows[0] ? [element("span", { class: "badge" }, "reference"), " "] : [], element("span", { class: "note" }, setName(row)), " ",
      row.n ? [] : element("span", { class: "bad" }, `No run finished: ${errors}`)]
      : element("span", { class: "bad" }, `Not found: these results have no row “${id}”.`)),
    element("span", { class: "compare-buttons" },
      row && row !== rows[0] ? button("Make reference", `Make ${label} the reference`, [id, ...rest]) : null,
      button("Remove", `Remove ${label}`, rest)));
  }

  function drawPicked(ids, rows) {
    list.hidden = !ids.length;
    list.replaceChildren(...ids.map((id) => item(id, ids, rows)));
    const lost = ids.length - rows.length;
    status.textContent = (rows.length ? `${rows.length} ${rows.length === 1 ? "row" : "rows"} compared; the reference is ${name(rows[0], 0)}.`
      : "No row to compare. Tick rows in the table, or add them here: two or more stand side by side, and are tested against the first.") +
      (lost ? ` Not found: ${lost}.` : "");
  }

  // Rows under texts of their own, for readers who type.
  const offered = new Map();

  function offerRows() {
    for (const row of all) {
      const text = `${row.mechanism}, ${setName(row)}`;
      offered.set(offered.has(text) ? `${text}, row ${row.id}` : text, row);
    }
    fill(document.getElementById("compare-rows"), [...offered.keys()].map((text) => [text, ""]));
  }

  /** Adds the row of a text: its own, its id, or words that no other row has. */
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [input, trouble] = ["compare-add", "compare-trouble"].map((id) => document.getElementById(id));
    const text = input.value.trim();
    const words = text.toLowerCase().split(/\s+/);
    const alike = [...offered].filter(([one]) => words.every((word) => one.toLowerCase().includes(word))).map(([, row]) => row);
    const row = offered.get(text) || rowOf.get(text) || (text && alike.length === 1 ? alike[0] : null);
    const double = row && picked().includes(row.id);
    trouble.textContent = double ? "This row is there already." : row ? "" : text
      ? `${alike.length || "No"} rows have “${text}”: pick one of the list.` : "Type the name of a mechanism, a task or a source first.";
    if (row && !double) {
      input.value = "";
      set({ rows: [...picked(), row.id].join(",") });
    }
  });

  metric.addEventListener("change", () => set({ compareMetric: metric.value }));
  const script = document.getElementById("plotly");

  /** Metrics that runs of the rows have, in groups; false where none has any. */
  function offer(rows) {
    const had = columns.filter(({ key }) => rows.some((row) => significance.measures(row, key)));
    const keys = had.map(({ key }) => key);
    fill(metric, had.map((column) => [column.key, column.heading, column.group]),
      [get("compareMetric"), rows.length ? sets[rows[0].set].headline : "", keys[0]].find((key) => keys.includes(key)));
    return keys.length > 0;
  }

  /** One metric, seed by seed: lines join runs of one seed within a set; other sets are other corpora. */
  function figure(rows, column, seeds) {
    const scale = column.percent ? 100 : 1;
    const labels = rows.map((row, at) => lines(name(row, at), chart.clientWidth < 600 ? 14 : 34, 4));
    const trace = (points, more) => ({ x: points.map((one) => one[0] * scale), y: points.map((one) => labels[one[1]]),
      text: points.map((one) => one[2]), hovertemplate: "%{text}<extra></extra>", ...more });
    const ofSeed = seeds.flatMap((seed, place) => [...new Set(rows.map((row) => row.set))].map((at, first) => trace(
      rows.flatMap((row, index) => {
        const value = row.set === at && row.seeds[seed]?.[column.key];
        return Number.isFinite(value) ? [[value, index, `${plain(row.mechanism)}<br>seed ${plain(seed)}: ${number(value * scale)}`]] : [];
      }), { name: `seed ${plain(seed)}`, legendgroup: seed, showlegend: first === 0, mode: "lines+markers",
        line: { color: "var(--strong-line)", width: 1, dash: "dot" },
        marker: { symbol: SYMBOLS[place % SYMBOLS.length], size: 9, color: "var(--muted)" } })));
    const means = rows.map((row, at) => [row.values[column.key], at]).filter(([one]) => one && Number.isFinite(one.value));
    return coloured({
      data: [...ofSeed, trace(means.map(([one, at]) => [one.value, at, plain(one.text)]), {
        hovertemplate: "mean %{text}<extra></extra>", name: "mean, 95 % interval", mode: "markers",
        error_x: { array: means.map(([one]) => ((one.high - one.low) / 2) * scale), color: "var(--accent)", thickness: 2, width: 6 },
        marker: { symbol: "diamond-open", size: 13, color: "var(--accent)", line: { width: 2 } } })],
      layout: { ...raw.plot, height: 150 + 62 * rows.length, dragmode: false, margin: { l: 10, r: 15, t: 10, b: 40 },
        xaxis: { ...raw.plot.xaxis, fixedrange: true, title: { text: plain(column.heading) } },
        yaxis: { ...raw.plot.yaxis, fixedrange: true, type: "category", autorange: "reversed", categoryorder: "array", categoryarray: labels } },
    });
  }

  function drawSeeds(rows) {
    const column = columnOf.get(metric.value);
    const seeds = [...new Set(rows.flatMap((row) => Object.keys(row.seeds)))].sort((a, b) => Number(a) - Number(b));
    chart.setAttribute("aria-label", `${column.heading} of ${rows.length} rows, one point a seed; the numbers are in the table below`);
    if (window.Plotly) {
      const { data, layout } = figure(rows, column, seeds);
      window.Plotly.react(chart, data, layout, CONFIG);
    }
    const exact = (row, seed) => {
      const value = (row.seeds[seed] || {})[column.key] * (column.percent ? 100 : 1);
      return Number.isNaN(value) ? NONE : Number.isFinite(value) ? String(Number(value.toPrecision(6))) : number(value);
    };
    numbers.replaceChildren(table("compare-seeds", `${column.heading} by seed.`, rows.map(name),
      [{ lines: seeds.map((seed) => ({ label: seed, cells: rows.map((row) => element("td", {}, exact(row, seed))) })) }],
      element("th", { scope: "col" }, "seed")));
  }

  const testsOf = (rows) => (rows.length ? significance.against(rows[0], compares(rows), columns) : []);
  document.getElementById("compare-csv").addEventListener("click", () =>
    save("comparison.csv", "text/csv", comparison(chosen(), testsOf(chosen()))));
  let [drawn, plotted] = [null, null];

  function draw() {
    if (get("view") !== "compare") {
      return;
    }
    if (!offered.size) {
      offerRows();
    }
    const [ids, rows] = [picked(), chosen()];
    if (drawn !== ids.join()) {
      [drawn, plotted] = [ids.join(), null];
      const tested = testsOf(rows);
      body.hidden = !rows.length;
      drawPicked(ids, rows);
      sentences.replaceChildren(...(rows.length ? [verdict(rows, tested)] : []));
      beside.replaceChildren(...(rows.length ? [side(rows)] : []));
      differences.replaceChildren(...(rows.length ? tests(rows, tested) : []));
    }
    if (plotted !== get("compareMetric")) {
      plotted = get("compareMetric");
      seedwise.hidden = !offer(rows);
      if (!seedwise.hidden) {
        drawSeeds(rows);
      }
    }
  }

  function again() {
    plotted = null;
    draw();
  }
  script.addEventListener("load", again);
  document.addEventListener("uedp:theme", again);
  subscribe(draw);
})();
