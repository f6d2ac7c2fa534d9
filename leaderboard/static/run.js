"use strict";
// The page of a run: draws its figures where they come into view, copies the spec, saves the result.
(function () {
  const { coloured, CONFIG, save, copy } = window.uedp;
  const { figures } = JSON.parse(document.getElementById("data").textContent);
  const figureOf = new Map(figures.map(({ id, figure }) => [id, figure]));
  const script = document.getElementById("plotly");
  const charts = document.querySelectorAll("[data-figure]");
  const wanted = new Set();

  function draw(chart) {
    const { data, layout } = coloured(figureOf.get(chart.dataset.figure));
    // Fingers scroll the page; a mouse zooms.
    layout.dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";
    window.Plotly.react(chart, data, layout, CONFIG);
  }

  /** Draws a figure once the script that draws is there; it is loaded for the first one. */
  function need(chart) {
    wanted.add(chart);
    if (window.Plotly) {
      draw(chart);
    } else if (!script.src) {
      script.src = script.dataset.src;
    }
  }

  script.addEventListener("load", () => wanted.forEach(draw));
  script.addEventListener("error", () => charts.forEach((chart) => {
    chart.style.minHeight = "0";
    chart.textContent = "The script that draws figures is missing; the numbers are below.";
  }));
  // What is in view, and the rest when it comes into view.
  const seen = new IntersectionObserver((entries) => entries.filter((one) => one.isIntersecting).forEach(({ target }) => {
    seen.unobserve(target);
    need(target);
  }), { rootMargin: "400px" });
  charts.forEach((chart) => seen.observe(chart));
  document.addEventListener("uedp:theme", () => window.Plotly && wanted.forEach(draw));
  window.addEventListener("beforeprint", () => charts.forEach((chart) => chart.data || need(chart)));

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const element = document.getElementById(button.dataset.copy);
      // Without a clipboard, as browsers did before there was one: by selection.
      const copied = (await copy(element.textContent)) || (window.getSelection().selectAllChildren(element), document.execCommand("copy"));
      // Said to everybody, screen readers too.
      document.getElementById("told").textContent = copied ? "Copied." : "Could not copy: the text is selected.";
    });
  }

  const result = document.getElementById("result");
  const button = document.getElementById("save");
  button.hidden = false;
  button.addEventListener("click", () => save("result.json", "application/json", result.textContent));
  document.getElementById("shown").addEventListener("toggle", ({ target }) => {
    target.querySelector("pre").textContent = result.textContent;
  });

  const links = [...document.querySelectorAll(".contents a")];
  const headings = links.map((link) => document.getElementById(link.hash.slice(1)));

  /** Marks the section in view in the table of contents. */
  function mark() {
    const current = Math.max(headings.findLastIndex((one) => one.getBoundingClientRect().top < 120), 0);
    links.forEach((link, at) => (at === current ? link.setAttribute("aria-current", "location") : link.removeAttribute("aria-current")));
  }

  window.addEventListener("scroll", () => window.requestAnimationFrame(mark), { passive: true });
  mark();
})();
