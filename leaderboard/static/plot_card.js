"use strict";
// A card of the view of plots: title, chart or what is missing, its data as a table, downloads.
// Points of a chart take no keyboard focus, so the table has their links.
uedp.plotCard = (function () {
  const { element } = uedp;

  /**
   * A card's nodes and what it draws.
   *
   * @param {object} given name, title, a sentence `about` it, and `draw`: context to figure.
   */
  function make({ name, title, about, draw }) {
    const one = { name, title, draw, figure: null, key: "", subtitle: "", width: 0 };
    const chart = element("div", { class: "chart", id: `plot-${name}`, role: "img" });
    // What is missing stands below all cards: a card without a plot would be a hole.
    const reason = element("span", {});
    const empty = element("li", { class: `plot-missing-${name}`, hidden: true },
      element("strong", {}, `${title}: `), reason);
    const notes = element("p", { class: "note" });
    const told = element("summary", {});
    const table = element("div", { class: "scroll" });
    const details = element("details", { ontoggle: () => details.open && list(one) }, told, table);
    const tools = element("div", { class: "plot-tools" }, save(one, "png"), save(one, "svg"));
    const heading = element("h3", { id: `plot-${name}-title` }, title);
    const node = element(
      "article",
      { class: `card plot-card plot-card-${name}`, "aria-labelledby": heading.id },
      element("div", { class: "plot-head" }, heading, tools),
      element("p", { class: "note" }, about),
      chart,
      notes,
      details,
    );
    return Object.assign(one, { node, chart, empty, reason, notes, told, table, details, tools });
  }

  /** A button that saves the chart as a picture. */
  function save(one, format) {
    return element(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": `Save ${one.title} as ${format.toUpperCase()}`,
        onclick: () => download(one, format),
      },
      `Save ${format.toUpperCase()}`,
    );
  }

  /** Saves the chart with a title that says what it shows. */
  function download({ figure, title, subtitle, chart }, format) {
    const text = `${uedp.plain(title)}<br><sub>${uedp.plain(subtitle)}</sub>`;
    const layout = {
      ...figure.layout,
      title: { text, font: { size: 16 }, x: 0.02, y: 0.96, yanchor: "top" },
      margin: { ...figure.layout.margin, t: 64 },
    };
    window.Plotly.downloadImage(
      { data: figure.traces, layout, config: uedp.plotLayout.CONFIG },
      {
        format,
        width: Math.max(chart.clientWidth, 800),
        height: 560,
        filename: `uedp-bench-${title.toLowerCase().replace(/\W+/g, "-")}`,
      },
    );
  }

  /** The figure's numbers as a table; made when it is looked at. */
  function list({ figure, table, title }) {
    const link = (row) => element("a", { href: row.runs[0].page }, row.mechanism);
    const line = ([id, ...values]) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, link(uedp.rowOf.get(id))),
        values.map((value) => element("td", {}, String(value))),
      );
    const head = figure.head.map((text) => element("th", { scope: "col" }, text));
    table.replaceChildren(
      element(
        "table",
        { class: "plain" },
        element("caption", {}, title),
        element("thead", {}, element("tr", {}, head)),
        element("tbody", {}, figure.body.map(line)),
      ),
    );
  }

  /** Draws a figure of the rows in view where it differs from the one that is there. */
  function show(one, context, subtitle) {
    const figure = one.draw(context);
    const key = JSON.stringify(figure);
    const width = one.node.clientWidth;
    if (key === one.key) {
      // Plotly notices no change of the window while the view is out of sight.
      if (!figure.empty && width !== one.width) {
        one.width = width;
        window.Plotly.Plots.resize(one.chart);
      }
      return;
    }
    Object.assign(one, { key, figure, subtitle, width });
    const missing = Boolean(figure.empty);
    one.reason.textContent = figure.empty || "";
    one.empty.hidden = !missing;
    one.node.hidden = missing;
    if (!missing) {
      put(one);
    }
  }

  function put(one) {
    const { figure, chart, title } = one;
    const lines = uedp.plotScatter.count(figure.body.length, "line");
    chart.setAttribute(
      "aria-label",
      `${title}. ${figure.summary} Its data are in the table below.`,
    );
    one.notes.textContent = figure.notes.join(" ");
    one.told.textContent = `Data of this plot (${lines})`;
    if (one.details.open) {
      list(one);
    }
    const first = !chart.data;
    window.Plotly.react(chart, figure.traces, figure.layout, uedp.plotLayout.CONFIG);
    if (first) {
      listen(chart);
    }
  }

  /** A click opens the run of a point. */
  function listen(chart) {
    chart.on("plotly_click", ({ points }) => {
      const row = uedp.rowOf.get(points[0].customdata);
      if (row) {
        window.location.assign(row.runs[0].page);
      }
    });
    chart.on("plotly_hover", () => chart.classList.add("on-point"));
    chart.on("plotly_unhover", () => chart.classList.remove("on-point"));
  }

  return { make, show };
})();
