"use strict";
// What a comparison says, as lines of text with a cell of every row. The view shows them, the
// download writes them.
uedp.compareData = (function () {
  const { columns, sets, statOf, heading } = uedp;

  /** The letter and the title of the set of rows with which a row's utility compares. */
  function setName(row) {
    return `${sets[row.set].letter}: ${sets[row.set].title}`;
  }

  // A cell is a list of parts, {text, href, aside}; an aside explains the part before it.
  const cell = (...texts) => texts.filter(Boolean).map((text) => ({ text: String(text) }));

  /** A δ: most are powers of ten. */
  function delta(value) {
    return value ? value.toExponential() : "0";
  }

  /** A line with a cell of every row. */
  function line(label, rows, of, more = {}) {
    return { label, cells: rows.map(of), ...more };
  }

  /** The ids of the rows that the state names, each once. */
  function picked() {
    return [...new Set(uedp.get("rows").split(",").filter(Boolean))];
  }

  // -------------------------------------------------------------------------------------- settings

  /** Runs of a row, with links to their pages; failed ones say why. */
  function seeds(row) {
    return row.runs.flatMap((run) => [
      { text: `seed ${run.seed}`, href: run.page },
      ...(run.error ? [{ text: `failed: ${run.error}`, aside: true }] : []),
    ]);
  }

  /** Names of parameters without the place of their component, where that stays unique. */
  function parameterNames(keys) {
    const short = keys.map((key) => key.replace(/^(mechanism|attack)\d+\./, ""));
    return short.map((name, at) =>
      short.filter((other) => other === name).length > 1 ? keys[at] : name,
    );
  }

  /** What was run, split into what differs between the rows and what they share. */
  function settings(rows) {
    const keys = [...new Set(rows.flatMap((row) => Object.keys(row.differs)))];
    const names = parameterNames(keys);
    const all = [
      line("mechanism", rows, (row) => cell(row.label)),
      ...keys.map((key, at) => line(names[at], rows, (row) => cell(row.differs[key]))),
      line("task", rows, (row) => cell(row.task)),
      line("source", rows, (row) => cell(row.source)),
      line("model", rows, (row) => cell(row.model)),
      line("comparable set", rows, (row) => cell(setName(row))),
      line("δ asked for", rows, (row) => cell(delta(row.delta))),
      line("hyper-parameters chosen by comparing runs", rows, (row) =>
        cell(row.selection ? "yes" : "no"),
      ),
      line("device", rows, (row) => cell(row.device)),
    ];
    const differs = (one) => new Set(one.cells.map((parts) => JSON.stringify(parts))).size > 1;
    return [
      {
        title: "What differs",
        lines: [...all.filter(differs), line("runs", rows, seeds)],
      },
      { title: "What they share", lines: all.filter((one) => !differs(one)) },
    ];
  }

  // ------------------------------------------------------------------------------------ guarantees

  /** A guarantee with its δ; refusals, refutations and infinities say why. */
  function guarantee(found) {
    const text = found.notion === "metric-dp" ? `${found.text} per unit of distance` : found.text;
    const nothing = found.status === "given" && found.epsilon === Infinity;
    const conditions = nothing ? ": no protection" : `, δ = ${delta(found.delta)}`;
    const whole = found.status === "refused" ? text : text + conditions;
    const why = found.status !== "given" || found.epsilon === Infinity ? found.reason : "";
    return [{ text: whole }, ...(why ? [{ text: why, aside: true }] : [])];
  }

  /** A line for every unit and adjacency: other ones do not compare. */
  function byUnit(rows, head, of, parts) {
    const key = (found) => `${found.unit}, ${found.adjacency}`;
    const units = [...new Set(rows.flatMap((row) => of(row).map(key)))];
    return units.map((unit) =>
      line(`${head} (${unit})`, rows, (row) =>
        of(row)
          .filter((found) => key(found) === unit)
          .flatMap(parts),
      ),
    );
  }

  function guarantees(rows) {
    const kind = (name) => (row) => row.guarantees.filter((found) => found.kind === name);
    return {
      title: "guarantee",
      lines: [
        ...byUnit(rows, "claimed ε", kind("claimed"), guarantee),
        ...byUnit(rows, "proven ε", kind("proven"), guarantee),
        ...byUnit(rows, "stated ε", kind("stated"), guarantee),
        ...byUnit(
          rows,
          "ε at least",
          (row) => row.bounds,
          (bound) => [
            { text: `${bound.text}, δ = ${delta(bound.delta)}` },
            { text: `by ${bound.attack}`, aside: true },
          ],
        ),
      ],
    };
  }

  // --------------------------------------------------------------------------------------- metrics

  function measured(row, column) {
    return column.key in row.values ? cell(statOf(column, row)) : [];
  }

  /** Lines of the metrics of some kind, by group. */
  function metrics(rows, kind) {
    const had = columns.filter(
      (column) => column.kind === kind && rows.some((row) => row.values[column.key]),
    );
    return [...new Set(had.map((column) => column.group))].map((title) => ({
      title,
      lines: had
        .filter((column) => column.group === title)
        .map((column) =>
          line(heading(column), rows, (row) => measured(row, column), {
            column,
            about: column.about,
          }),
        ),
    }));
  }

  function notApplied(rows) {
    const names = [...new Set(rows.flatMap((row) => row.skipped.map((attack) => attack.name)))];
    return {
      title: "attacks without a measurement",
      lines: names.map((name) =>
        line(name, rows, (row) =>
          cell(...row.skipped.filter((one) => one.name === name).map((one) => one.reason)),
        ),
      ),
    };
  }

  /**
   * Everything that a comparison of rows shows side by side.
   * @returns {{title: string, lines: {label: string, about: ?string, column: ?object,
   *   cells: {text: string, href: ?string, aside: ?boolean}[][]}[]}[]} groups that have lines;
   *   an empty cell is one that the row does not have
   */
  function groups(rows) {
    return [
      ...settings(rows),
      ...metrics(rows, "utility"),
      guarantees(rows),
      ...metrics(rows, "leakage"),
      notApplied(rows),
      ...metrics(rows, "cost"),
      ...metrics(rows, "diagnostics"),
    ].filter((group) => group.lines.length);
  }

  return { picked, groups, setName };
})();
