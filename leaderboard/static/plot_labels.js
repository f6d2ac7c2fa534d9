"use strict";
// Names beside points: of every mechanism one, of few points all, and none on another.
uedp.plotLabels = (function () {
  const FEW = 8; // points that all have a name
  const MOST = 12; // names
  const [LETTER, HIGH] = [0.0125, 0.05]; // of the plot: room that a letter takes, and a line

  /** Where a value stands on a scale: as Plotly's annotations have it, and as a share of the axis. */
  function place(scale, value) {
    const at = scale.type === "log" ? Math.log10(scale.at(value)) : scale.at(value);
    return { at, share: (at - scale.range[0]) / (scale.range[1] - scale.range[0]) };
  }

  /** The points to name: all of few; else of every mechanism the best one. */
  function named(points, better) {
    if (points.length <= FEW) {
      return points.map((point) => ({ point, text: point.row.mechanism }));
    }
    const sign = better === "higher" ? -1 : 1;
    const best = new Map();
    for (const point of [...points].sort((a, b) => sign * (a.y.value - b.y.value))) {
      if (!best.has(point.row.label)) {
        best.set(point.row.label, { point, text: point.row.label });
      }
    }
    return [...best.values()];
  }

  /**
   * Plotly's annotations that name points.
   *
   * @param {object[]} points {row, x, y}.
   * @param {object} scales of x and y.
   * @param {object} context colours, and `narrow` where there is little room.
   * @param {?string} better which way y is better.
   */
  function labelled(points, scales, { colours, narrow }, better) {
    const taken = [];
    const found = [];
    const middle = (x, y, wide, left, below) => ({
      x: x.share + (left ? -1 : 1) * (wide / 2),
      y: y.share + (below ? -1 : 1) * 0.6 * HIGH,
      wide,
    });
    const apart = (one, other) =>
      Math.abs(one.x - other.x) > (one.wide + other.wide) / 2 || Math.abs(one.y - other.y) > HIGH;
    // Beside a point, where the plot has room for it; else on the other side, or below.
    const sides = (x, wide) => (x.share > 1 - wide ? [[true, false], [true, true]]
      : x.share < wide ? [[false, false], [false, true]]
        : [[false, false], [true, false], [false, true], [true, true]]);
    for (const { point, text: whole } of named(points, better)) {
      const most = narrow ? 18 : 30;
      const text = whole.length > most ? `${whole.slice(0, most - 1)}…` : whole;
      const wide = LETTER * (narrow ? 2 : 1) * (text.length + 1);
      const [x, y] = [place(scales.x, point.x.value), place(scales.y, point.y.value)];
      const side = sides(x, wide).find((one) =>
        taken.every((other) => apart(other, middle(x, y, wide, ...one))));
      if (side && found.length < MOST && Number.isFinite(x.at) && Number.isFinite(y.at)) {
        const [left, below] = side;
        taken.push(middle(x, y, wide, left, below));
        found.push({
          name: "label",
          text: uedp.plain(text),
          x: x.at,
          y: y.at,
          xanchor: left ? "right" : "left",
          yanchor: below ? "top" : "bottom",
          xshift: left ? -6 : 6,
          yshift: below ? -4 : 4,
          showarrow: false,
          captureevents: false,
          font: { size: 11.5, color: uedp.plotTraces.look(point.row.label, colours).colour },
        });
      }
    }
    return found;
  }

  return { labelled, place };
})();
