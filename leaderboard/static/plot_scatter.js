"use strict";
// A scatter plot of two axes of rows, with the Pareto front where it is asked for.
uedp.plotScatter = (function () {
  const { dominated } = uedp.plotData;
  const { scale, title } = uedp.plotAxes;
  const { entry, entries, hover, scatter } = uedp.plotTraces;
  const { labelled } = uedp.plotLabels;

  /** "3 rows", "1 row". */
  function count(n, noun) {
    return `${n} ${noun}${n === 1 ? "" : "s"}`;
  }

  /** The points of rows that have both values: {row, x, y, one, dimmed}. */
  function pointsOf(rows, x, y, fronted) {
    const points = rows
      .map((row) => ({ row, x: x.of(row), y: y.of(row) }))
      .filter((point) => point.x && point.y)
      .map((point) => ({
        ...point,
        one: point.x.n === 1 || point.y.n === 1,
        idle: uedp.idle(point.row),
      }));
    if (!fronted) {
      return points;
    }
    // What learned nothing dominates nobody: it leaks little because it knows little.
    const able = points.filter(({ row }) => !uedp.idle(row));
    const means = able.map((point) => ({ x: x.worth(point.x.value), y: y.worth(point.y.value) }));
    const flags = dominated(means, { x: x.better, y: y.better });
    const dimmed = new Map(able.map(({ row }, at) => [row.id, flags[at]]));
    return points.map((point) => ({ ...point, dimmed: dimmed.get(point.row.id) ?? true }));
  }

  function scaleOf(points, along, axis) {
    const found = points.map((point) => point[along]);
    const ends = found.flatMap(({ low, high }) => (low === null ? [] : [low, high]));
    return scale(
      [...found.map(({ value }) => value), ...(axis.floors || []).map(({ value }) => value)],
      axis,
      ends.filter(Number.isFinite),
    );
  }

  /** How many seeds are behind a point: of some metrics not all of the row's. */
  function seeds({ row, x, y }) {
    const n = Math.min(row.n, x.n ?? row.n, y.n ?? row.n);
    return `n = ${n}${n < row.n ? ` of ${row.n}` : ""} seed${row.n === 1 ? "" : "s"}`;
  }

  /** What a point's hover says. */
  function told({ row, x, y, dimmed }, axes) {
    return hover(row.mechanism, [
      `${axes.y.name}: ${y.text}`,
      `${axes.x.name}: ${x.text}`,
      seeds({ row, x, y }),
      ...(uedp.idle(row) ? ["learned nothing: no better than its floors"] : []),
      ...(axes.fronted && !uedp.idle(row) ? [dimmed ? "dominated" : "on the Pareto front"] : []),
    ]);
  }

  // --------------------------------------------------------------------------------------- traces

  function crossed(colours) {
    const line = { width: 2, color: colours.bad };
    return { mode: "markers", marker: { symbol: "x-thin", size: 18, color: colours.bad, line } };
  }

  /** Crosses over the points of claims that an attack refuted. */
  function crosses(points, scales, colours) {
    return {
      x: points.map((point) => scales.x.at(point.x.value)),
      y: points.map((point) => scales.y.at(point.y.value)),
      ...crossed(colours),
      name: "claim refuted",
      meta: "refuted",
      showlegend: false,
      hoverinfo: "skip",
    };
  }

  /** Thin crosses over the points of rows that learned nothing. */
  function strokes(points, scales, colours) {
    return {
      x: points.map((point) => scales.x.at(point.x.value)),
      y: points.map((point) => scales.y.at(point.y.value)),
      mode: "markers",
      marker: {
        symbol: "cross-thin-open",
        size: 16,
        color: colours.ink,
        line: { width: 1.5, color: colours.ink },
      },
      name: "learned nothing",
      meta: "idle",
      showlegend: false,
      hoverinfo: "skip",
    };
  }

  /** The line through the points that none dominates: what is reached, in steps. */
  function front(points, scales, better, colours) {
    const best = points
      .filter((point) => !point.dimmed && !point.idle)
      .sort((a, b) => a.x.value - b.x.value || a.y.value - b.y.value);
    return {
      x: best.map((point) => scales.x.at(point.x.value)),
      y: best.map((point) => scales.y.at(point.y.value)),
      mode: "lines",
      name: "Pareto front",
      meta: "front",
      hoverinfo: "skip",
      line: {
        color: colours.ink,
        width: 1.5,
        dash: "dash",
        shape: better === "higher" ? "vh" : "hv",
      },
    };
  }

  /** Entries of the legend that say what marks mean, of the marks that there are. */
  function marks(points, colours) {
    const grey = (symbol, edge) => ({
      mode: "markers",
      marker: { color: colours.muted, size: 10, symbol, line: { width: 1, color: edge } },
    });
    const known = [
      ["dimmed", "open: dominated", grey("circle-open", colours.muted)],
      ["idle", "thin cross: learned nothing", grey("cross-thin-open", colours.muted)],
      ["one", "dot: one seed, no interval", grey("circle-dot", colours.paper)],
      ["refuted", "claim refuted by an attack", crossed(colours)],
    ];
    const has = (mark) => points.some((point) => point[mark] || point.x[mark]);
    return known.filter(([mark]) => has(mark)).map(([, name, drawn]) => entry(name, drawn));
  }

  function traces(points, scales, axes, colours) {
    const refuted = points.filter((point) => point.x.refuted);
    const idle = points.filter((point) => point.idle);
    const [dimmed, bright] = [true, false].map((wanted) =>
      points.filter((point) => Boolean(point.dimmed) === wanted),
    );
    return [
      ...(axes.fronted ? [front(points, scales, axes.x.better, colours)] : []),
      ...scatter(dimmed, scales, colours),
      ...scatter(bright, scales, colours),
      ...(idle.length ? [strokes(idle, scales, colours)] : []),
      ...(refuted.length ? [crosses(refuted, scales, colours)] : []),
      ...entries(
        points.map(({ row }) => row),
        colours,
      ),
      ...marks(points, colours),
    ];
  }

  // ---------------------------------------------------------------------------------------- words

  /** Which rows are not drawn, and why. */
  function missing(rows, axes) {
    return axes
      .map((axis) => [axis.lacks, rows.filter((row) => !axis.of(row)).length])
      .filter(([, n]) => n > 0)
      .map(([lacks, n]) => `Not drawn: ${count(n, "row")} without ${lacks}.`);
  }

  /** What a plot says to those who do not see it. */
  function summary(points, { x, y }) {
    const range = (along) => {
      const values = points.map((point) => point[along].value);
      return `${uedp.number(Math.min(...values))} to ${uedp.number(Math.max(...values))}`;
    };
    const mechanisms = new Set(points.map(({ row }) => row.label)).size;
    return (
      `Scatter plot of ${count(points.length, "row")} of ${count(mechanisms, "mechanism")}: ` +
      `${title(y)}, ${range("y")}, against ${title(x)}, ${range("x")}.`
    );
  }

  /**
   * The figure of two axes (see `plotFigures`): y against x, with the front if `pareto`.
   *
   * @param {object} context rows in view, colours, and `narrow` where there is little room.
   */
  function versus(context, x, y, pareto) {
    const { rows, colours } = context;
    const axes = { x, y, fronted: Boolean(pareto && x.better && y.better) };
    const points = pointsOf(rows, x, y, axes.fronted).map((point) => ({
      ...point,
      hover: told(point, axes),
    }));
    const scales = { x: scaleOf(points, "x", x), y: scaleOf(points, "y", y) };
    const where = ({ dimmed, idle }) =>
      idle ? "not on it: learned nothing" : dimmed ? "dominated" : "on it";
    const place = (point) => (axes.fronted ? [where(point)] : []);
    const marked = points.some((point) => point.idle);
    const idleText = ({ idle }) => (marked ? [idle ? "nothing" : ""] : []);
    const leaving = "Some intervals leave the frame; the table has them whole.";
    const undirected = "No front: it is not known which way is better.";
    return {
      traces: traces(points, scales, axes, colours),
      layout: uedp.plotLayout.layout(scales, { x: title(x), y: title(y) }, context, {
        x: x.floors,
        y: y.floors,
        better: { x: x.better, y: y.better },
        labels: labelled(points, scales, context, y.better),
      }),
      head: ["mechanism", y.name, x.name, "seeds",
        ...(marked ? ["learned"] : []), ...(axes.fronted ? ["Pareto front"] : [])],
      body: points.map((point) => {
        const { row } = point;
        return [row.id, point.y.text, point.x.text, seeds(point).slice(4).replace(/ seeds?$/, ""), ...idleText(point), ...place(point)];
      }),
      summary: summary(points, axes),
      notes: [
        ...missing(rows, [y, x]),
        ...[...(y.floors || []), ...(x.floors || [])].map(
          ({ name, text }) => `Dotted line: ${name.replace(": ", " ")}, ${text}.`),
        ...(pareto && !axes.fronted ? [undirected] : []),
        ...(scales.x.cut || scales.y.cut ? [leaving] : []),
      ],
    };
  }

  return { versus, count };
})();
