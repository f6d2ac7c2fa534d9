"use strict";
// Tables of the comparison: what the rows have side by side, and their tests.
uedp.compareTables = (function () {
  const { element, NONE, number, fixed, decimals, heading, significance } = uedp;
  const { setName } = uedp.compareData;

  /** A table that scrolls by itself, with the keyboard too, below what says what it is. */
  function scroll(id, caption, table) {
    const region = { class: "scroll", role: "region", "aria-labelledby": id, tabindex: "0" };
    return element(
      "div",
      {},
      element("p", { id, class: "note" }, caption),
      element("div", region, table),
    );
  }

  /** A table with a column of every row; `groups` have a title and rows of cells. */
  function table(id, caption, heads, groups) {
    return scroll(
      id,
      caption,
      element(
        "table",
        { class: "plain compare-table", "aria-labelledby": id },
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            element("td", {}),
            heads.map((head) => element("th", { scope: "col" }, head)),
          ),
        ),
        groups.map(({ title, lines }) =>
          element(
            "tbody",
            {},
            element(
              "tr",
              {},
              element(
                "th",
                { scope: "rowgroup", colspan: heads.length + 1, class: "compare-group" },
                title,
              ),
            ),
            lines.map((line) =>
              element(
                "tr",
                {},
                element("th", { scope: "row", title: line.about }, line.label),
                line.cells,
              ),
            ),
          ),
        ),
      ),
    );
  }

  // ---------------------------------------------------------------------------------- side by side

  /** A part of a cell: a link, an explanation, or text. */
  function part({ text, href, aside }) {
    if (href) {
      return element("a", { href }, text);
    }
    return element("div", { class: aside ? "note" : null }, text);
  }

  /** What rows are and have: one column a row. */
  function side(rows, name) {
    const groups = uedp.compareData.groups(rows).map(({ title, lines }) => ({
      title,
      lines: lines.map((line) => ({
        ...line,
        cells: line.cells.map((parts) =>
          element("td", {}, parts.length ? parts.flatMap((one) => [part(one), " "]) : NONE),
        ),
      })),
    }));
    const heads = rows.map((row, at) => [
      element("div", {}, name(row, at)),
      element("div", { class: "note" }, `${row.task} on ${row.source}, ${row.model}`),
    ]);
    return table(
      "compare-side",
      "Means ± half of the 95 % interval over seeds; n = 1 is one seed, which has no interval.",
      heads,
      groups,
    );
  }

  // ----------------------------------------------------------------------------------------- tests

  /** Rows that may be tested against the first, and the others. */
  function split(rows) {
    const others = rows.slice(1);
    return [
      others.filter((row) => row.set === rows[0].set),
      others.filter((row) => row.set !== rows[0].set),
    ];
  }

  /** The tests of all rows that compare with the first: {column, rows, tests} by metric. */
  function tested(rows) {
    const [comparable] = split(rows);
    return comparable.length
      ? significance
          .against(rows[0], comparable, uedp.columns)
          .map((one) => ({ ...one, rows: comparable }))
      : [];
  }

  /** A difference with its sign, as exact as its interval. */
  function difference(test, column) {
    if (test.difference === null) {
      return "";
    }
    const scale = column.percent ? 100 : 1;
    const half = test.low === null ? 0 : ((test.high - test.low) / 2) * scale;
    const places = half ? decimals(half) : decimals(test.difference * scale);
    const text = (value) => fixed(value * scale, places).replace(/^-(?=[0.,]*$)/, "");
    const signed =
      (test.difference > 0 && Number(text(test.difference)) !== 0 ? "+" : "") +
      text(test.difference);
    return test.low === null ? signed : `${signed} [${text(test.low)}, ${text(test.high)}]`;
  }

  function result(test, column) {
    const { side: which, text } = significance.verdict(test, column);
    const tone = { better: "good", worse: "bad" }[which];
    return element(
      "td",
      {},
      element("div", {}, difference(test, column)),
      element(
        "div",
        { class: which ? null : "note" },
        which ? [element("span", { class: `badge ${tone}` }, which), " "] : [],
        text,
      ),
    );
  }

  /** What the tests are, and what they cannot say. */
  function explained(found) {
    const made = found.flatMap((one) => one.tests).filter((test) => test.p !== null);
    const metrics = found.filter((one) => one.tests.some((test) => test.p !== null)).length;
    const texts = [
      "Differences are row minus reference, seed by seed: runs of one seed share the corpus, with " +
        "its canaries and held-out users, so they are pairs. In brackets the 95 % interval of the " +
        "mean difference; p is two-sided, of the paired t test. Differences of percentages are in " +
        "percentage points. Better and worse are for who protects the text. Costs have no tests.",
    ];
    if (found[0].rows.length > 1) {
      texts.push(
        "p is corrected by Holm's method over the rows that are compared with the " +
          "reference, metric by metric; the intervals are not.",
      );
    }
    if (metrics > 1) {
      texts.push(
        `Metrics are not corrected for each other: of ${metrics} tested at 5 %, about ` +
          `${fixed(metrics * significance.LEVEL, 1)} differ by chance where nothing does.`,
      );
    }
    const least = Math.min(...made.map((test) => test.n));
    if (least <= 5) {
      texts.push(
        `With n = ${least} the power is low: no mean difference below ` +
          `${number(significance.resolution(least))} standard deviations of the differences is ` +
          "seen, so “no difference seen” does not say that there is none.",
      );
    }
    return texts.map((text) => element("p", { class: "note" }, text));
  }

  /** Why rows of another set have no tests. */
  function refused(rows, name) {
    return split(rows)[1].map((row) =>
      element(
        "p",
        { class: "note" },
        `No test of ${name(row, rows.indexOf(row))}: its utility does not compare with the ` +
          `reference's. It is of set ${setName(row)}; the reference of set ${setName(rows[0])}.`,
      ),
    );
  }

  /** The tests against the first row: elements. */
  function tests(rows, name) {
    if (rows.length < 2) {
      return [element("p", { class: "note" }, "Add a second row to test it against this one.")];
    }
    const found = tested(rows);
    if (!found.length) {
      const nothing = "There is nothing to test: no row has a metric of the reference.";
      return split(rows)[0].length
        ? [element("p", { class: "note" }, nothing), ...refused(rows, name)]
        : refused(rows, name);
    }
    const comparable = found[0].rows;
    const groups = [...new Set(found.map((one) => one.column.group))].map((title) => ({
      title,
      lines: found
        .filter((one) => one.column.group === title)
        .map((one) => ({
          label: heading(one.column),
          about: one.column.about,
          cells: one.tests.map((test) => result(test, one.column)),
        })),
    }));
    const heads = comparable.map((row) => name(row, rows.indexOf(row)));
    const caption = `Differences from the reference, ${name(rows[0], 0)}.`;
    return [
      ...explained(found),
      table("compare-tests", caption, heads, groups),
      ...refused(rows, name),
    ];
  }

  return { scroll, side, tested, tests };
})();
