"use strict";
// The page of a run: draws its figures where they come into view, copies the spec, saves the result.
(function () {
  const root = document.documentElement;
  const figures = new Map(
    JSON.parse(document.getElementById("data").textContent).figures.map((one) => [one.id, one.figure]),
  );
  const drawn = new Set();

  // -------------------------------------------------------------------------------------- figures

  /** A value of a figure in the page's colours and fonts: `var(--name)` under their keys is read. */
  function coloured(value, key, styles) {
    if (Array.isArray(value)) {
      return value.map((part) => coloured(part, key, styles));
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(
        Object.entries(value).map(([name, part]) => [name, coloured(part, name, styles)]),
      );
    }
    const name = /(color|family)$/.test(key) && typeof value === "string" && /^var\((--[\w-]+)\)$/.exec(value);
    return name ? styles.getPropertyValue(name[1]).trim() : value;
  }

  /** Draws a figure, or draws it again in the colours of another theme. */
  function draw(chart) {
    drawn.add(chart);
    const figure = coloured(figures.get(chart.dataset.figure), "", window.getComputedStyle(root));
    // Fingers scroll the page; a mouse zooms.
    figure.layout.dragmode = window.matchMedia("(pointer: coarse)").matches ? false : "zoom";
    window.Plotly.react(chart, figure.data, figure.layout, {
      responsive: true,
      displayModeBar: false,
    });
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

  /** Copies an element's text. */
  async function copy(element) {
    try {
      await window.navigator.clipboard.writeText(element.textContent);
      tell("Copied.");
    } catch {
      // Pages without https have no clipboard.
      tell(copySelected(element) ? "Copied." : "Could not copy: the text is selected.");
    }
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(document.getElementById(button.dataset.copy)));
  }

  const result = document.getElementById("result");
  const save = document.getElementById("save");
  save.hidden = false;
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([result.textContent], { type: "application/json" }));
    link.download = "result.json";
    link.click();
    window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  });

  const shown = document.getElementById("shown");
  shown.addEventListener("toggle", () => {
    shown.querySelector("pre").textContent = result.textContent;
  });

  // ------------------------------------------------------------------------------------- contents

  /** Marks the section in view in the table of contents. */
  function follow() {
    const links = new Map(
      [...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]),
    );
    const headings = [...links.keys()].map((id) => document.getElementById(id));
    const mark = () => {
      const above = headings.filter((one) => one.getBoundingClientRect().top < 120);
      const current = (above.at(-1) || headings[0]).id;
      links.forEach((link, id) => {
        if (id === current) {
          link.setAttribute("aria-current", "location");
        } else {
          link.removeAttribute("aria-current");
        }
      });
    };
    let waiting = false;
    window.addEventListener("scroll", () => {
      if (!waiting) {
        waiting = true;
        window.requestAnimationFrame(() => {
          waiting = false;
          mark();
        });
      }
    }, { passive: true });
    mark();
  }

  follow();
})();
