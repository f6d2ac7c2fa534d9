"use strict";
// What readers do with the table: rank, choose columns, compare rows, keep a link, take files; and notes.
(function () {
  const { get, set, subscribe, shown, link, columns, columnOf, sets, csv, element, fill, save, copy } = window.uedp;
  const { optional, picked, chosen, pickedRows, preset, inOrder } = window.uedp.grid;
  const at = (id) => document.getElementById(id);
  const [metric, menu, list, presets, picks] = ["metric", "picker", "column-list", "presets", "picks"].map(at);
  let drawn = null;

  function offer(now) {
    const found = columns.filter((column) => column.better && (column.key === get("metric") || now.some((row) => column.key in row.values)));
    fill(metric, [["", "no metric"], ...found.map((column) => [column.key, `${column.heading} (${column.better} is better)`, column.group])],
      columnOf.has(get("metric")) ? get("metric") : "");
  }

  // Another metric ranks; the table is sorted by rank unless the reader sorts it.
  metric.addEventListener("change", () => {
    const free = !get("sort") || get("sort").startsWith("rank:");
    set({ metric: metric.value, ...(free ? { sort: metric.value ? "rank:asc" : "" } : {}) });
  });

  presets.addEventListener("click", ({ target }) => target.value && set({ preset: target.value === "decide" ? "" : target.value, columns: "" }));

  /** Shows or hides a column; from then on the columns are the reader's. */
  function toggle({ value, checked }) {
    const keys = new Set([...(picked() || chosen())].filter((key) => key && key !== value));
    // Without any, only the mechanism shows: the link needs something to say so.
    set({ columns: [...keys, ...(checked ? [value] : [])].map(encodeURIComponent).join(",") || "none" });
  }

  /** The menu of columns that have a value in some shown row, or that are picked. */
  function offerColumns(now) {
    const on = chosen(now);
    const offers = optional.filter((column) => on.has(column.key) || now.some(column.has));
    at("picked-columns").textContent = `(${offers.filter(({ key }) => on.has(key)).length} of ${offers.length})`;
    if (!menu.open) {
      return; // many boxes: they are made when somebody looks
    }
    const focused = list.contains(document.activeElement) ? document.activeElement.id : "";
    list.replaceChildren(...[...Map.groupBy(offers, ({ group }) => group)].map(([group, each]) => element("fieldset", {}, element("legend", {}, group), each.map((column) => {
      const id = `column-${optional.indexOf(column)}`;
      return element("div", { class: "choice" }, element("input", { type: "checkbox", id, value: column.key, checked: on.has(column.key),
        "aria-describedby": `${id}-about`, onchange: (event) => toggle(event.target) }), element("label", { for: id }, column.label), " ",
      element("span", { class: "note", id: `${id}-about` }, column.about || ""));
    }))));
    at(focused)?.focus();
  }

  /** Closes the menu; the keyboard goes on from its button. */
  function close() {
    menu.open = false;
    menu.querySelector("summary").focus();
  }

  at("reset-columns").addEventListener("click", () => set({ columns: "" }));
  at("close-columns").addEventListener("click", close);
  menu.addEventListener("toggle", () => offerColumns(shown()));
  menu.addEventListener("keydown", (event) => event.key === "Escape" && menu.open && close());
  document.addEventListener("click", (event) => {
    // What was clicked may have been replaced by now.
    menu.open &&= !event.target.isConnected || menu.contains(event.target);
  });

  function notes(now) {
    const on = chosen(now);
    const deltas = [...new Set([...now].sort((a, b) => a.delta - b.delta).map((row) => row.texts.delta))];
    const ranking = columnOf.get(get("metric"));
    at("deltas").textContent = deltas.length ? `δ = ${deltas.join(", ")}. ` : "";
    at("ranking").textContent = ranking ? `Ranks by ${ranking.heading} are among the rows shown, within a comparable set. Rows whose intervals overlap are ` +
      `tied: 1–3 is any rank from 1 to 3. A row of one seed has no interval and no rank.${ranking.floor && ` Nothing leaks at ${ranking.floor}; less is chance, and ranks as that.`}` : "";
    at("terms").replaceChildren(...optional.filter((column) => on.has(column.key) && column.about).flatMap((column) => [
      element("dt", {}, element("a", { href: `glossary.html#${column.place}` }, column.label + (column.attack ? ` (${column.group})` : ""))),
      element("dd", {}, column.about + (column.better ? `; ${column.better} is better` : "")),
    ]));
  }

  function draw() {
    if (at("view-table").hidden) {
      return;
    }
    const [now, count] = [shown(), pickedRows().length];
    picks.classList.toggle("some", count > 0);
    picks.querySelector("span").textContent = `${count} picked`;
    presets.querySelectorAll("button").forEach((button) => button.setAttribute("aria-pressed", String(!picked() && button.value === preset())));
    const key = JSON.stringify([get("metric"), get("columns"), preset(), now.map((row) => row.id)]);
    if (key !== drawn) {
      drawn = key;
      offer(now);
      offerColumns(now);
      notes(now);
    }
  }

  at("compare-picked").addEventListener("click", () => {
    set({ view: "compare" });
    at("tab-compare").focus();
  });
  at("clear-picked").addEventListener("click", () => {
    set({ rows: "" });
    at("copy-link").focus();
  });

  at("copy-link").addEventListener("click", async () => {
    const text = window.location.href.replace(/#.*$/s, "") + link();
    const copied = await copy(text);
    at("link-told").textContent = copied ? "Link copied." : text;
    if (!copied) {
      window.getSelection().selectAllChildren(at("link-told")); // for the reader to copy
    }
  });

  /** A row's columns and cells, named as in the file of all results. */
  function line(row) {
    const cells = {
      mechanism: row.label, parameters: row.mechanism.slice(row.label.length).trim(), task: row.task, source: row.source, model: row.model,
      group: row.id, comparable: sets[row.set].title, seeds: row.runs.filter((run) => run.error === "").map((run) => run.seed).join(" "),
      failed: row.failed, delta: row.delta, older_code: String(row.older), learned: String(row.learned ?? "unknown"),
    };
    const add = (name, parts) => Object.entries(parts).forEach(([part, value]) => {
      cells[part ? `${name}.${part}` : name] = value;
    });
    add("params", row.differs);
    for (const { key, name } of columns.filter((column) => column.key in row.values)) {
      const { value, low, high, n } = row.values[key];
      // A dot in a name is no division.
      const quoted = name.replace(/%/g, "%25").replace(/(?<!\d)\.|\.(?!\d)/g, "%2E");
      add(key.slice(0, key.length - name.length) + quoted, { "": value, low, high, n });
    }
    for (const { kind, unit, adjacency, notion, epsilon, delta, status, reason } of row.guarantees) {
      add(`${kind}.${unit}.${adjacency}`, { notion, epsilon, delta, status, reason, epsilon_is: notion === "metric-dp" ? "per unit of distance" : "" });
    }
    for (const { unit, adjacency, spread, sentences, epsilon, delta, confidence, attack } of row.bounds) {
      const point = Object.entries({ spread, sentences }).filter(([, value]) => value !== null).map((part) => part.join("="));
      add(["at_least", unit, adjacency, ...point].join("."), { epsilon, delta, confidence, attack });
    }
    return { ...cells, runs: row.runs.map((run) => run.id).join(" ") };
  }

  function table(rows) {
    const lines = rows.map(line);
    const names = [...new Set(lines.flatMap(Object.keys))];
    return csv([names, ...lines.map((cells) => names.map((name) => cells[name]))]);
  }

  /** The lines as JSON, which has no infinity. */
  const json = (rows) => `${JSON.stringify(rows.map(line), (_, value) => (Math.abs(value) === Infinity ? `${value < 0 ? "-" : ""}inf` : value), 1)}\n`;

  for (const [kind, type, write] of [["csv", "text/csv", table], ["json", "application/json", json]]) {
    at(`download-${kind}`).addEventListener("click", () => {
      save(`uedp-bench.${kind}`, type, write(inOrder()));
      at("download-told").textContent = `uedp-bench.${kind}: ${inOrder().length} rows.`;
    });
  }
  subscribe(draw);
})();
