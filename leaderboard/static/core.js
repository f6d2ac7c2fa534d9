"use strict";
// What every view shares: the data, the state that a link restores, filters, ranks and numbers.
// Views subscribe to the state and draw; none of them knows another.
window.uedp = (function () {
  const NONE = "–";
  const raw = JSON.parse(document.getElementById("data").textContent);
  const columns = raw.columns;
  const columnOf = new Map(columns.map((column) => [column.key, column]));
  const rows = raw.rows.map(decode);
  const rowOf = new Map(rows.map((row) => [row.id, row]));

  /** A number of the data: infinity is written as a string there. */
  function read(value) {
    return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value;
  }

  /**
   * A row with `values` {key: {value, low, high, n}} and `seeds` {seed: {key: value}}; low and
   * high are null where there is no interval (one seed).
   */
  function decode(row) {
    const values = {};
    for (const [at, value, low, high, n] of row.values) {
      values[columns[at].key] = { value: read(value), low: read(low), high: read(high), n };
    }
    const seeds = {};
    for (const [seed, found] of Object.entries(row.seeds)) {
      seeds[seed] = {};
      row.values.forEach(([at], place) => {
        if (found[place] !== null) {
          seeds[seed][columns[at].key] = read(found[place]);
        }
      });
    }
    for (const one of [...row.guarantees, ...row.bounds]) {
      one.epsilon = read(one.epsilon);
      one.curve = (one.curve || []).map(([spread, sentences, epsilon]) => ({
        spread,
        sentences,
        epsilon: read(epsilon),
      }));
    }
    return { ...row, values, seeds };
  }

  // ---------------------------------------------------------------------------------------- state

  // One flat object of strings. What is empty is left out of the link; without a link, the first
  // view shows the task and source that most mechanisms share.
  const LISTS = ["task", "source", "model", "mechanism", "unit", "guarantee"];
  const listeners = [];
  let state = fromLink();

  /** The state that the address holds, or the initial one. */
  function fromLink() {
    const given = Object.fromEntries(new URLSearchParams(window.location.hash.slice(1)));
    return Object.keys(given).length ? given : { ...raw.initial };
  }

  /** The state's value of a name; "" where it has none. */
  function get(name) {
    return state[name] || "";
  }

  /** Changes the state, the address and every view. Empty values leave the state. */
  function set(changes) {
    state = { ...state, ...changes };
    for (const name of Object.keys(state)) {
      if (state[name] === "" || state[name] === null || state[name] === undefined) {
        delete state[name];
      }
    }
    // A state without anything is not the initial one: it shows everything.
    const link = new URLSearchParams(Object.keys(state).length ? state : { view: "table" });
    window.history.replaceState(null, "", `#${link}`);
    tell();
  }

  /** Calls `draw` now and whenever the state changes. */
  function subscribe(draw) {
    listeners.push(draw);
    draw();
  }

  function tell() {
    listeners.forEach((draw) => draw());
  }

  window.addEventListener("hashchange", () => {
    state = fromLink();
    tell();
  });

  // -------------------------------------------------------------------------------------- filters

  /** What a row offers to the filter of a name: strings. */
  function facets(row, name) {
    if (name === "mechanism") {
      return row.mechanisms;
    }
    if (name === "unit") {
      return [...new Set(row.guarantees.filter((g) => g.epsilon < Infinity).map((g) => g.unit))];
    }
    if (name === "guarantee") {
      const finite = row.guarantees.filter((g) => g.epsilon < Infinity);
      const found = [...new Set(finite.map((g) => g.kind))];
      if (!finite.some((g) => g.kind === "proven")) {
        found.push("not proven");
      }
      if (row.guarantees.some((g) => g.status === "refuted")) {
        found.push("claim refuted");
      }
      return found;
    }
    return [row[name]];
  }

  /** Whether a row passes all filters and the search, or all but the filter `except`. */
  function passes(row, except) {
    const words = get("q").toLowerCase().split(/\s+/).filter(Boolean);
    const text = [row.mechanism, row.task, row.source, row.model].join(" ").toLowerCase();
    return (
      words.every((word) => text.includes(word)) &&
      LISTS.every(
        (name) =>
          name === except || !get(name) || facets(row, name).includes(get(name)),
      )
    );
  }

  /** The rows that the filters leave. */
  function shown() {
    return rows.filter((row) => passes(row));
  }

  // ---------------------------------------------------------------------------------------- ranks

  /** Whether a surely beats b: both have intervals over seeds, and these do not touch. */
  function beats(a, b, better) {
    if (a.low === null || b.low === null) {
      return false;
    }
    return better === "higher" ? a.low > b.high : a.high < b.low;
  }

  /**
   * Ranks among rows whose utility compares: a map from row id to [best, worst]; rows of one seed
   * have none. The two differ where intervals overlap: such rows are tied.
   */
  function ranks(among, key) {
    const better = (columnOf.get(key) || {}).better;
    const found = new Map();
    if (!better) {
      return found;
    }
    const ranked = among.filter((row) => row.values[key] && row.values[key].low !== null);
    for (const row of ranked) {
      const mine = row.values[key];
      const rivals = ranked.filter((other) => other.set === row.set && other !== row);
      const above = rivals.filter((other) => beats(other.values[key], mine, better)).length;
      const below = rivals.filter((other) => beats(mine, other.values[key], better)).length;
      found.set(row.id, [above + 1, rivals.length + 1 - below]);
    }
    return found;
  }

  // -------------------------------------------------------------------------------------- numbers

  /** Decimals that give three figures, or more where they are whole. */
  function decimals(value) {
    const size = Math.abs(value);
    if (size >= 100 || size === 0) {
      return 0;
    }
    return size >= 10 ? 1 : size >= 0.1 ? 2 : Math.min(6, 1 - Math.floor(Math.log10(size)));
  }

  function fixed(value, places) {
    return value.toLocaleString("en", {
      minimumFractionDigits: places,
      maximumFractionDigits: places,
    });
  }

  /** A number as the tables of the command line write it. */
  function number(value) {
    if (!Number.isFinite(value)) {
      return value > 0 ? "∞" : "-∞";
    }
    return fixed(value, decimals(value));
  }

  /** Mean ± half of the interval; one seed says that it is one. */
  function stat(column, found) {
    if (!found) {
      return NONE;
    }
    const scale = column.percent ? 100 : 1;
    const mean = found.value * scale;
    if (found.low === null) {
      return `${number(mean)} (n = ${found.n})`;
    }
    if (!Number.isFinite(mean)) {
      return number(mean);
    }
    const half = ((found.high - found.low) / 2) * scale;
    return `${number(mean)} ±${fixed(half, decimals(half))}`;
  }

  /** A column's label with its unit. */
  function heading(column) {
    return column.percent ? `${column.label} %` : column.unit ? `${column.label} (${column.unit})` : column.label;
  }

  // ------------------------------------------------------------------------------------------ DOM

  /**
   * An element with attributes and children; strings become text, never markup. Attributes that
   * are functions listen: {onclick: f} adds a listener.
   */
  function element(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (typeof value === "function") {
        made.addEventListener(name.replace(/^on/, ""), value);
      } else if (value === true) {
        made.setAttribute(name, "");
      } else if (value !== false && value !== null && value !== undefined) {
        made.setAttribute(name, value);
      }
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  }

  /** Text for Plotly, which reads some markup: none of it is left. */
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  return {
    NONE, LISTS, raw, rows, rowOf, columns, columnOf, sets: raw.sets,
    get, set, subscribe, facets, passes, shown, ranks, beats,
    number, stat, heading, element, plain, decimals, fixed,
  };
})();
