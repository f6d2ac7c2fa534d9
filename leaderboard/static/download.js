"use strict";
// The shown rows as files, and a link that shows them again.
(function () {
  const { link, columns, columnOf, sets, csvField, element } = window.uedp;
  const { inOrder } = window.uedp.grid;

  /** A number as the files of all results write it. */
  function plain(value) {
    return value === Infinity ? "inf" : value === -Infinity ? "-inf" : value;
  }

  /** Puts a file into the reader's hands. */
  function save(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    const anchor = element("a", { href: url, download: name });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
    document.getElementById("download-told").textContent = `${name}: ${inOrder().length} rows.`;
  }

  // ----------------------------------------------------------------------------------------- JSON

  /** Metrics of a row: {value, low, high, n, seeds: {seed: value}} by kind or attack, and name. */
  function measured(row) {
    // Names are anybody's: "__proto__" is one, too.
    const empty = () => Object.create(null);
    const groups = { utility: empty(), leakage: empty(), cost: empty(), diagnostics: empty() };
    for (const [key, found] of Object.entries(row.values)) {
      const { kind, attack, name } = columnOf.get(key);
      const seeds = Object.entries(row.seeds).filter(([, values]) => key in values);
      const value = {
        value: plain(found.value), low: plain(found.low), high: plain(found.high), n: found.n,
        seeds: Object.fromEntries(seeds.map(([seed, values]) => [seed, plain(values[key])])),
      };
      if (kind === "leakage") {
        groups.leakage[attack] = groups.leakage[attack] || empty();
        groups.leakage[attack][name] = value;
      } else {
        groups[kind][name] = value;
      }
    }
    return groups;
  }

  /** A guarantee or a bound. */
  function promise(one) {
    const curve = one.curve.map((point) => ({ ...point, epsilon: plain(point.epsilon) }));
    return { ...one, epsilon: plain(one.epsilon), curve };
  }

  /** Everything that the page knows of a row. */
  function object(row) {
    const { guarantees, bounds, values, seeds, facets, kinds, text, epsilons, id, set, ...rest } = row;
    return {
      group: id, ...rest, comparable: sets[set].title, ...measured(row),
      guarantees: guarantees.map(promise), lower_bounds: bounds.map(promise),
    };
  }

  // ------------------------------------------------------------------------------------------ CSV

  /** A metric's column as the file of all results names it: a dot in a name is no division. */
  function columnName(key) {
    const { name } = columnOf.get(key);
    const quoted = name.replace(/%/g, "%25").replace(/(?<!\d)\.|\.(?!\d)/g, "%2E");
    return key.slice(0, key.length - name.length) + quoted;
  }

  /** A row's columns and cells, named as in the file of all results. */
  function line(row) {
    const finished = row.runs.filter((run) => run.error === "");
    const cells = {
      mechanism: row.label, parameters: row.mechanism.slice(row.label.length).trim(),
      task: row.task, source: row.source, model: row.model, group: row.id,
      comparable: sets[row.set].title, seeds: finished.map((run) => run.seed).join(" "),
      failed: row.failed, delta: row.delta,
      older_code: String(row.older),
      learned: row.learned === null ? "unknown" : String(row.learned),
      ...Object.fromEntries(Object.entries(row.differs).map(([name, value]) => [`params.${name}`, value])),
    };
    for (const { key } of columns.filter((column) => column.key in row.values)) {
      const { value, low, high, n } = row.values[key];
      const name = columnName(key);
      Object.assign(cells, { [name]: value, [`${name}.low`]: low, [`${name}.high`]: high, [`${name}.n`]: n });
    }
    for (const one of row.guarantees) {
      const name = `${one.kind}.${one.unit}.${one.adjacency}`;
      for (const part of ["notion", "epsilon", "delta", "status", "reason"]) {
        cells[`${name}.${part}`] = one[part];
      }
      cells[`${name}.epsilon_is`] = one.notion === "metric-dp" ? "per unit of distance" : "";
    }
    for (const one of row.bounds) {
      const point = ["spread", "sentences"].filter((part) => one[part] !== null)
        .map((part) => `${part}=${one[part]}`);
      const name = ["at_least", one.unit, one.adjacency, ...point].join(".");
      for (const part of ["epsilon", "delta", "confidence", "attack"]) {
        cells[`${name}.${part}`] = one[part];
      }
    }
    return { ...cells, runs: row.runs.map((run) => run.id).join(" ") };
  }

  /** Rows as a CSV file with a heading. */
  function csv(rows) {
    const lines = rows.map(line);
    const names = [...new Set(lines.flatMap(Object.keys))];
    const table = [names, ...lines.map((cells) => names.map((name) => cells[name]))];
    return table.map((cells) => `${cells.map(csvField).join(",")}\n`).join("");
  }

  // ----------------------------------------------------------------------------------------- link

  /** The address that shows this view again. */
  function address() {
    return window.location.href.replace(/#.*$/s, "") + link();
  }

  /** Copies the link; where the browser forbids that, selects it for the reader. */
  async function copy() {
    const told = document.getElementById("link-told");
    const text = address();
    try {
      await window.navigator.clipboard.writeText(text);
      told.textContent = "Link copied.";
    } catch {
      const field = element("input", { type: "text", readonly: true, "aria-label": "Link to this view" });
      field.value = text;
      told.replaceChildren("Copy this link: ", field);
      field.focus();
      field.select();
    }
  }

  document.getElementById("download-csv").addEventListener("click", () => {
    save("uedp-bench.csv", "text/csv", csv(inOrder()));
  });
  document.getElementById("download-json").addEventListener("click", () => {
    save("uedp-bench.json", "application/json", `${JSON.stringify(inOrder().map(object), null, 1)}\n`);
  });
  document.getElementById("copy-link").addEventListener("click", copy);
})();
