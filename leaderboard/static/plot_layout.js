"use strict";
// Plotly's layout and settings: what all plots look like.
uedp.plotLayout = (function () {
  /** A title in lines of so many characters; three of them at most. */
  function titled(text, room) {
    const lines = uedp.plotTraces.wrap(text, room);
    const kept = lines.length > 3 ? [...lines.slice(0, 2), `${lines[2]}…`] : lines;
    return kept.map(uedp.plain).join("<br>");
  }

  /** An axis of a scale. */
  function axis(scale, title, room, { colours, narrow }) {
    const ticks = scale.ticks && {
      tickmode: "array",
      tickvals: scale.ticks.map((tick) => tick.at),
      ticktext: scale.ticks.map((tick) => tick.text),
    };
    return {
      title: { text: titled(title, room), standoff: 10 },
      type: scale.type,
      range: scale.range,
      automargin: true,
      zeroline: false,
      showline: true,
      linecolor: colours.strong,
      gridcolor: colours.line,
      ticks: "outside",
      tickcolor: colours.strong,
      exponentformat: "power",
      fixedrange: narrow,
      nticks: narrow ? 6 : 9,
      ...ticks,
    };
  }

  /** The dotted line between the finite values of an axis and infinity. */
  function separator(letter, scale, colours) {
    const [along, across] = letter === "x" ? ["x", "y"] : ["y", "x"];
    return {
      type: "line",
      layer: "below",
      line: { color: colours.strong, width: 1, dash: "dot" },
      [`${along}ref`]: along,
      [`${along}0`]: scale.infinity,
      [`${along}1`]: scale.infinity,
      [`${across}ref`]: "paper",
      [`${across}0`]: 0,
      [`${across}1`]: 1,
    };
  }

  /** The dotted line of a floor of an axis, with its name: what needs nothing reaches as much. */
  function level(letter, { name, value }, scale, colours) {
    // A name above the highest line would leave the plot.
    const high = uedp.plotLabels.place(scale, value).share > 0.92;
    const [along, across] = letter === "y" ? ["x", "y"] : ["y", "x"];
    return {
      type: "line",
      name: letter === "y" ? "floor" : "nothing",
      layer: "below",
      line: { color: colours.muted, width: 1.5, dash: "dot" },
      [`${along}ref`]: "paper",
      [`${along}0`]: 0,
      [`${along}1`]: 1,
      [`${across}ref`]: across,
      [`${across}0`]: value,
      [`${across}1`]: value,
      label: {
        text: uedp.plain(name),
        textposition: "end",
        ...(letter === "y" ? { yanchor: high ? "top" : "bottom" } : { textangle: 0, xanchor: "left", yanchor: "top" }),
        font: { size: 11, color: colours.muted },
      },
    };
  }

  /** An arrow to the corner that is better, if both axes have a direction. */
  function corner({ x, y }, colours) {
    if (!x || !y) {
      return [];
    }
    const [right, up] = [x === "higher", y === "higher"];
    const arrow = right ? (up ? "↗" : "↘") : up ? "↖" : "↙";
    return [{
      name: "better",
      text: right ? `better ${arrow}` : `${arrow} better`,
      showarrow: false,
      xref: "paper",
      yref: "paper",
      x: right ? 0.99 : 0.01,
      y: up ? 0.99 : 0.01,
      xanchor: right ? "right" : "left",
      yanchor: up ? "top" : "bottom",
      font: { size: 12.5, color: colours.ink },
      bgcolor: colours.raised,
      borderpad: 2,
    }];
  }

  /**
   * The layout of a plot.
   *
   * @param {object} scales of x and y.
   * @param {object} titles of x and y.
   * @param {object} context colours, and `narrow` where there is little room.
   * @param {object} marks `x` and `y`: floors {name, value} of the axes; `better`: which way they
   *   are; `labels`: annotations of points.
   */
  function layout(scales, titles, context, { x = [], y = [], better = {}, labels = [] } = {}) {
    const { colours, narrow } = context;
    const infinite = ["x", "y"].filter((letter) => scales[letter].infinity !== null);
    return {
      xaxis: axis(scales.x, titles.x, narrow ? 34 : 66, context),
      yaxis: axis(scales.y, titles.y, narrow ? 32 : 36, context),
      shapes: [
        ...infinite.map((letter) => separator(letter, scales[letter], colours)),
        ...y.map((floor) => level("y", floor, scales.y, colours)),
        ...x.map((floor) => level("x", floor, scales.x, colours)),
      ],
      annotations: [...corner(better, colours), ...labels],
      paper_bgcolor: colours.paper,
      plot_bgcolor: colours.paper,
      font: { family: colours.text, size: 12.5, color: colours.ink },
      margin: { l: 50, r: 12, t: 10, b: 40 },
      legend: {
        orientation: "h",
        yref: "container",
        y: 0,
        yanchor: "bottom",
        x: 0,
        xanchor: "left",
        font: { size: 12 },
        bgcolor: "rgba(0,0,0,0)",
      },
      hovermode: "closest",
      hoverlabel: {
        bgcolor: colours.raised,
        align: "left",
        font: { color: colours.ink, family: colours.text, size: 12.5 },
      },
      dragmode: narrow ? false : "zoom",
    };
  }

  const CONFIG = {
    responsive: true,
    displayModeBar: false, // The cards have buttons that keyboards reach.
    typesetMath: false,
    plotlyServerURL: "",
    showTips: false,
  };

  return { layout, CONFIG };
})();
