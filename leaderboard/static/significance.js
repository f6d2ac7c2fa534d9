"use strict";
// Significance over seeds: paired t tests and Holm's correction. Functions of numbers and rows;
// nothing here touches the page.
uedp.significance = (function () {
  const LEVEL = 0.05;
  const DIGITS = 6; // that the page keeps of every value

  /** Two-sided p of Student's t, within 3e-7 of its value. */
  function twoSided(t, freedom) {
    // By the incomplete beta function: 1 - cdf would lose every figure of a small p.
    return jStat.ibeta(freedom / (freedom + t * t), freedom / 2, 0.5);
  }

  /** Half of the 95 % interval of the mean of n differences, in their standard deviations: no smaller mean reaches p < 0.05. */
  const resolution = (n) => jStat.studentt.inv(1 - LEVEL / 2, n - 1) / Math.sqrt(n);

  /** Half a unit of the last digit that the page keeps of a value. */
  function rounding(value) {
    const size = Math.abs(value);
    return size === 0 ? 0 : 0.5 * 10 ** (Math.floor(Math.log10(size)) + 1 - DIGITS);
  }

  /** True if differences vary by no more than the rounding of their values explains. */
  function allEqual(pairs, differences) {
    const doubt = pairs.map(({ value, reference }) => rounding(value) + rounding(reference));
    return Math.max(...differences) - Math.min(...differences) <= 2 * Math.max(...doubt);
  }

  // Student's paired t test of {value, reference}, one a seed: {n, difference, low, high, t, p, reason}, where
  // difference is the mean of value - reference with its 95 % interval; `reason` says why there is no test.
  function pairedTest(pairs) {
    const n = pairs.length;
    const differences = pairs.map((pair) => pair.value - pair.reference);
    const none = { n, difference: null, low: null, high: null, t: null, p: null };
    if (n === 0 || !differences.every(Number.isFinite)) {
      return { ...none, reason: n ? "infinite values" : "no seed in common" };
    }
    const difference = jStat.mean(differences);
    if (n === 1 || allEqual(pairs, differences)) {
      return { ...none, difference, reason: n === 1 ? "n = 1" : "all differences equal" };
    }
    const deviation = jStat.stdev(differences, true);
    const half = resolution(n) * deviation;
    const t = (difference / deviation) * Math.sqrt(n);
    return { n, difference, low: difference - half, high: difference + half, t, p: twoSided(t, n - 1), reason: "" };
  }

  /** p values corrected by Holm's step-down method, in the order given. */
  function holm(values) {
    const order = values.map((_, at) => at).sort((a, b) => values[a] - values[b]);
    const corrected = [];
    let highest = 0;
    order.forEach((at, rank) => {
      highest = Math.max(highest, Math.min(1, (values.length - rank) * values[at]));
      corrected[at] = highest;
    });
    return corrected;
  }

  /** Values of a metric in the seeds in which both rows have it. */
  function pairs(row, reference, key) {
    return Object.entries(reference.seeds).filter(([seed, values]) => key in values && key in (row.seeds[seed] || {}))
      .map(([seed, values]) => ({ value: row.seeds[seed][key], reference: values[key] }));
  }

  const measures = (row, key) => Object.values(row.seeds).some((values) => key in values);

  // Tests of rows against a reference with which their utility compares: {column, tests}, for each metric of the
  // reference that any other row has; `corrected` is p by Holm's method over the rows.
  function against(reference, others, columns) {
    const shared = columns.filter(({ key }) => measures(reference, key) && others.some((row) => measures(row, key)));
    return shared.map((column) => {
      const tests = others.map((row) => ({ ...pairedTest(pairs(row, reference, column.key)),
        ...(measures(row, column.key) ? {} : { reason: "not measured" }) }));
      const able = tests.filter((test) => test.p !== null);
      const corrected = holm(able.map((test) => test.p));
      able.forEach((test, at) => {
        test.corrected = corrected[at];
      });
      return { column, tests };
    });
  }

  /** A p value with two figures, more where two would hide on which side of 5 % it is. */
  function pText(p) {
    let figures = 2;
    while (p !== LEVEL && Number(p.toPrecision(figures)) === LEVEL && figures < 15) {
      figures += 1;
    }
    return p < 0.0001 ? "p < 0.0001" : `p = ${Number(p.toPrecision(figures))}`;
  }

  /** What a test says: {side, text}; side is "better" or "worse" for who protects the text, or empty. */
  function verdict(test, column) {
    if (test.reason) {
      return { side: "", text: test.reason === "all differences equal" ? `${test.reason} (n = ${test.n})` : `no test: ${test.reason}` };
    }
    const differs = test.corrected < LEVEL;
    const wanted = column.better === "higher" ? test.difference > 0 : test.difference < 0;
    return { side: differs && column.better ? (wanted ? "better" : "worse") : "",
      text: `${differs ? "differs" : "no difference seen"} (${pText(test.corrected)}, n = ${test.n})` };
  }

  return { LEVEL, resolution, pairedTest, holm, measures, against, pText, verdict };
})();
