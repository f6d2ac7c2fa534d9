"use strict";
// One metric of the compared rows, seed by seed: a plot whose lines join runs of one seed, and the
// same numbers as a table.
uedp.comparePlot = (function () {
  const { element, heading, number, plain } = uedp;
  const SYMBOLS = ["circle", "square", "triangle-up", "cross", "star", "x", "hexagon", "pentagon"];

  /** A colour of the theme in force. */
  function colour(token) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();
  }

  /** The label of a row on the axis: its place and its name in short lines, four at most. */
  function label(row, at, width) {
    const pieces = `${at + 1} · ${row.mechanism}`
      .split(/(?<=[\s,_-])/)
      .flatMap((word) => word.match(new RegExp(`.{1,${width}}`, "gsu")) || []);
    const lines = [""];
    for (const piece of pieces) {
      if ((lines[lines.length - 1] + piece).length > width) {
        lines.push("");
      }
      lines[lines.length - 1] += piece;
    }
    const cut =
      lines.length > 4 ? [...lines.slice(0, 3), `${lines[3].slice(0, width - 1)}…`] : lines;
    return cut.map(plain).join("<br>");
  }

  /** All seeds of some rows, in their order. */
  function seedsOf(rows) {
    const found = new Set(rows.flatMap((row) => Object.keys(row.seeds)));
    return [...found].sort((a, b) => Number(a) - Number(b));
  }

  /** A trace of every seed, and of every comparable set: other sets are other corpora. */
  function seedTraces(rows, labels, column, scale) {
    return seedsOf(rows).flatMap((seed, place) =>
      [...new Set(rows.map((row) => row.set))].map((set, at) => {
        const points = rows.flatMap((row, index) => {
          const value = row.set === set && row.seeds[seed] && row.seeds[seed][column.key];
          return Number.isFinite(value) ? [[value * scale, labels[index], row.mechanism]] : [];
        });
        return {
          x: points.map((point) => point[0]),
          y: points.map((point) => point[1]),
          text: points.map(
            (point) => `${plain(point[2])}<br>seed ${plain(seed)}: ${number(point[0])}`,
          ),
          hovertemplate: "%{text}<extra></extra>",
          name: `seed ${plain(seed)}`,
          legendgroup: seed,
          showlegend: at === 0,
          mode: "lines+markers",
          line: { color: colour("strong-line"), width: 1, dash: "dot" },
          marker: { symbol: SYMBOLS[place % SYMBOLS.length], size: 9, color: colour("muted") },
        };
      }),
    );
  }

  /** Means with their intervals over seeds, where there is more than one. */
  function meanTrace(rows, labels, column, scale) {
    const found = rows
      .map((row, at) => ({ at, ...row.values[column.key] }))
      .filter((one) => Number.isFinite(one.value));
    const half = (one) => (one.low === null ? 0 : (one.high - one.low) / 2) * scale;
    return {
      x: found.map((one) => one.value * scale),
      y: found.map((one) => labels[one.at]),
      text: found.map((one) => plain(uedp.stat(column, one))),
      hovertemplate: "mean %{text}<extra></extra>",
      error_x: { array: found.map(half), color: colour("accent"), thickness: 2, width: 6 },
      name: "mean, 95 % interval",
      mode: "markers",
      marker: { symbol: "diamond-open", size: 13, color: colour("accent"), line: { width: 2 } },
    };
  }

  function layout(rows, labels, column) {
    const axis = {
      gridcolor: colour("line"),
      linecolor: colour("strong-line"),
      zeroline: false,
      automargin: true,
      fixedrange: true,
    };
    return {
      height: 150 + 62 * rows.length,
      margin: { l: 10, r: 15, t: 10, b: 40 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("ink"), family: getComputedStyle(document.body).fontFamily, size: 13 },
      dragmode: false,
      hoverlabel: {
        bgcolor: colour("raised"),
        bordercolor: colour("strong-line"),
        font: { color: colour("ink") },
      },
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom" },
      xaxis: { ...axis, title: { text: plain(heading(column)) } },
      yaxis: {
        ...axis,
        type: "category",
        autorange: "reversed",
        categoryorder: "array",
        categoryarray: labels,
      },
    };
  }

  /** Draws the plot into an element, now or once Plotly has loaded. */
  function draw(into, rows, column) {
    into.setAttribute("role", "img");
    into.setAttribute(
      "aria-label",
      `${heading(column)} of ${rows.length} rows, one point a seed; the numbers are in the table below`,
    );
    whenLoaded(() => {
      const scale = column.percent ? 100 : 1;
      const labels = rows.map((row, at) => label(row, at, into.clientWidth < 600 ? 14 : 34));
      Plotly.react(
        into,
        [...seedTraces(rows, labels, column, scale), meanTrace(rows, labels, column, scale)],
        layout(rows, labels, column),
        { displayModeBar: false, responsive: true },
      );
    });
  }

  let waiting = null;

  /** Calls `paint` once there is Plotly; of several that wait, the last one only. */
  function whenLoaded(paint) {
    if (window.Plotly) {
      paint();
      return;
    }
    if (!waiting) {
      document.getElementById("plotly").addEventListener("load", () => waiting());
    }
    waiting = paint;
  }

  /** A value of a run with all the figures that the page has of it. */
  function exact(row, seed, column) {
    const found = row.seeds[seed] && row.seeds[seed][column.key];
    if (found === undefined) {
      return uedp.NONE;
    }
    const value = found * (column.percent ? 100 : 1);
    return Number.isFinite(value) ? String(Number(value.toPrecision(6))) : number(value);
  }

  /** The plotted numbers: a line for every seed. */
  function table(rows, column, name) {
    return element(
      "table",
      { class: "plain", "aria-labelledby": "compare-seeds" },
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          element("th", { scope: "col" }, "seed"),
          rows.map((row, at) => element("th", { scope: "col" }, name(row, at))),
        ),
      ),
      element(
        "tbody",
        {},
        seedsOf(rows).map((seed) =>
          element(
            "tr",
            {},
            element("th", { scope: "row" }, seed),
            rows.map((row) => element("td", {}, exact(row, seed, column))),
          ),
        ),
      ),
    );
  }

  return { draw, table };
})();
