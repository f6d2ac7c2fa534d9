"use strict";
// The front page: which mechanism for what. Links from when the table was here lead to the table.
(function () {
  const { element } = window.uedp;
  const { hash } = window.location;
  if (hash.includes("=") && !hash.startsWith("#choose=")) {
    window.location.replace(`table.html${hash}`);
    return;
  }
  const form = document.getElementById("choice");
  if (!form) {
    return;
  }
  const MOST = 4; // rows of a set
  const SETS = 3; // in sight; the others open
  const data = JSON.parse(document.getElementById("data").textContent);
  const [unit, task, epsilon] = ["unit", "task", "epsilon"].map((name) => document.getElementById(`choose-${name}`));
  const told = document.getElementById("chosen-told");
  const place = document.getElementById("chosen");

  /** Fills a list with [value, words]; what is asked for is chosen if the list has it. */
  function fill(select, offered, asked) {
    select.replaceChildren(...offered.map(([value, words]) => element("option", { value }, words)));
    const found = offered.find(([value]) => value === asked) || offered[0];
    select.value = found[0];
  }

  /** The rows that qualify, in their order: the best of each set first. */
  function qualifying() {
    const most = epsilon.value === "any" ? Infinity : Number(epsilon.value);
    return data.rows.filter((row) => {
      const [proven] = row.e[unit.value] || [];
      // An epsilon per unit of distance compares with none.
      const fits = proven === null ? most === Infinity : proven <= most * (1 + 1e-9);
      return proven !== undefined && fits && data.sets[row.set].task === task.value;
    });
  }

  /** A row that qualifies. */
  function line(row, metric) {
    const cell = (head, ...parts) => element("td", { "data-head": head }, ...parts);
    return element("tr", {},
      element("th", { scope: "row" }, element("a", { href: row.page }, row.name),
        row.learned === false ? [" ", element("span", { class: "badge warn" }, "learned nothing")] : [],
        row.better ? [" ", element("span", { class: "badge bad" }, "better than the unprotected row")] : []),
      cell(metric, row.utility),
      cell("proven ε", row.e[unit.value][1],
        row.refuted ? [" ", element("span", { class: "badge bad" }, "its claim is refuted")] : []),
      element("td", { "data-head": "attacks", class: "leaks" }, row.leaks.length
        ? row.leaks.map(([what, found]) => element("span", {}, `${what} ${found}`))
        : element("span", { class: "note" }, "no attack was run")));
  }

  /** Where all rows of a set that prove something for the unit stand, in the table. */
  function more(at, text) {
    const { id, task: name, source, name: called } = data.sets[at];
    const link = new URLSearchParams({ task: name, source, set: id, unit: unit.value, guarantee: "proven" });
    return element("a", { href: `table.html#${link}` }, text,
      element("span", { class: "visually-hidden" }, ` of ${called}`));
  }

  /** The rows of one set: the best that learned something, and how many more there are. */
  function group(at, rows) {
    const { name, about, generated, better, metric } = data.sets[at];
    const able = rows.filter((row) => row.learned !== false);
    const idle = rows.length - able.length;
    const heads = ["mechanism", `${metric}${better ? ` (${better} is better)` : ""}`, "proven ε", "what attacks still find"];
    const left = [
      able.length > MOST ? `${able.length - MOST} more` : "",
      idle ? `${able.length ? "" : "all "}${idle} of these rows learned nothing` : "",
    ].filter(Boolean).join(", ");
    return element("section", { class: "chosen-set", "aria-label": `${name}, ${about}` },
      element("h3", {}, name, generated ? [" ", element("span", { class: "badge" }, "generated text")] : [],
        element("span", { class: "note" }, ` ${about}`)),
      able.length ? element("table", { class: "plain" },
        element("thead", {}, element("tr", {}, heads.map((head) => element("th", { scope: "col" }, head)))),
        element("tbody", {}, able.slice(0, MOST).map((row) => line(row, metric)))) : [],
      element("p", { class: "note" }, left ? `${left}: ` : "", more(at, "in the table")));
  }

  /** "1 row qualifies", "2 rows qualify". */
  function counted(n) {
    return n === 1 ? "1 row qualifies" : `${n || "No"} rows qualify`;
  }

  function draw() {
    const found = qualifying();
    const sets = [...new Set(found.map((row) => row.set))];
    const idle = found.filter((row) => row.learned === false).length;
    told.textContent = found.length
      ? `${counted(found.length)}; ${idle ? `${idle} of them learned nothing, and stand in the table only. ` : ""}Rows of one set compare: the best utility is first.`
      : `${counted(0)}: nothing that was measured proves as much. A larger ε or another task may have some.`;
    const drawn = sets.map((at) => group(at, found.filter((row) => row.set === at)));
    place.replaceChildren(...drawn.slice(0, SETS), ...(drawn.length > SETS
      ? [element("details", {}, element("summary", {}, `${drawn.length - SETS} more sets`), drawn.slice(SETS))]
      : []));
  }

  function choose() {
    draw();
    try {
      const chosen = [unit.value, task.value, epsilon.value].map(encodeURIComponent).join(":");
      window.history.replaceState(null, "", `#choose=${chosen}`);
    } catch {
      // The page works without its address.
    }
  }

  const asked = hash.replace(/^#choose=/, "").split(":").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return ""; // a link that somebody shortened
    }
  });
  const start = hash.startsWith("#choose=") ? asked : data.start;
  fill(unit, data.units, start[0]);
  fill(task, data.tasks.map((name) => [name, name]), start[1]);
  fill(epsilon, [...data.budgets.map((most) => [String(most), `${most} or less`]), ["any", "any size"]], start[2]);
  form.hidden = false;
  form.addEventListener("change", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  draw();
})();
