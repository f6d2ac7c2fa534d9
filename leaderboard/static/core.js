"use strict";
// What every view shares: the data, the state that a link restores, filters and ranks.
// Views subscribe to the state and draw; none of them knows another.
Object.assign(window.uedp, (function () {
  const raw = JSON.parse(document.getElementById("data").textContent);
  // Rows of a large table come in scripts of their own.
  raw.rows = raw.rows.concat(...(window.uedpRows || []));
  const columns = raw.columns;
  const columnOf = new Map(columns.map((column) => [column.key, column]));
  raw.sets.forEach((set, at) => {
    set.letter = letter(at);
  });
  const LISTS = ["task", "source", "model", "set", "mechanism", "unit", "guarantee"];
  const rows = raw.rows.map(decode);
  const rowOf = new Map(rows.map((row) => [row.id, row]));

  /** Names of sets, short enough for a column: A, B, ..., Z, AA, ... */
  function letter(at) {
    const last = String.fromCharCode(65 + (at % 26));
    return at < 26 ? last : letter(Math.floor(at / 26) - 1) + last;
  }

  /** A number of the data: infinity is written as a string there. */
  function read(value) {
    return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
  }

  /**
   * A row with `values` {key: {value, low, high, n}} and `seeds` {seed: {key: value}}; low and
   * high are null where there is no interval (one seed). `facets` {filter: strings} and `text`
   * are what filters and the search look at.
   */
  function decode(row) {
    const values = {};
    for (const [at, value, low, high, n] of row.values) {
      values[columns[at].key] = { value: read(value), low: read(low), high: read(high), n };
    }
    for (const one of [...row.guarantees, ...row.bounds]) {
      one.epsilon = read(one.epsilon);
      one.curve = (one.curve || []).map(([spread, sentences, epsilon]) => ({
        spread,
        sentences,
        epsilon: read(epsilon),
      }));
    }
    const text = [row.mechanism, row.task, row.source, row.model].join(" ").toLowerCase();
    const decoded = { ...row, values, text, facets: offers(row), kinds: kindsByUnit(row) };
    // Few views ask for what single runs measured, and these ask often.
    let seeds = null;
    Object.defineProperty(decoded, "seeds", { get: () => (seeds ??= bySeed(row)), enumerable: true });
    return decoded;
  }

  /** What the runs of a row measured: {seed: {key: value}}. */
  function bySeed(row) {
    const seeds = {};
    for (const [seed, found] of Object.entries(row.seeds)) {
      seeds[seed] = {};
      row.values.forEach(([at], place) => {
        if (found[place] !== null) {
          seeds[seed][columns[at].key] = read(found[place]);
        }
      });
    }
    return seeds;
  }

  /** What guarantees say: kinds with a finite epsilon, and what is wrong with the others. */
  function kindsOf(guarantees) {
    const kinds = new Set(guarantees.filter((one) => one.epsilon < Infinity).map((one) => one.kind));
    if (!kinds.has("proven")) {
      kinds.add("not proven");
    }
    if (guarantees.some((one) => one.status === "refuted")) {
      kinds.add("claim refuted");
    }
    return [...kinds];
  }

  /** Guarantees that protect data: computation that nobody sees protects none, and spoils none. */
  function protecting(row) {
    return row.guarantees.filter((one) => one.unit !== "computation");
  }

  /** The same of every unit for which a row has a finite epsilon: a map. */
  function kindsByUnit(row) {
    const units = row.guarantees.filter((one) => one.epsilon < Infinity).map((one) => one.unit);
    return new Map([...new Set(units)].map((unit) =>
      [unit, kindsOf(row.guarantees.filter((one) => one.unit === unit))]));
  }

  /** What a row offers to each filter. */
  function offers(row) {
    return {
      task: [row.task],
      source: [row.source],
      model: [row.model],
      set: [raw.sets[row.set].id],
      mechanism: [...new Set(row.mechanisms)],
      unit: [...kindsByUnit(row).keys()],
      guarantee: kindsOf(protecting(row)),
    };
  }

  // ---------------------------------------------------------------------------------------- state

  // One flat object of strings. What is empty is left out of the link; without a link, readers
  // first see the comparable set with most mechanisms.
  const listeners = [];
  let state = parse(window.location.hash);
  let known = null;

  /** The state that a link's part from '#' on holds, or the initial one. */
  function parse(hash) {
    // Without "=", it names a place on the page.
    const text = hash.includes("=") ? hash.slice(1) : "";
    const given = Object.fromEntries(new URLSearchParams(text));
    return Object.keys(given).length ? given : { ...raw.initial };
  }

  /** The state's value of a name; "" where it has none. */
  function get(name) {
    return state[name] || "";
  }

  /** The part of a link after '#' that restores the state with some changes. */
  function link(changes) {
    const wanted = Object.entries({ ...state, ...changes }).filter(
      ([, value]) => value !== "" && value !== null && value !== undefined,
    );
    // A state without anything is not the initial one: it shows everything.
    return `#${new URLSearchParams(wanted.length ? wanted : { view: "table" })}`;
  }

  /**
   * Changes the state, the address and every view. Empty values leave the state. Another view is
   * a step that the browser's Back undoes; other changes are not.
   */
  function set(changes) {
    const address = link(changes);
    const step = "view" in changes && (changes.view || "table") !== (get("view") || "table");
    state = parse(address);
    try {
      window.history[step ? "pushState" : "replaceState"](null, "", address);
    } catch {
      // Browsers refuse too many changes in a short time; the page goes on without.
    }
    tell();
  }

  /** Calls `draw` now and whenever the state changes. */
  function subscribe(draw) {
    listeners.push(draw);
    draw();
  }

  function tell() {
    known = null;
    listeners.forEach((draw) => draw());
  }

  // The link past the header leaves the address alone: it holds the state.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });

  window.addEventListener("hashchange", () => {
    state = parse(window.location.hash);
    tell();
  });

  // -------------------------------------------------------------------------------------- filters

  // Filters that speak of one guarantee: a row passes both by the same one, not by two.
  const TWINS = { unit: "guarantee", guarantee: "unit" };

  /** What a row offers to the filter of a name, beside the filter of its twin: strings. */
  function facets(row, name) {
    const twin = get(TWINS[name]);
    if (!twin) {
      return row.facets[name];
    }
    return name === "guarantee"
      ? row.kinds.get(twin) || []
      : row.facets.unit.filter((unit) => row.kinds.get(unit).includes(twin));
  }

  /** The choices of a filter with which a row would pass all filters; "" is any. */
  function choices(row, name) {
    const twin = TWINS[name];
    if (!failed(row).every((other) => other === name || other === twin)) {
      return [];
    }
    const any = !twin || !get(twin) || row.facets[twin].includes(get(twin));
    return [...(any ? [""] : []), ...facets(row, name)];
  }

  /** The words of the search, each of which must occur. */
  function words() {
    return get("q").toLowerCase().split(/\s+/).filter(Boolean);
  }

  /** True if a row has all words of the search. */
  function found(row, sought = words()) {
    return sought.every((word) => row.text.includes(word));
  }

  /** The filters in force that a row does not pass: names. */
  function failed(row) {
    return LISTS.filter((name) => get(name) && !facets(row, name).includes(get(name)));
  }

  /** The rows that the filters leave, in the order of the data. */
  function shown() {
    if (known === null) {
      const sought = words();
      known = rows.filter((row) => found(row, sought) && !failed(row).length);
    }
    return known;
  }

  // ---------------------------------------------------------------------------------------- ranks

  /** A value of a metric as it counts against others: less than where nothing leaks is no less. */
  function worth(column, value) {
    return typeof column.nothing === "number" ? Math.max(column.nothing, value) : value;
  }

  /** How many of some ascending numbers come before a value, or before and at it. */
  function before(sorted, value, orAt) {
    let [low, high] = [0, sorted.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const counts = sorted[middle] < value || (orAt && sorted[middle] === value);
      [low, high] = counts ? [middle + 1, high] : [low, middle];
    }
    return low;
  }

  /**
   * Ranks among rows whose utility compares: a map from row id to [best, worst]; rows of one seed
   * have none. The two differ where intervals overlap: such rows are tied; so are rows that leak
   * less than nothing, for that is chance. Rows that learned nothing come after all others,
   * whatever the metric: what they do not leak they never knew.
   */
  function ranks(among, key) {
    const better = (columnOf.get(key) || {}).better;
    const places = new Map();
    if (!better) {
      return places;
    }
    const sets = new Map(among.map((row) => [row.set, { able: [], idle: [] }]));
    for (const row of among) {
      if (row.values[key] && row.values[key].low !== null) {
        sets.get(row.set)[idle(row) ? "idle" : "able"].push(row);
      }
    }
    // With the sign, less is better. A row surely beats another where its interval ends before
    // the other's starts.
    const sign = better === "higher" ? -1 : 1;
    const column = columnOf.get(key);
    const ends = (row) => [row.values[key].low, row.values[key].high]
      .map((end) => worth(column, end) * sign).sort(order);
    for (const found of sets.values()) {
      rankAmong(found.able, 0);
      rankAmong(found.idle, found.able.length);
    }
    return places;

    /** Ranks rivals among themselves, after so many others. */
    function rankAmong(rivals, others) {
      const starts = rivals.map((row) => ends(row)[0]).sort(order);
      const stops = rivals.map((row) => ends(row)[1]).sort(order);
      for (const row of rivals) {
        const [start, stop] = ends(row);
        places.set(row.id, [others + before(stops, start) + 1, others + before(starts, stop, true)]);
      }
    }
  }

  /** True if a row is no better than what needs no private text; null if nobody knows. */
  function idle(row) {
    return row.learned === false;
  }

  function order(a, b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }

  return {
    LISTS, raw, rows, rowOf, columns, columnOf, sets: raw.sets,
    get, set, link, subscribe, found, failed, choices, shown, ranks, worth, idle, protecting,
  };
})());
