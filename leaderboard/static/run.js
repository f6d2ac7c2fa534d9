"use strict";
// The page of a run: draws its figures where they come into view, copies the spec, saves the result.
(function () {
  const { coloured, CONFIG, save, copy } = window.uedp;
  const figures = new Map(
    JSON.parse(document.getElementById("data").textContent).figures.map((one) => [one.id, one.figure]),
  );
  const drawn = new Set();

  // -------------------------------------------------------------------------------------- figures

  /** Draws a figure, or draws it again in the colours of another theme. */
  function draw(chart) {
    drawn.add(chart);
    const figure = coloured(figures.get(chart.dataset.figure));
    // Fingers scroll the page; a mouse zooms.
    figure.layout.dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";
    window.Plotly.react(chart, figure.data, figure.layout, CONFIG);
  }

  const script = document.getElementById("plotly");
  const charts = document.querySelectorAll("[data-figure]");
  const asked = new Set();

  /** Draws a figure once the script that draws is there; it is loaded for the first one. */
  function need(chart) {
    asked.add(chart);
    if (window.Plotly) {
      draw(chart);
    } else if (!script.src) {
      script.src = script.dataset.src;
    }
  }

  script.addEventListener("load", () => asked.forEach(draw));
  script.addEventListener("error", () => {
    charts.forEach((chart) => {
      chart.style.minHeight = "0";
      chart.textContent = "The script that draws figures is missing; the numbers are below.";
    });
  });

  /** Draws what is in view, and the rest when it comes into view. */
  function watch() {
    const seen = new IntersectionObserver(
      (entries) => {
        for (const entry of entries.filter((one) => one.isIntersecting)) {
          seen.unobserve(entry.target);
          need(entry.target);
        }
      },
      { rootMargin: "400px" },
    );
    charts.forEach((chart) => seen.observe(chart));
    document.addEventListener("uedp:theme", () => drawn.forEach(draw));
    window.addEventListener("beforeprint", () => {
      charts.forEach((chart) => drawn.has(chart) || need(chart));
    });
  }

  watch();

  // ------------------------------------------------------------------------------ copying, saving

  /** Says something to everybody, screen readers too. */
  function tell(text) {
    document.getElementById("told").textContent = text;
  }

  /** Selects an element's text and copies it as browsers did before there was a clipboard. */
  function copySelected(element) {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = window.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return document.execCommand("copy");
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const element = document.getElementById(button.dataset.copy);
      const copied = (await copy(element.textContent)) || copySelected(element);
      tell(copied ? "Copied." : "Could not copy: the text is selected.");
    });
  }

  const result = document.getElementById("result");
  const button = document.getElementById("save");
  button.hidden = false;
  button.addEventListener("click", () => save("result.json", "application/json", result.textContent));

  const shown = document.getElementById("shown");
  shown.addEventListener("toggle", () => {
    shown.querySelector("pre").textContent = result.textContent;
  });

  // ------------------------------------------------------------------------------------- contents

  /** Marks the section in view in the table of contents. */
  const links = [...document.querySelectorAll(".contents a")];
  const headings = links.map((link) => document.getElementById(link.hash.slice(1)));
  function mark() {
    const current = headings.findLastIndex((one) => one.getBoundingClientRect().top < 120);
    links.forEach((link, at) => (at === Math.max(current, 0)
      ? link.setAttribute("aria-current", "location") : link.removeAttribute("aria-current")));
  }
  window.addEventListener("scroll", () => window.requestAnimationFrame(mark), { passive: true });
  mark();
})();
