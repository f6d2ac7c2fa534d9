"use strict";
// What readers choose for the plots: selects that write the state and show what a set offers.
uedp.plotControls = (function () {
  const { element } = uedp;
  const LABELS = {
    plotset: "Set",
    plotutility: "Utility",
    plotleakage: "Leakage",
    plotunit: "Unit of ε",
    plotkind: "ε as",
    plotcost: "Cost",
  };
  const controls = Object.fromEntries(Object.keys(LABELS).map((name) => [name, select(name)]));
  const bar = element(
    "div",
    { class: "plot-controls" },
    Object.values(controls).map(({ field }) => field),
  );

  /** A select that writes one name of the state. */
  function select(name) {
    const box = element("select", {
      id: name,
      autocomplete: "off",
      onchange: () => uedp.set({ [name]: box.value }),
    });
    const label = element("label", { for: name }, LABELS[name]);
    return { box, field: element("div", { class: "field" }, label, box) };
  }

  /** Fills a select with [value, text, group]; one that offers no choice is hidden. */
  function fill(name, offered, chosen) {
    const groups = new Map();
    const nodes = [];
    for (const [value, text, group] of offered) {
      const option = element("option", { value, selected: value === chosen }, text);
      if (!group) {
        nodes.push(option);
      } else if (groups.has(group)) {
        groups.get(group).append(option);
      } else {
        groups.set(group, element("optgroup", { label: group }, option));
        nodes.push(groups.get(group));
      }
    }
    const { box, field } = controls[name];
    box.replaceChildren(...nodes);
    field.hidden = offered.length < 2;
  }

  /**
   * Shows what there is to choose, and what is chosen.
   *
   * @param {object[]} sets that the filters leave; see `plotData.sets`.
   * @param {object} set the one in view.
   * @param {object} chosen see `plotData.choose`.
   */
  function show(sets, set, chosen) {
    const { count } = uedp.plotScatter;
    const option = (column) => [column.key, uedp.heading(column)];
    const grouped = (column) => [...option(column), column.group];
    const key = (column) => column && column.key;
    const named = ({ id, name, rows }) => [id, `${name} (${count(rows.length, "row")})`];
    const kinds = chosen.units.length ? chosen.kinds : [];
    fill("plotset", sets.map(named), set.id);
    fill("plotutility", chosen.utilities.map(option), key(chosen.utility));
    fill("plotleakage", chosen.leakages.map(grouped), key(chosen.leakage));
    fill(
      "plotunit",
      chosen.units.map((unit) => [unit, uedp.plotData.budgetLabel(unit)]),
      chosen.unit,
    );
    fill(
      "plotkind",
      kinds.map((kind) => [kind, kind]),
      chosen.kind,
    );
    fill("plotcost", chosen.costs.map(option), key(chosen.cost));
  }

  return { bar, show };
})();
