"use strict";
// The view of plots: cards that draw what the filters leave of one comparable set. Plotly draws; it
// loads beside the page, and only a view in sight is drawn.
(function () {
  const { element } = uedp;
  const CARDS = [
    {
      name: "budget",
      title: "Utility against ε",
      about: "What a promise costs: the further left, the more is promised.",
      draw: uedp.plotFigures.utilityByBudget,
    },
    {
      name: "leakage",
      title: "Utility against leakage",
      about:
        "What attacks still find. The line joins the rows that no other row beats in both; " +
        "dominance compares means, without their intervals, and takes what leaks less than chance as chance.",
      draw: uedp.plotFigures.utilityByLeakage,
    },
    {
      name: "promise",
      title: "Leakage against ε",
      about: "Attacks should find less where more is promised.",
      draw: uedp.plotFigures.leakageByBudget,
    },
    {
      name: "cost",
      title: "Utility against cost",
      about: "What a run takes; seconds compare on one machine only.",
      draw: uedp.plotFigures.utilityByCost,
    },
    {
      name: "spread",
      title: "Spread curve",
      about:
        "A user together with an entity: the more other users mention the entity, the less is " +
        "promised. One line a row.",
      draw: uedp.plotSpread.spreadCurve,
    },
  ];
  const section = document.getElementById("view-plots");
  const script = document.getElementById("plotly");
  const phone = window.matchMedia("(max-width: 700px), (pointer: coarse)");
  const cards = CARDS.map(uedp.plotCard.make);
  const { bar } = uedp.plotControls;
  const heading = element("h2", {}, "Plots");
  const status = element("p", { class: "note", role: "status", id: "plots-status" });
  const marks = element(
    "p",
    { class: "note" },
    "Points are means over seeds, bars their 95 % intervals; a dot in a symbol marks one seed, " +
      "which has none. The arrow points to the corner that is better. A point opens its run.",
  );
  const grid = element(
    "div",
    { class: "plot-grid" },
    cards.map(({ node }) => node),
  );
  const missing = element(
    "ul",
    { id: "plots-missing", class: "note", "aria-label": "Plots that these rows do not have" },
    cards.map(({ empty }) => empty),
  );
  let waiting = false;

  /** Draws in the next frame, once, however many changes there are until then. */
  function request() {
    if (!waiting) {
      waiting = true;
      window.requestAnimationFrame(() => {
        waiting = false;
        draw();
      });
    }
  }

  /** Why nothing is drawn; "" where something is. */
  function obstacle(set) {
    if (!set) {
      return uedp.rows.length
        ? "No row passes the filters: clear one of them."
        : "There are no results yet.";
    }
    if (window.Plotly) {
      return "";
    }
    return script.hasAttribute("data-missing")
      ? "The plots need assets/plotly.min.js, which could not be loaded."
      : "Loading the plots…";
  }

  function draw() {
    if (uedp.get("view") !== "plots" || section.hidden) {
      return;
    }
    const sets = uedp.plotData.sets(uedp.shown());
    const set = sets.find((one) => one.id === uedp.get("plotset")) || sets[0];
    status.textContent = obstacle(set);
    status.hidden = !status.textContent;
    bar.hidden = !set;
    grid.hidden = marks.hidden = missing.hidden = !status.hidden;
    heading.textContent = set ? `Plots of set ${set.name}` : "Plots";
    if (set) {
      const chosen = uedp.plotData.choose(set.rows, set.at, uedp.get);
      uedp.plotControls.show(sets, set, chosen);
      if (window.Plotly) {
        drawCards(set, chosen);
      }
    }
  }

  function drawCards(set, chosen) {
    const ids = new Set(set.rows.map((row) => row.id));
    const context = {
      ...chosen,
      rows: set.rows,
      hidden: uedp.rows.filter((row) => row.set === set.at && !ids.has(row.id)),
      colours: uedp.plotTraces.palette(),
      narrow: phone.matches,
    };
    for (const card of cards) {
      uedp.plotCard.show(card, context, set.name);
    }
  }

  section.replaceChildren(heading, bar, status, marks, grid, missing);
  script.addEventListener("load", request);
  script.addEventListener("error", request);
  document.addEventListener("uedp:theme", request);
  phone.addEventListener("change", request);
  uedp.subscribe(request);
})();
