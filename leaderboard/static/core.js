"use strict";
// What every view shares: the data, the state that a link restores, filters and ranks.
// Views subscribe to the state and draw; none of them knows another.
Object.assign(window.uedp, (function () {
  const raw = JSON.parse(document.getElementById("data").textContent);
  // Rows of a large table come in scripts of their own.
  raw.rows = raw.rows.concat(...(window.uedpRows || []));
  const { columns } = raw;
  const columnOf = new Map(columns.map((column) => [column.key, column]));
  const LISTS = ["task", "source", "model", "set", "mechanism", "unit", "guarantee"];
  const rows = raw.rows.map(decode);
  const rowOf = new Map(rows.map((row) => [row.id, row]));

  /** A number of the data: infinity is written as a string there. */
  function read(value) {
    return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
  }

  // A row with `values` {key: {value, low, high, n, text}} and `seeds` {seed: {key: value}}; low and high are
  // null where there is no interval. `facets` {filter: strings} and `text` are what filters and search look at.
  function decode(row) {
    const values = Object.fromEntries(row.values.map(([at, value, low, high, n, text]) =>
      [columns[at].key, { value: read(value), low: read(low), high: read(high), n, text }]));
    for (const one of [...row.guarantees, ...row.bounds]) {
      one.epsilon = read(one.epsilon);
      one.curve = (one.curve || []).map(([spread, sentences, epsilon]) => ({ spread, sentences, epsilon: read(epsilon) }));
    }
    const facets = {
      task: [row.task], source: [row.source], model: [row.model], set: [raw.sets[row.set].id],
      mechanism: [...new Set(row.mechanisms)], unit: Object.keys(row.kinds.units), guarantee: row.kinds.all,
    };
    const text = [row.mechanism, row.task, row.source, row.model].join(" ").toLowerCase();
    const decoded = { ...row, values, text, facets };
    // Few views ask for what single runs measured, and these ask often.
    let seeds = null;
    Object.defineProperty(decoded, "seeds", { get: () => (seeds ??= bySeed(row)), enumerable: true });
    return decoded;
  }

  function bySeed(row) {
    return Object.fromEntries(Object.entries(row.seeds).map(([seed, found]) => [seed, Object.fromEntries(
      row.values.map(([at], place) => [columns[at].key, read(found[place])]).filter(([, value]) => value !== null))]));
  }

  // One flat object of strings. What is empty is left out of the link; without a link, readers
  // first see the comparable set with most mechanisms.
  const listeners = [];
  let state = parse(window.location.hash);
  let left = null;

  /** The state that a link's part from '#' on holds, or the initial one. */
  function parse(hash) {
    // Without "=", it names a place on the page.
    const linked = Object.fromEntries(new URLSearchParams(hash.includes("=") ? hash.slice(1) : ""));
    return Object.keys(linked).length ? linked : { ...raw.initial };
  }

  const get = (name) => state[name] || "";

  /** The part of a link after '#' that restores the state with some changes. */
  function link(changes) {
    const wanted = Object.entries({ ...state, ...changes }).filter(([, value]) => value);
    // A state without anything is not the initial one: it shows everything.
    return `#${new URLSearchParams(wanted.length ? wanted : { view: "table" })}`;
  }

  /** Changes the state, the address and every view; another view is a step that Back undoes. */
  function set(changes) {
    const address = link(changes);
    const step = "view" in changes && (changes.view || "table") !== (get("view") || "table");
    try {
      window.history[step ? "pushState" : "replaceState"](null, "", address);
    } catch {
      // Browsers refuse too many changes in a short time; the page goes on without.
    }
    tell(address);
  }

  function subscribe(draw) {
    listeners.push(draw);
    draw();
  }

  function tell(address) {
    state = parse(address);
    left = null;
    listeners.forEach((draw) => draw());
  }

  // The link past the header leaves the address alone: it holds the state.
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  window.addEventListener("hashchange", () => tell(window.location.hash));

  // Filters that speak of one guarantee: a row passes both by the same one, not by two.
  const TWINS = { unit: "guarantee", guarantee: "unit" };

  /** What a row offers to the filter of a name, beside the filter of its twin: strings. */
  function facets(row, name) {
    const twin = get(TWINS[name]);
    const { units } = row.kinds;
    return !twin ? row.facets[name] : name === "guarantee" ? (Object.hasOwn(units, twin) ? units[twin] : [])
      : row.facets.unit.filter((unit) => units[unit].includes(twin));
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

  const matches = (row, words = get("q").toLowerCase().split(/\s+/)) => words.every((word) => row.text.includes(word));

  /** The filters in force that a row does not pass: names. */
  const failed = (row) => LISTS.filter((name) => get(name) && !facets(row, name).includes(get(name)));

  /** The rows that the filters leave, in the order of the data. */
  const shown = () => (left ??= rows.filter((row) => matches(row) && !failed(row).length));

  /** A value of a metric as it counts against others: less than where nothing leaks is no less. */
  const worth = (column, value) => typeof column.no_leak === "number" ? Math.max(column.no_leak, value) : value;

  // Ranks among rows whose utility compares: a map from row id to [best, worst]; rows of one seed have none. The two
  // differ where intervals overlap: such rows are tied. Rows that learned nothing come after all others, whatever
  // the metric: what they do not leak they never knew.
  function ranks(among, key) {
    const column = columnOf.get(key) || {};
    const sign = column.better === "higher" ? -1 : 1; // with it, less is better
    const rivals = (column.better ? among : []).filter((row) => row.values[key] && row.values[key].low !== null).map((row) => {
      const ends = [row.values[key].low, row.values[key].high].map((end) => worth(column, end) * sign);
      return { id: row.id, set: `${row.set} ${idle(row)}`, others: idle(row) ? row.set : null, start: Math.min(...ends), stop: Math.max(...ends) };
    });
    const sets = Map.groupBy(rivals, ({ set }) => set);
    // A row surely beats another where its interval ends before the other's starts.
    return new Map(rivals.map(({ id, set, others, start, stop }) => {
      const first = others === null ? 0 : (sets.get(`${others} false`) || []).length;
      const mine = sets.get(set);
      return [id, [first + 1 + mine.filter((one) => one.stop < start).length, first + mine.filter((one) => one.start <= stop).length]];
    }));
  }

  /** True if a row is no better than what needs no private text; null if nobody knows. */
  const idle = (row) => row.learned === false;

  return { LISTS, raw, rows, rowOf, columns, columnOf, sets: raw.sets, get, set, link, subscribe, matches, failed, choices, shown, ranks, worth, idle };
})());
