"use strict";
// The front page: of the rows that prove something, those that qualify for what readers choose.
(function () {
  const { element, decoded } = window.uedp;
  const { hash } = window.location;
  const form = document.getElementById("choice");
  if (!form) {
    return;
  }
  const [MOST, SETS] = [4, 3]; // rows of a set, and sets, in sight
  const [unit, task, epsilon] = ["unit", "task", "epsilon"].map((name) => document.getElementById(`choose-${name}`));
  const place = document.getElementById("chosen");
  const sets = [...place.querySelectorAll(".chosen-set")].map((node) => ({ node, task: node.dataset.task, more: node.querySelector("p a"),
    left: node.querySelector("p span"), table: node.querySelector("table"),
    rows: [...node.querySelectorAll("tbody tr")].map((row) => ({ row, proven: JSON.parse(row.dataset.proven), idle: "idle" in row.dataset })) }));

  /** Shows of a set the best rows that qualify and learned something; says how many more there are. */
  function fill({ rows, table, left, more }, fits) {
    const found = rows.filter(fits);
    const able = found.filter((one) => !one.idle);
    const idle = found.length - able.length;
    table.tBodies[0].replaceChildren(...able.slice(0, MOST).map(({ row, proven }) => {
      row.querySelector(".epsilon").textContent = proven[unit.value][1];
      return row;
    }));
    table.hidden = !able.length;
    const words = [able.length > MOST ? `${able.length - MOST} more` : "",
      idle ? `${able.length ? "" : "all "}${idle} of these rows learned nothing` : ""].filter(Boolean).join(", ");
    left.textContent = words && `${words}: `;
    more.hash = `${more.dataset.link}&${new URLSearchParams({ unit: unit.value, guarantee: "proven" })}`;
    return { found: found.length, idle };
  }

  function draw() {
    const most = epsilon.value === "any" ? Infinity : Number(epsilon.value);
    // An epsilon per unit of distance compares with none.
    const fits = ({ proven: { [unit.value]: mine } }) => mine && (mine[0] === null ? most === Infinity : mine[0] <= most * (1 + 1e-9));
    const drawn = sets.filter((one) => one.task === task.value && one.rows.some(fits));
    const counts = drawn.map((one) => fill(one, fits));
    const sum = (of) => counts.reduce((total, one) => total + one[of], 0);
    const counted = sum("found") === 1 ? "1 row qualifies" : `${sum("found") || "No"} rows qualify`;
    document.getElementById("chosen-told").textContent = sum("found")
      ? `${counted}; ${sum("idle") ? `${sum("idle")} of them learned nothing, and stand in the table only. ` : ""}Rows of one set compare: the best utility is first.`
      : `${counted}: nothing that was measured proves as much. A larger ε or another task may have some.`;
    const able = ({ found, idle }) => found > idle; // sets where some row learned something come first
    const nodes = [...drawn.keys()].sort((a, b) => able(counts[b]) - able(counts[a])).map((at) => drawn[at].node);
    place.replaceChildren(...nodes.slice(0, SETS), ...(nodes.length > SETS
      ? [element("details", {}, element("summary", {}, `${nodes.length - SETS} more sets`), nodes.slice(SETS))] : []));
  }

  form.addEventListener("change", () => {
    draw();
    window.history.replaceState(null, "", `#choose=${[unit, task, epsilon].map(({ value }) => encodeURIComponent(value)).join(":")}`);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  const linked = hash.startsWith("#choose=") ? hash.slice(8).split(":").map(decoded) : [];
  [unit, task, epsilon].forEach((select, at) => {
    const known = [...select.options].some(({ value }) => value === linked[at]);
    select.value = known ? linked[at] : hash.startsWith("#choose=") ? select.options[0].value : select.value;
  });
  place.hidden = form.hidden = false;
  draw();
})();
