"use strict";
// Which columns show: a preset, or what the reader picked.
Object.assign(window.uedp.grid, (function () {
  const { get, shown, sets } = window.uedp;
  const { optional, fixed, utility, others, guarantee } = window.uedp.grid;
  const BESIDE = new Set(["utility.oov_rate"]); // flatters other metrics: always beside them

  /** What a reader wants to know: [name, what it is for]. The first shows unless readers choose. */
  const PRESETS = [
    ["decide", "what is proven, what it is worth, what attacks find"],
    ["guarantee", "what is claimed, proven and refuted"],
    ["leakage", "all that attacks found"],
    ["cost", "time, memory and messages"],
  ];

  /** The preset in force. */
  function preset() {
    const known = PRESETS.map(([name]) => name);
    return known.includes(get("preset")) ? get("preset") : known[0];
  }

  const keys = (found) => found.map((column) => column.key);
  const had = (found, now) => found.filter((column) => now.some(column.has));

  /** The utilities that rank the shown rows, and what flatters them. */
  function ranked(now) {
    const heads = new Set(now.map((row) => sets[row.set].headline));
    const beside = had(utility, now).filter((column) => BESIDE.has(column.key));
    const main = utility.filter((column) => heads.has(column.key));
    return [...keys(main), ...keys(beside)];
  }

  /** Of every attack, the metric that says most. */
  function foremost(now) {
    const leaks = had(others.filter((column) => column.kind === "leakage"), now);
    return [...new Set(leaks.map((column) => column.group))].map((group) => {
      const main = leaks.filter((column) => column.group === group && column.main);
      return main.find((column) => column.better) || main[0];
    }).filter(Boolean);
  }

  const of = {
    decide: (now) => {
      // What was refuted stands beside what is proven; other claims can wait.
      const refuted = now.some((row) => row.guarantees.some((one) => one.status === "refuted"));
      const told = guarantee.filter(
        (column) => ["proven", "stated"].includes(column.key) || refuted,
      );
      return [...keys(had(told, now)), ...ranked(now), ...keys(foremost(now))];
    },
    guarantee: (now) => [...keys(had(guarantee, now)), "delta", "learned", "seeds",
      ...ranked(now).slice(0, 1)],
    leakage: (now) => ["proven", ...keys(had(others.filter(
      (column) => column.kind === "leakage" && column.main), now))],
    cost: (now) => [...ranked(now).slice(0, 1), ...keys(had(others.filter(
      (column) => column.kind === "cost" || (column.kind === "diagnostics" && column.main)), now)),
    "seeds", "device"],
  };

  /** Keys that show unless readers pick, of the preset in force. */
  function usual(now) {
    const varying = ["task", "source", "model"].filter(
      (name) => !get(name) && new Set(now.map((row) => row[name])).size > 1,
    );
    return new Set([...varying, ...of[preset()](now)]);
  }

  /** Keys that readers picked; null where they did not. Keys may hold any character. */
  function picked() {
    const text = get("columns");
    return text ? new Set(text.split(",").map(decode)) : null;
  }

  function decode(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a link that somebody shortened
    }
  }

  /** Keys of the optional columns in force: picked or usual, with the metric that ranks. */
  function chosen(now = shown()) {
    return new Set([...(picked() || usual(now)), get("metric")]);
  }

  /** The table's columns for some rows, in order. */
  function visible(now) {
    const wanted = chosen(now);
    return [...fixed(now), ...optional.filter((column) => wanted.has(column.key))];
  }

  return { PRESETS, preset, picked, chosen, visible, usual };
})());
