"use strict";
// The verdict of a comparison, in a sentence a row: what differs significantly from the reference.
uedp.compareVerdict = (function () {
  const { element, sets, columnOf, heading, significance, idle } = uedp;

  /** "a, b and c". */
  function listed(words) {
    return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} and ${words.at(-1)}`;
  }

  /** Headings of the metrics of a kind in which a row is significantly better or worse. */
  function differing(found, at, kind, which) {
    return found
      .filter(({ column, tests }) => column.kind === kind && column.main &&
        significance.verdict(tests[at], column).side === which)
      .map(({ column }) => (shared(found, column) ? `${heading(column)} (${column.attack})` : heading(column)));
  }

  /** True if another attack measures something of the same name. */
  function shared(found, column) {
    return found.some((one) => one.column !== column && heading(one.column) === heading(column));
  }

  /** "better in perplexity", "no difference seen in leakage". */
  function told(found, at, kind) {
    const some = found.some(({ column, tests }) => column.kind === kind && tests[at].p !== null);
    const [better, worse] = ["better", "worse"].map((which) => differing(found, at, kind, which));
    const parts = [
      better.length ? `better in ${listed(better)}` : "",
      worse.length ? `worse in ${listed(worse)}` : "",
    ].filter(Boolean);
    if (parts.length) {
      return `significantly ${listed(parts)}`;
    }
    return some ? `no difference seen in ${kind}` : `nothing to test in ${kind}`;
  }

  /** What is proven of a row, of all units; where nothing is, what is stated. */
  function proven(row) {
    for (const kind of ["proven", "stated"]) {
      const found = row.guarantees.filter((one) => one.kind === kind && one.epsilon < Infinity);
      if (found.length) {
        return `${kind} ε ${listed(found.map((one) => one.text))}`;
      }
    }
    return "nothing proven";
  }

  /**
   * Sentences about the rows against the first of them, as a list.
   *
   * @param {object[]} rows the reference first.
   * @param {Function} name how a row is called here, by row and place.
   * @param {object[]} found the tests: {column, rows, tests}.
   */
  function show(rows, name, found) {
    const lines = rows.slice(1).map((row, at) => {
      const label = element("strong", {}, name(row, at + 1));
      if (row.set !== rows[0].set) {
        return [label, " does not compare with the reference: it is of another set."];
      }
      const place = found.length ? found[0].rows.indexOf(row) : -1;
      const nothing = idle(row) ? " It learned nothing." : "";
      if (place < 0) {
        return [label, ` has no metric of the reference; ${proven(row)}.${nothing}`];
      }
      return [label, `: ${told(found, place, "utility")}; ${told(found, place, "leakage")}; ` +
        `${proven(row)}.${nothing}`];
    });
    const { headline } = sets[rows[0].set];
    const first = [element("strong", {}, name(rows[0], 0)), ` is the reference: ${proven(rows[0])}` +
      `${columnOf.has(headline) ? `; ${heading(columnOf.get(headline))} ranks` : ""}.` +
      `${idle(rows[0]) ? " It learned nothing." : ""}`];
    return element("ul", {}, [first, ...lines].map((line) => element("li", {}, line)));
  }

  return { show };
})();
