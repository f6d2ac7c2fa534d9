"use strict";
// The table's columns: what a cell shows, what it sorts by, and which columns show by default.
window.uedp.grid = (function () {
  const { columns, columnOf, sets, get, shown, ranks, statOf, heading, brief, number, element, idle, NONE } =
    window.uedp;
  const LEAST = { utility: 2, leakage: 2, cost: 1, diagnostics: 0 }; // shown by default
  const BESIDE = new Set(["utility.oov_rate"]); // flatters other metrics: always beside them
  const NOTIONS = ["dp", "metric-dp", "simulation"];
  const hidden = (text) => element("span", { class: "visually-hidden" }, text);
  const second = (text) => element("span", { class: "second" }, text);

  // ---------------------------------------------------------------------------------------- cells

  /** The mechanism and what tells it apart, a link to its first run; and a link to each run. */
  function mechanism(row) {
    const apart = row.mechanism.slice(row.label.length).replace(/^ \((.*)\)$/s, "$1");
    const links = row.runs.map((run) => [" ", element("a", { href: run.page },
      hidden(`${row.mechanism}, seed `), String(run.seed),
      run.error === "" ? [] : ["\u202f✗", hidden(" failed")])]);
    return element("div", {},
      element("a", { href: row.runs[0].page, class: "row-link" }, row.label, apart ? [" ", second(apart)] : []), " ",
      idle(row) ? [element("span", { class: "badge warn idle" }, "learned nothing"), " "] : [],
      element("span", { class: "second" },
        element("span", { "aria-hidden": "true" }, links.length > 1 ? "seeds" : "seed"), links));
  }

  /** Says in words if a row is better than its floors. */
  function learned(row) {
    return { true: "yes", false: "nothing", null: "unknown" }[String(row.learned)];
  }

  /** How many runs finished, and how many failed. */
  function seeds(row) {
    return element("div", {}, row.failed ? `${row.n} (${row.failed} failed)` : String(row.n));
  }

  /** Mean, then ± half of the interval or the one seed, on a line of its own. */
  function measured(column, row) {
    const [mean, ...rest] = statOf(column, row).split(" ");
    return rest.length
      ? element("div", {}, `${mean} `, second(rest.join(" ")))
      : element("div", { class: mean === NONE ? "missing" : null }, mean);
  }

  /** What is to be known of a guarantee or a bound beside its text. */
  function conditions(one, row) {
    const notions = { "metric-dp": ", metric-dp", simulation: ", simulation" };
    // The row's own δ stands below the table; no δ at all promises more.
    const delta = one.epsilon < Infinity && one.delta && one.delta !== row.delta;
    return one.adjacency + (notions[one.notion] || "") + (delta ? `, δ = ${brief(one.delta)}` : "");
  }

  /** A guarantee or a bound; one that is refuted or refused says so, and opens to say why. */
  function promise(one) {
    const marks = { refuted: "✗", refused: "⊘" };
    if (!(one.status in marks)) {
      return element("div", {}, one.text);
    }
    return element("details", { class: `why ${one.status}` },
      element("summary", {}, `${marks[one.status]} ${one.text}`),
      element("p", {}, one.reason || "no reason is given"));
  }

  /** All of one kind, each once, with its adjacency where that changes. */
  function promises(found, row) {
    const told = (one) => [one.text, conditions(one, row)].join();
    const unique = [...new Map(found.map((one) => [told(one), one])).values()];
    const far = found.some((one) => one.notion === "metric-dp") ? row.distances : [];
    if (!unique.length) {
      return element("div", { class: "missing" }, NONE);
    }
    return element("div", {}, unique.flatMap((one, at) => {
      const next = unique[at + 1];
      const last = !next || conditions(next, row) !== conditions(one, row);
      return last ? [promise(one), second(conditions(one, row))] : [promise(one)];
    }), far.map((text) => [" ", second(text)]));
  }

  /** Why a row has no rank, in short and in words. */
  function unranked(found) {
    if (!found) {
      return ["", "not measured"];
    }
    return found.n === 1
      ? ["(n = 1)", "not ranked: one seed has no interval"]
      : ["(no interval)", "not ranked: its mean has no interval"];
  }

  /** A rank; ties inside the interval as a range; a dash that says why where there is none. */
  function rank(row, places) {
    const [best, worst] = places.get(row.id) || [];
    if (best === undefined) {
      const [short, why] = unranked(row.values[get("metric")]);
      return element("div", { class: "missing" }, `${NONE} `, hidden(why),
        short ? element("span", { class: "second", "aria-hidden": "true" }, short) : []);
    }
    if (best === worst) {
      return element("div", {}, String(best));
    }
    return element("div", {}, element("span", { "aria-hidden": "true" }, `${best}–${worst}`),
      hidden(`tied, rank ${best} to ${worst}`), " ",
      element("span", { class: "second", "aria-hidden": "true" }, "tied"));
  }

  // -------------------------------------------------------------------------------------- columns

  /** What an epsilon sorts by: others of its notion, unit and adjacency; infinities come last. */
  function comparable(one) {
    if (one.epsilon === Infinity) {
      return [NOTIONS.length, "", "", Infinity];
    }
    return [NOTIONS.indexOf(one.notion || "dp"), one.unit, one.adjacency, one.epsilon];
  }

  /** The first of some epsilons, among those of the unit that is filtered by; null for none. */
  function first(found) {
    const unit = get("unit");
    const meant = (one) => (unit ? one.unit === unit : one.unit !== "computation");
    const fitting = found.filter(meant).map(comparable);
    const before = (a, b) => {
      const at = a.findIndex((part, place) => part !== b[place]);
      return at >= 0 && a[at] < b[at];
    };
    return fitting.reduce((best, one) => (best === null || before(one, best) ? one : best), null);
  }

  /** A column of epsilons; `of` gives a row's. */
  function epsilons(key, label, about, of) {
    return {
      key, label, about, group: "guarantee", kind: "promise",
      cell: (row) => promises(of(row), row),
      sort: (row) => first(of(row)),
      has: (row) => of(row).length > 0,
    };
  }

  /** A column of a word that every row has. */
  function word(key, about) {
    return {
      key, label: key, about, group: "run",
      cell: (row) => element("div", {}, row[key]), sort: (row) => row[key], has: () => true,
    };
  }

  const of = (kind) => (row) => row.guarantees.filter((one) => one.kind === kind);
  const RUN = [
    word("task", "what the protected text is used for"),
    word("source", "the text"),
    word("model", "what is trained"),
    { key: "seeds", label: "seeds", group: "run", number: true, cell: seeds, has: () => true,
      about: "runs that finished", sort: (row) => row.n },
    { key: "delta", label: "δ", group: "run", number: true, has: () => true,
      about: "of the guarantees", sort: (row) => row.delta,
      cell: (row) => element("div", {}, brief(row.delta)) },
    { key: "learned", label: "learned", group: "run", has: () => true,
      about: "whether the utility that ranks is surely better than the best floor",
      cell: (row) => element("div", {}, learned(row)), sort: learned },
    { ...word("device", "where the runs trained"), has: (row) => row.device !== "" },
  ];
  const GUARANTEE = [
    epsilons("claimed", "claimed ε", "as the paper computes it", of("claimed")),
    epsilons("proven", "proven ε", "by an accountant whose assumptions this code meets",
      of("proven")),
    epsilons("bound", "ε at least", "what attacks refuted from below, with their confidence",
      (row) => row.bounds),
  ];

  /** A column of a metric. */
  function measure(column) {
    return {
      ...column, label: heading(column), number: true,
      cell: (row) => measured(column, row),
      sort: (row) => (row.values[column.key] ? row.values[column.key].value : null),
      has: (row) => column.key in row.values,
    };
  }

  const metrics = columns.map(measure);
  const utility = metrics.filter((column) => column.kind === "utility");
  const others = metrics.filter((column) => column.kind !== "utility");
  /** What readers may pick, in the order in which the table shows it. */
  const optional = [...RUN, ...utility, ...GUARANTEE, ...others];

  /** The value of the metric that ranks, so that less is better. */
  function leading(row) {
    const { better } = columnOf.get(get("metric"));
    return row.values[get("metric")].value * (better === "higher" ? -1 : 1);
  }

  /** Columns that show before the metrics, whatever is picked. */
  function fixed(now) {
    const several = new Set(now.map((row) => row.set)).size > 1;
    const places = ranks(now, get("metric"));
    const ranked = (columnOf.get(get("metric")) || {}).better;
    return [
      ...(ranked ? [{
        key: "rank", label: "rank", number: true, group: "", about: "among the rows shown, within a set",
        cell: (row) => rank(row, places),
        // Sets stay together; in a set the best place counts, then the worst, then the mean.
        sort: (row) => (places.has(row.id) ? [row.set, ...places.get(row.id), leading(row)] : null),
      }] : []),
      ...(several ? [{
        key: "set", label: "set", group: "", about: "rows of one set compare",
        cell: (row) => element("div", {}, sets[row.set].letter), sort: (row) => row.set,
      }] : []),
      { key: "mechanism", label: "mechanism", group: "", about: "a link to its first run",
        cell: mechanism, sort: (row) => row.mechanism },
    ];
  }

  /**
   * The floors of the sets of some rows: [{set, name, key, text}], the hardest to beat first; none
   * where there are too many sets to read them.
   */
  function floors(now) {
    const found = [...new Set(now.map((row) => row.set))].sort((a, b) => a - b);
    return found.length > 3 ? [] : found.flatMap((at) => {
      const { headline, larger_is_better: larger } = sets[at];
      const column = columnOf.get(headline);
      const sign = larger ? -1 : 1;
      return column ? sets[at].floors
        .map((floor) => ({ set: at, name: floor.name, key: headline, ...ends(floor) }))
        .sort((a, b) => sign * (larger ? a.high - b.high : a.low - b.low))
        .map((floor) => ({ ...floor, text: between(floor, column.percent ? 100 : 1) })) : [];
    });
  }

  function ends({ low, high }) {
    const read = (end) => (end === "inf" ? Infinity : end === "-inf" ? -Infinity : end);
    return { low: read(low), high: read(high) };
  }

  /** A floor as text, from the least to the largest where rows have several. */
  function between({ low, high }, scale) {
    return [...new Set([low, high].map((end) => number(end * scale)))].join(" to ");
  }

  /** Of one group of metrics, those that matter most and that some row has. */
  function foremost(group, now) {
    const main = group.filter(
      (column) => column.main && !BESIDE.has(column.key) && now.some(column.has),
    );
    const directed = main.filter((column) => column.better);
    if (!main.length) {
      return [];
    }
    const { kind } = main[0];
    const from = kind === "leakage" && directed.length ? directed : main;
    return from.slice(0, LEAST[kind]);
  }

  /** Keys that show unless readers pick: as many as can be read side by side. */
  function usual(now) {
    const tasks = [...new Set(now.map((row) => row.task))];
    const groups = [...new Set(others.map((column) => column.group))];
    const varying = ["task", "source", "model"].filter(
      (name) => !get(name) && new Set(now.map((row) => row[name])).size > 1,
    );
    return new Set([
      ...varying,
      "seeds",
      ...GUARANTEE.filter((column) => now.some(column.has)).map((column) => column.key),
      ...tasks.flatMap((task) => keys(foremost(utility, now.filter((row) => row.task === task)))),
      ...keys(utility.filter((column) => BESIDE.has(column.key) && now.some(column.has))),
      ...groups.flatMap((name) => keys(foremost(others.filter((one) => one.group === name), now))),
    ]);
  }

  function keys(found) {
    return found.map((column) => column.key);
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

  return { optional, picked, chosen, visible, usual, floors };
})();
