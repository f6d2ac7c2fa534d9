"use strict";
// Points and scales become Plotly's traces and layout. A mechanism has one colour and one symbol
// in all plots and under all filters; colour alone never tells.
uedp.plotTraces = (function () {
  const COLOURS = 8; // --series-1 to --series-8, of either theme
  const DIMMED = 0.75; // what keeps a contrast of 3:1
  const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "x", "triangle-down", "star"];
  const places = assign();

  /**
   * A number for every mechanism, assigned over all rows: those that share a set differ, those
   * of most sets come first.
   */
  function assign() {
    const setsOf = new Map();
    for (const row of uedp.rows) {
      setsOf.set(row.label, (setsOf.get(row.label) || new Set()).add(row.set));
    }
    const found = new Map();
    const order = [...setsOf].sort((a, b) => b[1].size - a[1].size || (a[0] < b[0] ? -1 : 1));
    for (const [label, mine] of order) {
      const taken = new Set(
        [...found.keys()]
          .filter((other) => [...setsOf.get(other)].some((at) => mine.has(at)))
          .map((other) => found.get(other)),
      );
      let at = 0;
      while (taken.has(at)) {
        at += 1;
      }
      found.set(label, at);
    }
    return found;
  }

  /** Colours of the theme in force. */
  function palette() {
    const style = window.getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return {
      paper: read("--paper"),
      raised: read("--raised"),
      ink: read("--ink"),
      muted: read("--muted"),
      line: read("--line"),
      strong: read("--strong-line"),
      bad: read("--bad"),
      text: read("--text"),
      series: Array.from({ length: COLOURS }, (_, at) => read(`--series-${at + 1}`)),
    };
  }

  /** A mechanism's colour and symbol; as many pairs as colours times symbols. */
  function look(label, colours) {
    const at = places.get(label);
    return { colour: colours.series[at % COLOURS], symbol: SYMBOLS[at % SYMBOLS.length] };
  }

  // ----------------------------------------------------------------------------------------- text

  /** Lines of at most `width` characters, broken at spaces where there are any. */
  function wrap(text, width = 56) {
    const lines = [""];
    for (const word of String(text).split(/\s+/)) {
      for (let rest = word; rest; rest = rest.slice(width)) {
        const part = rest.slice(0, width);
        const last = lines[lines.length - 1];
        if (last && last.length + 1 + part.length > width) {
          lines.push(part);
        } else {
          lines[lines.length - 1] = last ? `${last} ${part}` : part;
        }
      }
    }
    return lines;
  }

  /** Hover text: a bold name, then lines; nothing of it is markup. */
  function hover(name, lines) {
    const bold = wrap(name).map((line) => `<b>${uedp.plain(line)}</b>`);
    return [...bold, ...lines.flatMap((line) => wrap(line)).map(uedp.plain)].join("<br>");
  }

  /** A name that a legend has room for. */
  function brief(name) {
    return uedp.plain(name.length > 36 ? `${name.slice(0, 35)}…` : name);
  }

  // --------------------------------------------------------------------------------------- traces

  /** An entry of the legend without a point: all its symbols are whole there. */
  function entry(name, drawn) {
    return { x: [null], y: [null], name, hoverinfo: "skip", meta: "legend", ...drawn };
  }

  /** Entries for the mechanisms of rows. */
  function entries(rows, colours) {
    return [...new Set(rows.map((row) => row.label))].sort().map((label) => {
      const { colour, symbol } = look(label, colours);
      const marker = { color: colour, symbol, size: 10 };
      return entry(brief(label), { mode: "markers", marker, legendgroup: label });
    });
  }

  /** Plotly's bars from intervals, from place to place; null where no point has one. */
  function bars(points, along, scale, colour) {
    const ends = points.map(({ [along]: { value, low, high } }) =>
      low === null || !Number.isFinite(value)
        ? [0, 0]
        : [scale.at(value) - scale.clamp(low), scale.at(high) - scale.at(value)],
    );
    if (ends.every(([below, above]) => !below && !above)) {
      return undefined;
    }
    const [arrayminus, array] = [ends.map((end) => end[0]), ends.map((end) => end[1])];
    return {
      type: "data",
      symmetric: false,
      array,
      arrayminus,
      color: colour,
      thickness: 1,
      width: 3,
    };
  }

  /**
   * Points {row, x, y, one, dimmed, hover} as traces: of every mechanism one, and one of its
   * dimmed points. Open symbols are dimmed points, dots mark rows of one seed.
   */
  function scatter(points, scales, colours) {
    const groups = new Map();
    for (const point of points) {
      const key = JSON.stringify([point.row.label, Boolean(point.dimmed)]);
      groups.set(key, groups.get(key) || []);
      groups.get(key).push(point);
    }
    return [...groups.values()].map((group) => {
      const { label } = group[0].row;
      const { colour, symbol } = look(label, colours);
      const { dimmed } = group[0];
      return {
        x: group.map((point) => scales.x.at(point.x.value)),
        y: group.map((point) => scales.y.at(point.y.value)),
        error_x: bars(group, "x", scales.x, colour),
        error_y: bars(group, "y", scales.y, colour),
        mode: "markers",
        name: brief(label),
        legendgroup: label,
        showlegend: false,
        meta: dimmed ? "dominated" : "points",
        opacity: dimmed ? DIMMED : 1,
        marker: {
          color: colour,
          size: 10,
          symbol: group.map(({ one }) => symbol + (dimmed ? "-open" : "") + (one ? "-dot" : "")),
          line: { width: dimmed ? 1.5 : 1, color: dimmed ? colour : colours.paper },
        },
        customdata: group.map((point) => point.row.id),
        hoverinfo: "text",
        hovertext: group.map((point) => point.hover),
      };
    });
  }

  return { palette, look, hover, brief, entry, entries, scatter, wrap };
})();
