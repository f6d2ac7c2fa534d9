"use strict";
// The table's columns: what a cell shows, what it sorts by, and where the glossary explains it.
window.uedp.grid = (function () {
  const { columns, columnOf, sets, get, ranks, statOf, heading, brief, number, element, idle, NONE } =
    window.uedp;
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
      row.older ? [element("a", { class: "badge older", href: "glossary.html#older-code" }, "older code"), " "] : [],
      row.better ? [element("span", { class: "badge bad idle" }, "better than the unprotected row"), " "] : [],
      element("span", { class: "second" },
        element("span", { "aria-hidden": "true" }, links.length > 1 ? "seeds" : "seed"), links, about(row)));
  }

  /** Links to what a row's mechanisms are: paper, code and threat model. */
  function about(row) {
    const names = [...new Set(row.mechanisms)];
    return names.map((name) => [" ", element("a", {
      href: `glossary.html#${encodeURIComponent(`mechanism-${name.replaceAll(" ", "-")}`)}`,
      "aria-label": `About ${name}: paper, code and threat model`,
    }, names.length > 1 ? `about ${name}` : "about")]);
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
      // An infinite ε is a promise of nothing: a sign alone is easily taken for much of something.
      return element("div", {}, one.epsilon === Infinity ? `${one.text}: no protection` : one.text);
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
  function epsilons(key, label, place, about, of) {
    return {
      key, label, place, about, group: "guarantee", kind: "promise",
      cell: (row) => promises(of(row), row),
      sort: (row) => first(of(row)),
      has: (row) => of(row).length > 0,
    };
  }

  /** A column of a word that every row has. */
  function word(key, about) {
    return {
      key, label: key, place: key, about, group: "run",
      cell: (row) => element("div", {}, row[key]), sort: (row) => row[key], has: () => true,
    };
  }

  const of = (kind) => (row) => row.guarantees.filter((one) => one.kind === kind);
  const WHAT = [
    word("task", "what the protected text is used for"),
    word("source", "the text"),
    word("model", "what is trained"),
  ];
  const RUN = [
    { key: "seeds", label: "seeds", place: "seeds", group: "run", number: true, cell: seeds,
      has: () => true, about: "runs that finished", sort: (row) => row.n },
    { key: "delta", label: "δ", place: "delta", group: "run", number: true, has: () => true,
      about: "of the guarantees", sort: (row) => row.delta,
      cell: (row) => element("div", {}, brief(row.delta)) },
    { key: "learned", label: "learned", place: "learned-nothing", group: "run", has: () => true,
      about: "whether the utility that ranks is surely better than the best floor",
      cell: (row) => element("div", {}, learned(row)), sort: learned },
    { ...word("device", "where the runs trained"), has: (row) => row.device !== "" },
  ];
  const GUARANTEE = [
    epsilons("proven", "proven ε", "proven", "by an accountant whose assumptions this code meets",
      of("proven")),
    epsilons("stated", "stated ε", "stated", "by a component that nobody reviewed", of("stated")),
    epsilons("claimed", "claimed ε", "claimed", "as the paper computes it", of("claimed")),
    epsilons("bound", "ε at least", "at-least",
      "what attacks refuted from below, with their confidence", (row) => row.bounds),
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
  const optional = [...WHAT, ...GUARANTEE, ...utility, ...others, ...RUN];

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
        key: "rank", label: "rank", place: "rank", number: true, group: "", about: "among the rows shown, within a set",
        cell: (row) => rank(row, places),
        // Sets stay together; in a set the best place counts, then the worst, then the mean.
        sort: (row) => (places.has(row.id) ? [row.set, ...places.get(row.id), leading(row)] : null),
      }] : []),
      ...(several ? [{
        key: "set", label: "set", place: "set", group: "", about: "rows of one set compare",
        cell: (row) => element("div", {}, sets[row.set].letter), sort: (row) => row.set,
      }] : []),
      { key: "mechanism", label: "mechanism", place: "mechanisms", group: "",
        about: "what protects the text; a link to its first run",
        cell: mechanism, sort: (row) => row.mechanism },
    ];
  }

  /**
   * The baselines and floors of the sets of some rows: [{set, name, key, text}]; none
   * where there are too many sets to read them.
   */
  function floors(now) {
    const found = [...new Set(now.map((row) => row.set))].sort((a, b) => a - b);
    return found.length > 3 ? [] : found.flatMap((at) => {
      const { headline } = sets[at];
      const column = columnOf.get(headline);
      return column ? sets[at].references
        .map((floor) => ({ set: at, name: floor.name, key: headline, ...ends(floor) }))
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

  return { optional, fixed, floors, utility, others, guarantee: GUARANTEE };
})();
