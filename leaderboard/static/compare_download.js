"use strict";
// The comparison as CSV.
uedp.compareDownload = (function () {
  const HEAD = [
    "group", "line", "metric", "unit", "row", "mechanism", "value", "low", "high", "n", "reference",
    "difference", "difference_low", "difference_high", "t", "p", "p_holm", "pairs", "test",
  ];

  /**
   * The comparison as CSV: a record for every line and row; fractions as fractions.
   * @param {object[]} rows the reference first
   * @param {{column: object, rows: object[], tests: object[]}[]} tested
   */
  function csv(rows, tested) {
    const records = uedp.compareData.groups(rows).flatMap((group) =>
      group.lines.flatMap((one) =>
        rows
          .map((row, at) => [row, one.cells[at]])
          .filter(([, parts]) => parts.length)
          .map(([row, parts]) => record(group, one, row, parts, rows[0], tested)),
      ),
    );
    const text = records.map((one) => HEAD.map((name) => uedp.csvField(one[name])).join(","));
    return `${[HEAD.join(","), ...text].join("\n")}\n`;
  }

  function record(group, one, row, parts, reference, tested) {
    const { column } = one;
    const base = { group: group.title, row: row.id, mechanism: row.mechanism };
    if (!column) {
      return { ...base, line: one.label, value: parts.map((part) => part.text).join("; ") };
    }
    const { value, low, high, n } = row.values[column.key];
    const unit = column.percent ? "fraction" : column.unit;
    const stated = { line: column.label, metric: column.key, unit, value, low, high, n };
    const found = tested.find((other) => other.column === column);
    const test = found && found.tests[found.rows.indexOf(row)];
    return { ...base, ...stated, ...(test ? testFields(test, column, reference) : {}) };
  }

  function testFields(test, column, reference) {
    return {
      reference: reference.id,
      difference: test.difference,
      difference_low: test.low,
      difference_high: test.high,
      t: test.t,
      p: test.p,
      p_holm: test.corrected,
      pairs: test.n,
      test: uedp.significance.verdict(test, column).text,
    };
  }

  /** Offers the comparison as a file. */
  function save(rows, tested) {
    const url = URL.createObjectURL(new Blob([csv(rows, tested)], { type: "text/csv" }));
    uedp.element("a", { href: url, download: "comparison.csv" }).click();
    window.setTimeout(() => URL.revokeObjectURL(url), 10_000); // the browser reads it meanwhile
  }

  return { csv, save };
})();
