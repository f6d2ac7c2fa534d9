"use strict";
// Numbers, texts, files and figures, as all scripts need them; elements hold text only.
window.uedp = (function () {
  const NONE = "–";

  const number = (value, signDisplay = "negative") => value.toLocaleString("en", { maximumSignificantDigits: 4, signDisplay });

  /** Lines as a CSV file. */
  const csv = (lines) => lines.map((cells) => `${cells.map(csvField).join(",")}\n`).join("");

  /** A field of a CSV file: infinity is "inf"; text that a spreadsheet would take for a formula begins with an apostrophe. */
  function csvField(value) {
    if (typeof value === "number") {
      return Number.isFinite(value) ? String(value) : value > 0 ? "inf" : "-inf";
    }
    const written = String(value ?? "");
    // Spreadsheets skip blanks and what nobody sees, and some read full-width signs.
    const read = written.normalize("NFKC").replace(/\p{Default_Ignorable_Code_Point}/gu, "").trim();
    const formula = /^[=+\-\u2212@]/.test(read) || /^[\t\r]/.test(written);
    const number = /^-?\d+( -?\d+)*$/.test(written);
    const text = formula && !number ? `'${written}` : written;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
  }

  /** An element; strings become text, never markup. Attributes that are functions listen: {onclick: f}. */
  function element(tag, attributes, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") {
        node.addEventListener(name.replace(/^on/, ""), value);
      } else if (value !== false && value !== null && value !== undefined) {
        node.setAttribute(name, value === true ? "" : value);
      }
    }
    node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
    return node;
  }

  /** Fills a list with [value, text, group], grouped where a group has a name; chooses a value. */
  function fill(select, offered, chosen) {
    const option = ([value, text]) => element("option", { value }, text);
    select.replaceChildren(...[...Map.groupBy(offered, ([, , group]) => group || "")].flatMap(([label, found]) =>
      (label ? [element("optgroup", { label }, found.map(option))] : found.map(option))));
    select.value = chosen;
  }

  /** Text for Plotly, which reads some markup and fills in %{templates}: none of it is left. */
  function plain(text) {
    const marks = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "%{": "%&#123;" };
    return String(text).replace(/[&<>]|%\{/g, (mark) => marks[mark]);
  }

  /** Lines of at most so many characters, broken at spaces where there are any. */
  function wrap(text, width = 56) {
    const lines = [""];
    for (const part of String(text).split(/\s+/).flatMap((word) => word.match(new RegExp(`.{1,${width}}`, "gsu")) || [])) {
      const last = lines.at(-1);
      if (last && last.length + 1 + part.length > width) {
        lines.push(part);
      } else {
        lines[lines.length - 1] = last ? `${last} ${part}` : part;
      }
    }
    return lines;
  }

  /** A title or a label of a figure, in lines of so many characters and so many of them at most. */
  function lines(text, width, most) {
    const found = wrap(text, width);
    return (found.length > most ? [...found.slice(0, most - 1), `${found[most - 1]}…`] : found).map(plain).join("<br>");
  }

  /** A value of a figure in the page's colours and fonts: `var(--name)` under their keys is read. */
  function coloured(value, key = "", styles = window.getComputedStyle(document.documentElement)) {
    if (Array.isArray(value)) {
      return value.map((part) => coloured(part, key, styles));
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, coloured(part, name, styles)]));
    }
    const name = /(color|family)$/.test(key) && typeof value === "string" && /^var\((--[\w-]+)\)$/.exec(value);
    return name ? styles.getPropertyValue(name[1]).trim() : value;
  }

  /** How Plotly draws: pages have buttons of their own, which keyboards reach. */
  const CONFIG = { responsive: true, displayModeBar: false, typesetMath: false, plotlyServerURL: "", showTips: false };

  function save(name, type, text) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    element("a", { href: url, download: name }).click();
    window.setTimeout(() => URL.revokeObjectURL(url), 10_000); // the browser reads it meanwhile
  }

  /** Copies a text; false where the browser forbids that, as on pages without https. */
  const copy = async (text) => window.navigator.clipboard?.writeText(text).then(() => true, () => false);

  /** A part of a link; as far as it can be read where somebody shortened the link. */
  const decoded = (text) => new URLSearchParams(`part=${text}`).get("part");

  return { NONE, decoded, number, csv, element, fill, plain, wrap, lines, coloured, CONFIG, save, copy };
})();
