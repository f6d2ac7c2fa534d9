"use strict";
// The spread curve of user-entity guarantees: epsilon for an entity by how many other users mention
// it, with the declared protected points and what audits refuted from below.
uedp.plotSpread = (function () {
  const { budgetKey, budgetLabel, most, tally } = uedp.plotData;
  const { entry, entries, hover, look, brief } = uedp.plotTraces;
  const { count } = uedp.plotScatter;
  const ENOUGH = 1000; // e to the power of so much promises nothing.

  const NAMES = { protected: "declared protected", bound: "lower bound" };
  const MARKS = {
    protected: { symbol: "circle-open", size: 15 },
    bound: { symbol: "arrow-bar-up", size: 12 },
  };

  /** Nothing may be promised for everybody's entity and yet much for one that few mention. */
  function keyOfCurve(one) {
    return budgetKey(one.notion === "none" ? { ...one, notion: "dp" } : one);
  }

  function curves(row, kind, key) {
    return row.guarantees.filter(
      (one) => one.kind === kind && one.curve.length && (!key || keyOfCurve(one) === key),
    );
  }

  /** The chosen budget if it has curves, else the one that most rows have a curve of. */
  function keyOf({ rows, unit, kind }) {
    const counts = tally(rows, (row) => curves(row, kind).map(keyOfCurve));
    return counts.has(unit) ? unit : most(counts);
  }

  /** Points of a row's curves: {row, spread, sentences, epsilon, mark, text}. */
  function curvePoints(row, kind, key) {
    return curves(row, kind, key).map((found) =>
      found.curve.map((point) => {
        const declared = point.spread === found.protected && point.epsilon === found.epsilon;
        const mark = declared ? "protected" : "";
        return { ...point, row, mark, text: uedp.number(point.epsilon) };
      }),
    );
  }

  /** What audits refuted: bounds for users hold where nobody else mentions the entity. */
  function boundPoints(row, adjacency) {
    return row.bounds
      .filter((one) => one.adjacency === adjacency)
      .map((one) => ({ ...one, spread: one.unit === "user" ? 0 : one.spread }))
      .filter((one) => ["user", "user-entity"].includes(one.unit) && one.spread !== null)
      .map((one) => ({ ...one, row, mark: "bound", text: `at least ${one.text}` }));
  }

  function hoverOf(point) {
    const others =
      point.spread === 1 ? "1 other user mentions" : `${point.spread} other users mention`;
    const sentences = Number.isInteger(point.sentences) ? `, in ${point.sentences} sentences` : "";
    return hover(point.row.mechanism, [
      `${others} the entity${sentences}`,
      point.mark === "bound" ? `ε is ${point.text}, by ${point.attack}` : `ε = ${point.text}`,
      ...(point.mark === "protected" ? ["declared protected point"] : []),
    ]);
  }

  /** Coordinates of points; null is a gap. */
  function places(points, scales) {
    return {
      x: points.map((point) => point && scales.x.at(point.spread)),
      y: points.map((point) => point && scales.y.at(point.epsilon)),
      customdata: points.map((point) => point && point.row.id),
      hovertext: points.map((point) => point && hoverOf(point)),
      hoverinfo: "text",
    };
  }

  /** Curves in a row, with gaps between them and before infinity: no line leads there. */
  function joined(curves) {
    return curves.flatMap((points) => [
      ...points.flatMap((point, at) =>
        at && point.epsilon === Infinity ? [null, point] : [point],
      ),
      null,
    ]);
  }

  /** The curves of a mechanism: one trace, which is quick, and a line for every row. */
  function line(curves, scales, colours) {
    const { label } = curves[0][0].row;
    const { colour, symbol } = look(label, colours);
    return {
      ...places(joined(curves), scales),
      mode: "lines+markers",
      meta: "curve",
      name: brief(label),
      legendgroup: label,
      showlegend: false,
      connectgaps: false,
      line: { color: colour, width: 1.5 },
      marker: { color: colour, symbol, size: 6 },
    };
  }

  function marked(mark, points, scales, colours) {
    const found = points.map(({ row }) => look(row.label, colours).colour);
    const marker = { ...MARKS[mark], color: found, line: { color: found, width: 2 } };
    return { ...places(points, scales), mode: "markers", meta: mark, showlegend: false, marker };
  }

  function legend(mark, name, colours) {
    const marker = {
      ...MARKS[mark],
      size: 11,
      color: colours.muted,
      line: { color: colours.muted, width: 2 },
    };
    return entry(name, { mode: "markers", marker });
  }

  /** The epsilons that the axis shows: it ends where more promises nothing, if it can. */
  function within(epsilons) {
    const shown = epsilons.filter((one) => one <= ENOUGH);
    return epsilons.includes(Infinity) || !shown.length ? epsilons : shown;
  }

  function traces(lines, bounds, scales, colours) {
    const points = lines.flat();
    const rows = [...points, ...bounds].map(({ row }) => row);
    const declared = points.filter((point) => point.mark === "protected");
    const extra = [
      ["protected", "declared protected point", declared],
      ["bound", "lower bound of an audit", bounds],
    ].filter(([, , found]) => found.length);
    const labels = [...new Set(points.map(({ row }) => row.label))];
    const curvesOf = (label) => lines.filter(([{ row }]) => row.label === label);
    return [
      ...labels.map((label) => line(curvesOf(label), scales, colours)),
      ...extra.map(([mark, , found]) => marked(mark, found, scales, colours)),
      ...entries(rows, colours),
      ...extra.map(([mark, name]) => legend(mark, name, colours)),
    ];
  }

  /** A point as a line of the table. */
  function told(point) {
    const { row, spread, sentences, text, mark } = point;
    const many = Number.isInteger(sentences) ? String(sentences) : "any number";
    return [row.id, String(spread), many, text, { ...NAMES, "": "" }[mark]];
  }

  function drawn(context, key) {
    const { rows, kind, colours } = context;
    const lines = rows.flatMap((row) => curvePoints(row, kind, key));
    const bounds = rows.flatMap((row) => boundPoints(row, key.split(":")[2]));
    const all = [...lines.flat(), ...bounds];
    const spreads = all.map((point) => point.spread);
    const epsilons = within(all.map((point) => point.epsilon));
    const scales = {
      x: uedp.plotAxes.scale(spreads, { log: true, zero: true }),
      y: uedp.plotAxes.scale(epsilons, { log: true }),
    };
    const titles = { x: "other users who mention the entity", y: `${kind} ε (lower is better)` };
    const curved = count(lines.length, "curve");
    const ends = `Larger ε than ${uedp.number(ENOUGH)} promise nothing: the axis ends there.`;
    return {
      traces: traces(lines, bounds, scales, colours),
      layout: uedp.plotLayout.layout(scales, titles, context),
      head: ["mechanism", "other users", "their sentences", "ε", "point"],
      body: all.map(told),
      summary:
        `${curved} of ${kind} ε for ${budgetLabel(key)} against ${titles.x}; ` +
        `${count(bounds.length, "lower bound")} of audits.`,
      notes: epsilons.length < all.length ? [`${ends} The table has all.`] : [],
    };
  }

  /** The figure of the rows in view; see `plotFigures`. */
  function spreadCurve(context) {
    const key = keyOf(context);
    if (key) {
      return drawn(context, key);
    }
    const { kind, rows } = context;
    const other = kind === "proven" ? "claimed" : "proven";
    const hint = rows.some((row) => curves(row, other).length)
      ? `Choose ${other} ε above.`
      : uedp.plotFigures.elsewhere(context, (row) => curves(row, kind).length > 0);
    const who = "mechanisms that protect a user together with an entity do";
    return { empty: `No row here has a ${kind} curve: only ${who}. ${hint}` };
  }

  return { spreadCurve };
})();
