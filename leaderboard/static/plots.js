"use strict";
// The plots of a set: rows that the filters leave, on axes that Python made. Plotly draws; it loads
// when a plot is looked at. A mechanism has one colour and one symbol in all plots.
window.uedp.plots = (function () {
  const { element, get, set, sets, raw, rows, rowOf, columns, columnOf, number } = window.uedp;
  const { plain, wrap, lines, coloured, idle, shown, subscribe, fill, CONFIG } = window.uedp;
  const AXES = { budget: ["unit", "utility"], leakage: ["leakage", "utility"], promise: ["unit", "leakage"], cost: ["cost", "utility"], spread: [] };
  const LACKS = { utility: "a utility metric", leakage: "leakage: no attack ran, or none applied", cost: "a cost", unit: "a finite ε" };
  const section = document.getElementById("view-plots");
  const script = document.getElementById("plotly");
  const phone = window.matchMedia("(max-width: 700px), (pointer: coarse)");
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const brief = (name, most = 36) => plain(name.length > most ? `${name.slice(0, most - 1)}…` : name);

  /** What is chosen of a kind: the link's choice where the set has it, else what Python says. */
  function choice(plots, kind) {
    const wanted = get(`plot${kind}`);
    if (plots.offers[kind].includes(wanted)) {
      return wanted;
    }
    return kind === "unit" ? plots.start.units[choice(plots, "kind")] || plots.start.unit : plots.start[kind];
  }

  /** An axis: what Python made, its name, and its value of a row; `made` is undefined where none has a value. */
  function axisOf({ at, plots }, kind) {
    const [unit, as] = [choice(plots, "unit"), choice(plots, "kind")];
    const key = kind === "unit" ? `${as}:${unit}` : choice(plots, kind);
    const column = columnOf.get(key);
    const made = { key, kind, made: plots.axes[key], ...plots.axes[key] };
    if (kind === "unit") {
      const name = `${as} ε for ${plots.units[unit]}`;
      const of = (row) => (row.set === at ? epsilon(row, as, plots.offers.unit.indexOf(unit)) : null);
      return axis({ ...made, name, lacks: `a ${name}`, better: "lower", of });
    }
    const by = column && column.percent ? 100 : 1;
    return axis(column ? {
      ...made, name: (column.kind === "leakage" ? `${column.attack}: ` : "") + column.heading, lacks: column.heading,
      better: column.better, worth: (value) => uedp.worth(column, value / by) * by, of: (row) => measured(row, column, by),
    } : made);
  }

  /** An axis with where it has a value: zero and infinity may have places of their own. */
  const axis = (made) => ({ floors: [], of: () => null, worth: (value) => value, ...made, place: (value) => made.edges?.[value] ?? value });

  /** A row's epsilon of a kind for the budget at a place. */
  function epsilon(row, kind, at) {
    const place = (row.epsilons[kind] || [])[at];
    const one = row.guarantees[place];
    return place === -1 ? { value: Infinity, low: null, text: `∞ (nothing ${kind})` }
      : one ? { value: one.epsilon, low: null, text: one.text, refuted: one.status === "refuted" } : null;
  }

  /** A row's value of a metric; its interval reaches no further than honest values do. */
  function measured(row, column, by) {
    const one = row.values[column.key];
    const end = (limit, none) => (Number.isFinite(limit) ? limit : none);
    return one ? {
      value: one.value * by, n: one.n, text: one.text,
      low: one.low === null ? null : Math.max(one.low, Math.min(end(column.low, -Infinity), one.value)) * by,
      high: Math.min(one.high, Math.max(end(column.high, Infinity), one.value)) * by,
    } : null;
  }

  const title = (axis) => axis.name + (axis.better ? ` (${axis.better} is better)` : "");

  const look = (label) => raw.looks[label] || { color: "var(--series-1)", symbol: "circle" };

  /** Hover text: a bold name, then lines; nothing of it is markup. */
  function hover(name, more) {
    return [...wrap(name).map((line) => `<b>${plain(line)}</b>`),
      ...more.filter(Boolean).flatMap((line) => wrap(line)).map(plain)].join("<br>");
  }

  /** A trace of points {row, x, y, hover} with their places; null is a gap. */
  function trace(points, axes, meta, drawn) {
    const along = (letter) => points.map((point) => point && axes[letter].place(point[letter].value));
    return {
      x: along("x"), y: along("y"), meta, mode: "markers", showlegend: false, customdata: points.map((one) => one && one.row.id),
      hoverinfo: "text", hovertext: points.map((point) => point && point.hover), ...drawn,
    };
  }

  /** An entry of the legend without a point: its symbol is whole there. */
  const entry = (name, drawn) => ({ x: [null], y: [null], name, hoverinfo: "skip", meta: "legend", mode: "markers", ...drawn });

  function entries(found) {
    return [...new Set(found.map(({ row }) => row.label))].sort().map((label) =>
      entry(brief(label), { legendgroup: label, marker: { ...look(label), size: 10 } }));
  }

  /** Plotly's bars from intervals; undefined where no point has one. */
  function bars(points, letter, axis, color) {
    const ends = points.map(({ [letter]: { value, low, high } }) => (low === null || !Number.isFinite(value) ? [0, 0]
      : [value - Math.max(low, axis.least ?? -Infinity), high - value]));
    return ends.some(([below, above]) => below || above) ? {
      type: "data", symmetric: false, arrayminus: ends.map((end) => end[0]), array: ends.map((end) => end[1]),
      color, thickness: 1, width: 3,
    } : undefined;
  }

  /** Of every mechanism its points; open symbols are dominated, dots mark one seed. */
  function scatter(points, axes) {
    return [true, false].flatMap((dimmed) => [...Map.groupBy(points.filter((one) => one.dimmed === dimmed),
      ({ row }) => row.label)].map(([label, group]) => {
      const { color, symbol } = look(label);
      return trace(group, axes, dimmed ? "dominated" : "points", {
        name: brief(label), legendgroup: label, opacity: dimmed ? 0.75 : 1, // keeps a contrast of 3:1
        error_x: bars(group, "x", axes.x, color), error_y: bars(group, "y", axes.y, color),
        marker: {
          color, size: 10, symbol: group.map(({ one }) => symbol + (dimmed ? "-open" : "") + (one ? "-dot" : "")),
          line: { width: dimmed ? 1.5 : 1, color: dimmed ? color : "var(--paper)" },
        },
      });
    }));
  }

  /** Marks over points, and the entries of the legend for the marks that there are. */
  function marks(points, axes) {
    const there = raw.marks.filter(([mark]) => points.some((point) => point[mark]));
    const over = there.filter(([mark]) => ["idle", "refuted"].includes(mark)).map(([mark, , marker]) => ({
      ...trace(points.filter((point) => point[mark]), axes, mark, { marker, hoverinfo: "skip" }), customdata: undefined }));
    const own = there.filter(([mark]) => ["protected", "bound"].includes(mark)).map(([mark, , marker]) => {
      const found = points.filter((point) => point[mark]);
      const color = found.map(({ row }) => look(row.label).color);
      return trace(found, axes, mark, { marker: { ...marker, color, line: { width: 2, color } } });
    });
    return [...over, ...own, ...entries(points), ...there.map(([, name, marker]) => entry(name, { marker }))];
  }

  /** A dotted line across the plot at a value of an axis. */
  function across(letter, value, more) {
    const other = letter === "x" ? "y" : "x";
    return { type: "line", layer: "below", [`${letter}ref`]: letter, [`${letter}0`]: value, [`${letter}1`]: value,
      [`${other}ref`]: "paper", [`${other}0`]: 0, [`${other}1`]: 1, line: { color: "var(--muted)", width: 1.5, dash: "dot" }, ...more };
  }

  /** Where a value stands: as Plotly's annotations have it, and as a share of the axis. */
  function share({ frame, place }, value) {
    const at = frame.type === "log" ? Math.log10(place(value)) : place(value);
    return { at, share: (at - frame.range[0]) / (frame.range[1] - frame.range[0]) };
  }

  function marksOf(letter, axis) {
    const edge = axis.wall === undefined ? [] : [across(letter, axis.wall, { line: { color: "var(--strong-line)", width: 1, dash: "dot" } })];
    return [...edge, ...axis.floors.map(({ name, value }) => across(letter, value, {
      name: letter === "y" ? "floor" : "nothing",
      label: {
        text: plain(name), textposition: "end", font: { size: 11, color: "var(--muted)" },
        // A name above the highest line would leave the plot.
        ...(letter === "y" ? { yanchor: share(axis, value).share > 0.92 ? "top" : "bottom" }
          : { textangle: 0, xanchor: "left", yanchor: "top" }),
      },
    }))];
  }

  function corner({ x, y }) {
    const [right, up] = [x.better === "higher", y.better === "higher"];
    const arrow = right ? (up ? "↗" : "↘") : up ? "↖" : "↙";
    return x.better && y.better ? [{
      name: "better", text: right ? `better ${arrow}` : `${arrow} better`, showarrow: false, xref: "paper", yref: "paper",
      x: right ? 0.99 : 0.01, y: up ? 0.99 : 0.01, xanchor: right ? "right" : "left", yanchor: up ? "top" : "bottom",
      font: { size: 12.5, color: "var(--ink)" }, bgcolor: "var(--raised)", borderpad: 2,
    }] : [];
  }

  /** Names beside points where they have room: of few points all, else the best of every mechanism. */
  function names(points, { x, y }) {
    const best = [...points].sort((a, b) => (y.better === "higher" ? -1 : 1) * (a.y.value - b.y.value));
    const named = points.length <= 8 ? points : best.filter((one, at) => best.findIndex(({ row }) => row.label === one.row.label) === at);
    const [high, most] = [0.05, phone.matches ? 18 : 30];
    const taken = [];
    return named.flatMap((point) => {
      const text = brief(points.length <= 8 ? point.row.mechanism : point.row.label, most);
      const wide = 0.0125 * (phone.matches ? 2 : 1) * (text.length + 1);
      const [across, up] = [share(x, point.x.value), share(y, point.y.value)];
      // Beside the point, on the other side, or below.
      const places = [[1, 1], [-1, 1], [1, -1], [-1, -1]].map(([side, above]) => (
        { side, above, x: across.share + side * wide / 2, y: up.share + above * 0.6 * high, wide }));
      const free = places.find((one) => one.x + wide / 2 < 1.02 && one.x - wide / 2 > -0.02 && taken.every((other) =>
        Math.abs(one.x - other.x) > (one.wide + other.wide) / 2 || Math.abs(one.y - other.y) > high));
      if (!free || taken.length >= 12 || !Number.isFinite(across.at) || !Number.isFinite(up.at)) {
        return [];
      }
      taken.push(free);
      return [{
        name: "label", text, x: across.at, y: up.at, showarrow: false, captureevents: false,
        xanchor: free.side < 0 ? "right" : "left", yanchor: free.above < 0 ? "top" : "bottom",
        xshift: 6 * free.side, yshift: 4 * free.above, font: { size: 11.5, color: look(point.row.label).color },
      }];
    });
  }

  function layout(axes, labels) {
    const narrow = phone.matches;
    const drawn = (letter, room) => ({
      ...raw.plot[`${letter}axis`], ...axes[letter].frame, fixedrange: narrow, exponentformat: "power",
      title: { text: lines(title(axes[letter]), room, 3), standoff: 10 },
    });
    return {
      ...raw.plot, xaxis: drawn("x", narrow ? 34 : 66), yaxis: drawn("y", narrow ? 32 : 36), dragmode: narrow ? false : "zoom",
      shapes: [...marksOf("x", axes.x), ...marksOf("y", axes.y)], annotations: [...corner(axes), ...labels],
    };
  }

  /** Of points {x, y}, which ones another dominates: no worse in both, better in one. */
  function dominated(points, better) {
    const merits = points.map((p) => ["x", "y"].map((at) => (better[at] === "higher" ? p[at] : -p[at])));
    return merits.map(([x, y]) => merits.some(([u, v]) => u >= x && v >= y && (u > x || v > y)));
  }

  /** The line through the points that none dominates: what is reached, in steps. */
  function front(points, axes) {
    const best = points.filter((one) => !one.dimmed && !one.idle).sort((a, b) => a.x.value - b.x.value || a.y.value - b.y.value);
    return { ...trace(best, axes, "front", {
      mode: "lines", name: "Pareto front", hoverinfo: "skip", showlegend: true,
      line: { color: "var(--ink)", width: 1.5, dash: "dash", shape: axes.x.better === "higher" ? "vh" : "hv" },
    }), customdata: undefined };
  }

  function seeds({ row, x, y }) {
    const n = Math.min(row.n, x.n ?? row.n, y.n ?? row.n);
    return `${n}${n < row.n ? ` of ${row.n}` : ""}`;
  }

  function pointsOf(found, { x, y }, fronted) {
    const points = found.map((row) => ({ row, x: x.of(row), y: y.of(row), idle: idle(row) === true, dimmed: false }))
      .filter((point) => point.x && point.y);
    // What learned nothing dominates nobody: it leaks little because it knows little.
    const able = points.filter((point) => !point.idle);
    const beaten = fronted ? dominated(able.map((one) => ({ x: x.worth(one.x.value), y: y.worth(one.y.value) })),
      { x: x.better, y: y.better }) : [];
    return points.map((point) => {
      const dimmed = fronted && (point.idle || beaten[able.indexOf(point)]);
      const where = point.idle ? "not on it: learned nothing" : dimmed ? "dominated" : "on it";
      return {
        ...point, dimmed, where, one: point.x.n === 1 || point.y.n === 1, refuted: Boolean(point.x.refuted),
        hover: hover(point.row.mechanism, [`${y.name}: ${point.y.text}`, `${x.name}: ${point.x.text}`,
          `n = ${seeds(point)} seed${point.row.n === 1 ? "" : "s"}`, point.idle ? "learned nothing: no better than its floors" : "",
          fronted && !point.idle ? (dimmed ? "dominated" : "on the Pareto front") : ""]),
      };
    });
  }

  /** The figure of two axes: y against x. A figure is {empty} or {data, layout, head, body, summary, notes}. */
  function versus(context, x, y, pareto) {
    const empty = missing(context, x) || missing(context, y);
    if (empty) {
      return { empty };
    }
    const axes = { x, y };
    const fronted = Boolean(pareto && x.better && y.better);
    const points = pointsOf(context.rows, axes, fronted);
    const without = [y, x].map((axis) => [axis.lacks, context.rows.filter((row) => !axis.of(row)).length])
      .filter(([, n]) => n).map(([lacks, n]) => `Not drawn: ${count(n, "row")} without ${lacks}.`);
    if (!points.length) {
      return { empty: `No row here has both. ${without.join(" ")}` };
    }
    const range = (letter) => [Math.min, Math.max].map((end) => number(end(...points.map((one) => one[letter].value)))).join(" to ");
    const marked = points.some((point) => point.idle);
    return {
      data: [...(fronted ? [front(points, axes)] : []), ...scatter(points, axes), ...marks(points, axes)],
      layout: layout(axes, names(points, axes)),
      head: ["mechanism", y.name, x.name, "seeds", ...(marked ? ["learned"] : []), ...(fronted ? ["Pareto front"] : [])],
      body: points.map((point) => [point.row, point.y.text, point.x.text, seeds(point),
        ...(marked ? [point.idle ? "nothing" : ""] : []), ...(fronted ? [point.where] : [])]),
      summary: `Scatter plot of ${count(points.length, "row")} of ${count(new Set(points.map(({ row }) => row.label)).size, "mechanism")}: ` +
        `${title(y)}, ${range("y")}, against ${title(x)}, ${range("x")}.`,
      notes: [...without,
        ...[...y.floors, ...x.floors].map(({ name, text }) => `Dotted line: ${name.replace(": ", " ")}, ${text}.`),
        pareto && !fronted ? "No front: it is not known which way is better." : "",
        x.cut || y.cut ? "Some intervals leave the frame; the table has them whole." : ""],
    };
  }

  function elsewhere({ at }, has) {
    const others = rows.filter(has);
    return others.some((row) => row.set === at) ? "Rows of this set that the filters hide have one: clear a filter."
      : others.length ? "Rows of other sets have one: choose another set or clear the filters." : "";
  }

  /** Why an axis has no value of any row in view; "" where it has. */
  function missing(context, axis) {
    const has = (row) => Boolean(axis.of(row)) && (axis.kind !== "unit" || axis.of(row).value < Infinity);
    if (axis.made && context.rows.some(has)) {
      return "";
    }
    const known = columns.filter((one) => one.kind === axis.kind && (one.better || !one.about));
    const any = axis.kind === "unit" ? (row) => Object.values(row.epsilons).flat().some((one) => one !== null && one >= 0)
      : (row) => known.some(({ key }) => key in row.values);
    const what = context.rows.some(any) ? axis.lacks : LACKS[axis.kind];
    return `No row here has ${what}. ${context.rows.some(any) ? "Choose another above." : elsewhere(context, any)}`;
  }

  /** A row's curves of a kind and budget; nothing may be promised for everybody's entity. */
  function curves(row, key) {
    return row.guarantees.filter((one) => one.curve.length &&
      [one.kind, one.unit, one.notion === "none" ? "dp" : one.notion, one.adjacency].join(":") === key);
  }

  /** A point of a curve, or of a bound of an audit, with its line of the table. */
  function spreadPoint(row, mark, epsilon, others, sentences, by) {
    const text = by ? `at least ${by.text}` : number(epsilon);
    const many = Number.isInteger(sentences) ? String(sentences) : "";
    const kind = { protected: "declared protected", bound: "lower bound" }[mark] || "";
    return { row, [mark]: true, x: { value: others }, y: { value: epsilon }, line: [row, String(others), many || "any number", text, kind],
      hover: hover(row.mechanism, [`${others === 1 ? "1 other user mentions" : `${others} other users mention`} the entity` +
        (many && `, in ${many} sentences`), by ? `ε is ${text}, by ${by.attack}` : `ε = ${text}`, by ? "" : kind && `${kind} point`]) };
  }

  /** Epsilon for an entity by how many other users mention it, with declared points and what audits refuted. */
  function spreadCurve(context) {
    const { plots, rows: mine } = context;
    const kind = choice(plots, "kind") || "proven";
    const key = [`${kind}:${choice(plots, "unit")}`, ...Object.keys(plots.spread)].find((one) =>
      one in plots.spread && one.startsWith(`${kind}:`) && mine.some((row) => curves(row, one).length));
    if (!key) {
      const other = kind === "proven" ? "claimed" : "proven";
      const has = (as) => (row) => row.guarantees.some((one) => one.kind === as && one.curve.length);
      return { empty: `No row here has a ${kind} curve: only mechanisms that protect a user together with an entity do. ` +
        (mine.some(has(other)) ? `Choose ${other} ε above.` : elsewhere(context, has(kind))) };
    }
    const lined = mine.flatMap((row) => curves(row, key).map((one) => one.curve.map(({ spread, sentences, epsilon }) =>
      spreadPoint(row, spread === one.protected && epsilon === one.epsilon ? "protected" : "", epsilon, spread, sentences))));
    // Bounds for users hold where nobody else mentions the entity.
    const bounds = mine.flatMap((row) => row.bounds.filter(({ unit, spread, adjacency }) => key.endsWith(`:${adjacency}`) &&
      (unit === "user" || (unit === "user-entity" && spread !== null))).map((one) =>
      spreadPoint(row, "bound", one.epsilon, one.unit === "user" ? 0 : one.spread, one.sentences, one)));
    const axes = { x: axis({ ...plots.spread[key].x, name: "other users who mention the entity" }),
      y: axis({ ...plots.spread[key].y, name: `${kind} ε`, better: "lower" }) };
    const all = [...lined.flat(), ...bounds];
    const beyond = all.some(({ y: { value } }) => value < Infinity && share(axes.y, value).share > 1);
    const curve = ([label, group]) => trace(group.flatMap((points) => [
      // No line leads to infinity, nor from one curve to the next.
      ...points.flatMap((one, at) => (at && one.y.value === Infinity ? [null, one] : [one])), null]), axes, "curve", {
      mode: "lines+markers", name: brief(label), legendgroup: label, connectgaps: false,
      line: { color: look(label).color, width: 1.5 }, marker: { ...look(label), size: 6 },
    });
    return {
      data: [...[...Map.groupBy(lined, ([{ row }]) => row.label)].map(curve), ...marks(all, axes)],
      layout: layout(axes, []), head: ["mechanism", "other users", "their sentences", "ε", "point"], body: all.map(({ line }) => line),
      summary: `${count(lined.length, "curve")} of ${kind} ε against other users who mention the entity; ${count(bounds.length, "lower bound")} of audits.`,
      notes: [beyond ? "Larger ε promise nothing: the axis ends before them. The table has all." : ""],
    };
  }

  const cards = Object.entries(AXES).map(([name, axes]) => {
    const node = section.querySelector(`.plot-card-${name}`);
    const part = (selector) => node.querySelector(selector);
    const card = { name, axes, node, key: "", called: part("h3").textContent, chart: part(".chart"), notes: part(".plot-notes"),
      details: part("details"), told: part("summary"), table: part(".scroll"), empty: section.querySelector(`.plot-missing-${name}`) };
    card.details.addEventListener("toggle", () => list(card));
    node.querySelectorAll(".plot-tools button").forEach((button) => button.addEventListener("click", () => picture(card, button.value)));
    return card;
  });

  /** Saves the chart with a title that says what it shows. */
  function picture({ chart, called, figure, set: name }, format) {
    const { data, layout: frame } = coloured(figure);
    const text = `${plain(called)}<br><sub>${plain(name)}</sub>`;
    window.Plotly.downloadImage({
      data, config: CONFIG,
      layout: { ...frame, title: { text, font: { size: 16 }, x: 0.02, y: 0.96, yanchor: "top" }, margin: { ...frame.margin, t: 64 } },
    }, { format, width: Math.max(chart.clientWidth, 800), height: 560, filename: `uedp-bench-${called.toLowerCase().replace(/\W+/g, "-")}` });
  }

  /** The figure's numbers as a table, with links that a chart has for the mouse only; made when it is looked at. */
  function list({ details, table, called, figure }) {
    if (details.open) {
      table.replaceChildren(element("table", { class: "plain" }, element("caption", {}, called),
        element("thead", {}, element("tr", {}, figure.head.map((text) => element("th", { scope: "col" }, text)))),
        element("tbody", {}, figure.body.map(([row, ...values]) => element("tr", {},
          element("th", { scope: "row" }, element("a", { href: row.runs[0].page }, row.mechanism)),
          values.map((value) => element("td", {}, value)))))));
    }
  }

  function show(card, context) {
    const [x, y] = card.axes.map((kind) => axisOf(context, kind));
    const figure = x ? versus(context, x, y, card.name === "leakage") : spreadCurve(context);
    const key = JSON.stringify([figure.empty, figure.data, figure.layout, document.documentElement.dataset.theme]);
    if (key === card.key) {
      // Plotly notices no change of the window while the view is out of sight.
      return figure.empty ? null : window.Plotly.Plots.resize(card.chart);
    }
    Object.assign(card, { key, figure, set: context.name });
    card.empty.querySelector("span").textContent = figure.empty || "";
    card.empty.hidden = !figure.empty;
    card.node.hidden = Boolean(figure.empty);
    if (figure.empty) {
      return null;
    }
    card.chart.setAttribute("aria-label", `${card.called}. ${figure.summary} Its data are in the table below.`);
    card.notes.textContent = figure.notes.filter(Boolean).join(" ");
    card.told.textContent = `Data of this plot (${count(figure.body.length, "line")})`;
    list(card);
    const first = !card.chart.data;
    const { data, layout: frame } = coloured(figure);
    window.Plotly.react(card.chart, data, frame, CONFIG);
    if (first) {
      card.chart.on("plotly_click", ({ points: [{ customdata }] }) => rowOf.has(customdata) && window.location.assign(rowOf.get(customdata).runs[0].page));
      card.chart.on("plotly_hover", () => card.chart.classList.add("on-point"));
      card.chart.on("plotly_unhover", () => card.chart.classList.remove("on-point"));
    }
    return card;
  }

  const boxes = Object.fromEntries(["set", "utility", "leakage", "unit", "kind", "cost"].map((kind) => [kind, document.getElementById(`plot${kind}`)]));
  Object.values(boxes).forEach((box) => box.addEventListener("change", () => set({ [box.id]: box.value })));
  const [bar, status, legend, grid, lacking] = [".plot-controls", "#plots-status", "#plots-marks", ".plot-grid", "#plots-missing"]
    .map((selector) => section.querySelector(selector));

  function offer(kind, offered, chosen) {
    fill(boxes[kind], offered, chosen);
    boxes[kind].parentElement.hidden = offered.length < 2;
  }

  function controls(offered, { id, plots }) {
    offer("set", offered.map((one) => [one.id, `${one.name} (${count(one.rows.length, "row")})`]), id);
    for (const [kind, keys] of Object.entries(plots.offers)) {
      offer(kind, keys.map((key) => [key, columnOf.get(key)?.heading ?? plots.units[key] ?? key, kind === "leakage" ? columnOf.get(key).group : ""]),
        choice(plots, kind));
    }
  }

  function draw() {
    if (get("view") !== "plots" || section.hidden) {
      return;
    }
    // The largest set first, of what the filters leave.
    const offered = [...Map.groupBy(shown(), (row) => row.set)].sort((a, b) => b[1].length - a[1].length)
      .map(([at, mine]) => ({ at, id: sets[at].id, name: `${sets[at].letter}: ${sets[at].title}`, rows: mine, plots: sets[at].plots }));
    const found = offered.find((one) => one.id === get("plotset")) || offered[0];
    const waiting = script.hasAttribute("data-missing") ? "The plots need assets/plotly.min.js, which could not be loaded." : "Loading the plots…";
    status.textContent = !rows.length ? "There are no results yet." : !found ? "No row passes the filters: clear one of them." : window.Plotly ? "" : waiting;
    status.hidden = !status.textContent;
    bar.hidden = !found;
    grid.hidden = legend.hidden = lacking.hidden = !status.hidden;
    section.querySelector("h2").textContent = found ? `Plots of set ${found.name}` : "Plots";
    if (found) {
      controls(offered, found);
      cards.forEach((card) => window.Plotly && show(card, found));
    }
  }

  /** Draws in the next frame, once, however many changes there are until then. */
  let frame = 0;
  function request() {
    window.cancelAnimationFrame(frame);
    frame = window.requestAnimationFrame(draw);
  }

  for (const [from, event] of [[script, "load"], [script, "error"], [document, "uedp:theme"], [phone, "change"]]) {
    from.addEventListener(event, request);
  }
  subscribe(request);
  return { dominated };
})();
