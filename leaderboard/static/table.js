"use strict";
// The table: DataTables sorts and pages what the filters leave, in the columns in force.
(function () {
  const { LISTS, get, set, subscribe, rowOf, shown, element } = window.uedp;
  const { visible, floors, about } = window.uedp.grid;
  const place = document.getElementById("table-place");
  let table = null; // {api, columns, shape, data}
  let drawing = false;

  // -------------------------------------------------------------------------------------- sorting

  const collator = new Intl.Collator("en", { numeric: true });

  /** Compares numbers as numbers and words as words; what is missing comes last either way. */
  function compare(a, b, sign) {
    if (a === null || b === null) {
      return (a === null) - (b === null);
    }
    if (typeof a === "string") {
      return sign * collator.compare(a, b);
    }
    if (Array.isArray(a)) {
      const at = a.findIndex((value, place) => value !== b[place]);
      return at < 0 ? 0 : compare(a[at], b[at], sign);
    }
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  }

  window.DataTable.type("uedp", {
    order: { asc: (a, b) => compare(a, b, 1), desc: (a, b) => compare(a, b, -1) },
  });

  /** The link's order for DataTables: [[index, direction]]; none where it names no column. */
  function wanted() {
    const [, key, direction] = /^(.*):(asc|desc)$/s.exec(get("sort")) || [];
    const at = table.columns.findIndex((column) => column.key === key);
    return at < 0 || at === 0 ? [] : [[at, direction]];
  }

  /** Keeps in the link what readers sort by. */
  function sorted() {
    const [first] = table.api.order();
    const text = first && first[1] ? `${table.columns[first[0]].key}:${first[1]}` : "";
    if (!drawing && text !== get("sort")) {
      set({ sort: text });
    }
  }

  // --------------------------------------------------------------------------------------- picked

  /** Ids of the rows that are picked for comparison. */
  function picked() {
    return [...new Set(get("rows").split(","))].filter((id) => rowOf.has(id));
  }

  /** Picks a row or puts it back. */
  function pick(id, on) {
    set({ rows: [...picked().filter((other) => other !== id), ...(on ? [id] : [])].join(",") });
  }

  /** The cell that picks a row. */
  function picker(row) {
    return element("input", {
      type: "checkbox",
      value: row.id,
      "aria-label": `Compare ${row.mechanism}, ${row.task}, ${row.source}, ${row.model}`,
      onchange: (event) => pick(row.id, event.target.checked),
    });
  }

  const PICK = { key: "pick", label: "compare", group: "", cell: picker, sort: () => null };

  /** Marks the rows that are picked, on the page of the table that shows. */
  function mark() {
    const ids = new Set(picked());
    for (const box of place.querySelectorAll("tbody input")) {
      box.checked = ids.has(box.value);
      box.closest("tr").classList.toggle("picked", box.checked);
    }
  }

  // ---------------------------------------------------------------------------------------- build

  /** A column's heading: its label, and which way is better. */
  function head(column, rows) {
    const words = { lower: "↓ better", higher: "↑ better" };
    const better = column.better
      ? [" ", element("span", { class: "second", "aria-hidden": "true" }, words[column.better]),
        element("span", { class: "visually-hidden" }, `${column.better} is better`)]
      : [];
    return element("th", {
      scope: "col",
      rowspan: rows,
      "data-dt-order": column === PICK ? "disable" : null,
    }, column === PICK
      ? element("span", { class: "visually-hidden" }, column.label)
      // A unit stays with the last word before it.
      : [column.label.replace(/ (%|\(\w+\)|ε)$/, "\u00a0$1"), " ",
        element("span", { class: "tail" }, better, " ", about(column))]);
  }

  /** A column that stands in a group of the header's first row. */
  function grouped(column) {
    return column.group && column.group !== "run";
  }

  /** One row of headings; two where columns form groups. */
  function header(columns) {
    const top = element("tr", {});
    const bottom = element("tr", {});
    columns.forEach((column, at) => {
      if (!grouped(column)) {
        top.append(head(column, columns.some(grouped) ? 2 : 1));
        return;
      }
      bottom.append(head(column, 1));
      if (at === 0 || columns[at - 1].group !== column.group) {
        const span = columns.filter((other) => other.group === column.group).length;
        top.append(element("th", { scope: "colgroup", colspan: span, class: "group",
          "data-dt-order": "disable" }, element("span", {}, column.group)));
      }
    });
    return columns.some(grouped) ? [top, bottom] : [top];
  }

  /** What DataTables needs to know of a column; cells are nodes, never markup. */
  function definition(column, at) {
    const row = column.key === "mechanism";
    const sort = column.number ? "number" : column.kind === "promise" ? "promise" : "word";
    return {
      data: null,
      type: "uedp",
      orderable: column !== PICK,
      orderSequence: column.better === "higher" ? ["desc", "asc", ""] : ["asc", "desc", ""],
      ariaTitle: column.label,
      className: ["mechanism", "pick", "seeds"].includes(column.key) ? `${sort} column-${column.key}` : sort,
      cellType: row ? "th" : "td",
      createdCell: row ? (cell) => cell.setAttribute("scope", "row") : null,
      render: (data, type, found) => {
        const now = table.columns[at];
        return type === "display" ? now.cell(found) : type === "sort" ? now.sort(found) : "";
      },
    };
  }

  /** A new table of some rows and columns in the place of the old one. */
  function build(now, columns, shape) {
    if (table) {
      table.api.destroy(true);
    }
    const rows = header(columns);
    const node = element("table", { id: "leaderboard" },
      element("caption", {}, element("span", { id: "caption" })), element("thead", {}, rows));
    place.replaceChildren(node);
    table = { columns, shape, data: "" };
    table.api = new window.DataTable(node, {
      data: now,
      columns: columns.map(definition),
      order: wanted(),
      titleRow: rows.length - 1,
      autoWidth: false,
      searching: false,
      orderMulti: false,
      orderClasses: false,
      pageLength: 50,
      lengthMenu: [25, 50, 100, 250, { label: "all", value: -1 }],
      layout: { topStart: null, topEnd: null, bottomStart: ["info", "pageLength"], bottomEnd: "paging" },
      language: {
        entries: { _: "rows", 1: "row" },
        emptyTable: "No row to show.",
        lengthMenu: "_MENU_ rows a page",
      },
    });
    const region = node.parentElement;
    region.classList.add("region");
    for (const [name, value] of [["role", "region"], ["tabindex", "0"], ["aria-label", "Leaderboard, scrolls sideways"]]) {
      region.setAttribute(name, value);
    }
    table.api.on("order", sorted);
    table.api.on("draw", paged);
  }

  /** After every page: marks, and no pager where there is one page. */
  function paged() {
    mark();
    const { pages, recordsTotal } = table.api.page.info();
    place.classList.toggle("one-page", pages < 2 && recordsTotal <= 25);
  }

  // ----------------------------------------------------------------------------------------- draw

  /** Below all pages of the table: what the sets' baselines and floors are, in the column of their metric. */
  function foot(now, columns) {
    const several = new Set(now.map((row) => row.set)).size > 1;
    const lines = floors(now).map((floor) => element("tr", { class: "floor" }, columns.map((column) =>
      column.key === "mechanism" ? element("th", { scope: "row" }, floor.name)
        : element("td", { class: column.number ? "number" : null },
          column.key === floor.key ? floor.text
            : column.key === "set" && several ? window.uedp.sets[floor.set].letter : ""))));
    // DataTables takes an empty foot away.
    table.api.table().node().createTFoot().replaceChildren(...lines);
  }

  /** What all shown rows have in common: it is not in the columns. */
  function caption(now) {
    const common = ["task", "source", "model"]
      .map((name) => [name, new Set(now.map((row) => row[name]))])
      .filter(([, found]) => found.size === 1)
      .map(([name, [value]]) => `${name} ${value}`);
    return common.length ? `Mechanisms of ${common.join(", ")}` : "Mechanisms";
  }

  /** Draws what has changed: other columns make a new table, other rows fill it anew. */
  function draw() {
    if (document.getElementById("view-table").hidden) {
      return;
    }
    const now = shown();
    const columns = [PICK, ...visible(now)];
    const shape = JSON.stringify(columns.map((column) => column.key));
    const data = JSON.stringify(["q", "metric", ...LISTS].map(get));
    drawing = true;
    if (!table || table.shape !== shape) {
      build(now, columns, shape);
      paged();
    } else if (table.data !== data) {
      table.columns = columns;
      table.api.order(wanted()).clear().rows.add(now).draw();
    } else if (JSON.stringify(order()) !== JSON.stringify(wanted())) {
      table.api.order(wanted()).draw();
    }
    drawing = false;
    table.data = data;
    foot(now, columns);
    document.getElementById("caption").textContent = caption(now);
    mark();
  }

  /** The order in force: [[index, direction]]. */
  function order() {
    return table.api.order().filter((one) => one[1]).map(([at, direction]) => [at, direction]);
  }

  /** The shown rows in the order of the table, over all its pages. */
  function inOrder() {
    return table ? table.api.rows({ order: "applied" }).data().toArray() : shown();
  }

  window.uedp.grid.inOrder = inOrder;
  window.uedp.grid.pickedRows = picked;
  subscribe(draw);
})();
