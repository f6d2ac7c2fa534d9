"use strict";
// What the plots show, as pure functions of rows: which metrics and budgets there are to choose
// from, what is chosen, where values stand on an axis, and who dominates whom.
uedp.plotData = (function () {
  /** How many rows offer each key: a map, in the order in which rows first do. */
  function tally(rows, keysOf) {
    const counts = new Map();
    for (const row of rows) {
      for (const key of new Set(keysOf(row))) {
        counts.set(key, (counts.get(key) || 0) + 1);
      }
    }
    return counts;
  }

  /** The key with the highest count, the first of several; undefined of none. */
  function most(counts) {
    return [...counts].reduce((best, one) => (best && best[1] >= one[1] ? best : one), null)?.[0];
  }

  /** The comparable sets of rows, the largest first: [{at, id, name, rows}]. */
  function sets(rows) {
    const found = [...tally(rows, (row) => [row.set])].sort((a, b) => b[1] - a[1]);
    return found.map(([at]) => ({
      at,
      id: uedp.sets[at].id,
      name: `${uedp.sets[at].letter}: ${uedp.sets[at].title}`,
      rows: rows.filter((row) => row.set === at),
    }));
  }

  // -------------------------------------------------------------------------------------- budgets

  /** Privacy units, notions of privacy and adjacencies are never on one axis. */
  function budgetKey(guarantee) {
    return [guarantee.unit, guarantee.notion, guarantee.adjacency].join(":");
  }

  /** A budget's key as words. */
  function budgetLabel(key) {
    const [unit, notion, adjacency] = key.split(":");
    return notion === "dp" ? `${unit}, ${adjacency}` : `${unit}, ${adjacency}, ${notion}`;
  }

  function finite(row, kind) {
    return uedp.protecting(row).filter((one) => one.epsilon < Infinity && (!kind || one.kind === kind));
  }

  /** How many rows have a finite epsilon of each budget: a map by key. */
  function budgets(rows, kind) {
    return tally(rows, (row) => finite(row, kind).map(budgetKey));
  }

  /** True if nothing is proven for a row, of any unit: it protects nothing. */
  function promisesNothing(row) {
    const proven = uedp.protecting(row).filter((one) => one.kind === "proven");
    return proven.length > 0 && proven.every((one) => one.epsilon === Infinity);
  }

  /**
   * A row's epsilon for a budget: {epsilon, text, refuted}; infinite where the row is known to
   * promise nothing for it, null where nothing is known (guarantees of other units only).
   */
  function budget(row, key, kind) {
    const [unit, , adjacency] = key.split(":");
    const mine = uedp.protecting(row).filter((one) => one.kind === kind);
    const exact = mine.filter((one) => budgetKey(one) === key && one.epsilon < Infinity);
    if (exact.length) {
      // All that is proven holds, so the least does; of several claims the most cautious counts.
      const sign = kind === "proven" ? 1 : -1;
      const found = exact.reduce((a, b) => (sign * b.epsilon < sign * a.epsilon ? b : a));
      const refuted = found.status === "refuted";
      return { epsilon: found.epsilon, text: found.text, refuted };
    }
    const refused = mine.some(
      (one) => one.unit === unit && one.adjacency === adjacency && one.epsilon === Infinity,
    );
    if (refused || (promisesNothing(row) && !mine.some((one) => one.epsilon < Infinity))) {
      return { epsilon: Infinity, text: `∞ (nothing ${kind} for ${unit})`, refuted: false };
    }
    return null;
  }

  // -------------------------------------------------------------------------------------- choices

  /** True if plots offer a metric: it says which way is better, or nobody knows it. */
  function drawable(column) {
    return Boolean(column.better) || !column.about;
  }

  /** The columns of a kind that rows have and plots offer. */
  function metrics(rows, kind) {
    return uedp.columns.filter(
      (column) =>
        column.kind === kind && drawable(column) && rows.some((row) => row.values[column.key]),
    );
  }

  /** The main metric of the attack that most rows have. */
  function mainLeakage(rows, offered) {
    const counts = tally(rows, (row) =>
      offered.filter((one) => row.values[one.key]).map((one) => one.group),
    );
    const attack = offered.filter((one) => one.group === most(counts));
    const spread = tally(rows, (row) => attack.filter((one) => one.main && row.values[one.key]));
    return most(spread) || attack[0];
  }

  /**
   * What the plots of a set's rows can show, and what they show: choices of the link where the
   * set has them, else defaults. `get` reads the link.
   */
  function choose(rows, at, get) {
    const { headline } = uedp.sets[at];
    const utilities = metrics(rows, "utility");
    const leakages = metrics(rows, "leakage");
    const costs = metrics(rows, "cost");
    const units = [...budgets(rows).keys()].sort();
    const of = (name, offered) => offered.find((one) => one.key === get(name));
    const provable = budgets(rows, "proven").size > 0 || !units.length;
    const kinds = ["proven", "claimed", ...(budgets(rows, "stated").size ? ["stated"] : [])];
    const kind = kinds.find((one) => one === get("plotkind")) || kinds[provable ? 0 : 1];
    const unit = units.find((one) => one === get("plotunit"));
    return {
      utilities,
      leakages,
      costs,
      units,
      kinds,
      kind,
      unit: unit || most(budgets(rows, kind)) || units[0],
      utility:
        of("plotutility", utilities) ||
        utilities.find((one) => one.key === headline) ||
        utilities[0],
      leakage: of("plotleakage", leakages) || mainLeakage(rows, leakages),
      cost:
        of("plotcost", costs) || costs.find((one) => one.key === "cost.train_seconds") || costs[0],
    };
  }

  // ------------------------------------------------------------------------------------- dominance

  /** A number that is larger the better it is. */
  function merit(value, better) {
    return better === "higher" ? value : -value;
  }

  /**
   * Of points {x, y}, which ones another dominates: no worse in both, better in one.
   * `better` is {x, y}: "lower" or "higher".
   */
  function dominated(points, better) {
    const merits = points.map((p) => [merit(p.x, better.x), merit(p.y, better.y)]);
    return merits.map(([x, y]) => merits.some(([u, v]) => u >= x && v >= y && (u > x || v > y)));
  }

  return {
    sets,
    budgets,
    budgetKey,
    budgetLabel,
    budget,
    choose,
    drawable,
    dominated,
    most,
    tally,
  };
})();
