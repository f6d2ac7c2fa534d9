"use strict";
// The plots: what each draws of the rows in view, or what is missing. A figure is {empty} or
// {traces, layout, head, body, summary, notes}; lines of the body start with a row's id.
uedp.plotFigures = (function () {
  const { budget, budgetLabel, budgets, drawable } = uedp.plotData;
  const { ofMetric, ofBudget } = uedp.plotAxes;
  const { versus } = uedp.plotScatter;

  const LACKS = {
    utility: "No row here has a utility metric.",
    leakage: "No row here has leakage: no attack ran, or none applied.",
    cost: "No row here has a cost.",
  };

  function metricAxis(column) {
    return { ...ofMetric(column), lacks: uedp.heading(column) };
  }

  /** The axis of a utility; where it is the one that ranks, with the floors of the set. */
  function utilityAxis({ utility, rows }) {
    const floors = rows.length ? uedp.grid.floors(rows) : [];
    const by = utility.percent ? 100 : 1;
    return {
      ...metricAxis(utility),
      floors: floors
        .filter(({ key }) => key === utility.key)
        .flatMap(({ name, text, low, high }) =>
          [...new Set([low, high])].map((end) => ({ name, text, value: end * by })))
        .filter(({ value }) => Number.isFinite(value)),
    };
  }

  function budgetAxis({ unit, kind }) {
    return { ...ofBudget(unit, kind), lacks: `a ${kind} ε for ${budgetLabel(unit)}` };
  }

  // ------------------------------------------------------------------------------- what is missing

  /** Where rows with something are, when none in view has it. */
  function elsewhere(context, has) {
    if (context.hidden.some(has)) {
      return "Rows of this set that the filters hide have one: clear a filter.";
    }
    const others = "Rows of other sets have one: choose another set or clear the filters.";
    return uedp.rows.some(has) ? others : "";
  }

  /** Why there is no plot against a budget; null where there is one. */
  function noBudget(context) {
    const { unit, kind, rows } = context;
    if (!unit) {
      const any = (row) => budgets([row]).size > 0;
      return `No row here has a finite ε. ${elsewhere(context, any)}`;
    }
    const has = (row) => (budget(row, unit, kind) || { epsilon: Infinity }).epsilon < Infinity;
    if (rows.some(has)) {
      return null;
    }
    const other = kind === "proven" ? "claimed" : "proven";
    const units = [...budgets(rows, kind).keys()].map(budgetLabel);
    let hint = elsewhere(context, has);
    if (units.length) {
      hint = `Choose another unit of ε: ${units.join("; ")}.`;
    } else if (budgets(rows, other).has(unit)) {
      hint = `Choose ${other} ε above.`;
    }
    return `No row here has a ${kind} ε for ${budgetLabel(unit)}. ${hint}`;
  }

  /** Why there is no plot of a kind of metric; null where there is one. */
  function noMetric(context, kind) {
    if (context[kind]) {
      return null;
    }
    const columns = uedp.columns.filter((one) => one.kind === kind && drawable(one));
    const has = (row) => columns.some((one) => row.values[one.key]);
    return `${LACKS[kind]} ${elsewhere(context, has)}`;
  }

  /** A figure, or the first reason why there is none. */
  function unless(reasons, draw) {
    const empty = reasons.find(Boolean);
    if (empty) {
      return { empty };
    }
    const figure = draw();
    return figure.body.length
      ? figure
      : { empty: `No row here has both. ${figure.notes.join(" ")}` };
  }

  // ------------------------------------------------------------------------------------ the plots

  function utilityByBudget(context) {
    return unless([noMetric(context, "utility"), noBudget(context)], () =>
      versus(context, budgetAxis(context), utilityAxis(context)),
    );
  }

  function utilityByLeakage(context) {
    return unless([noMetric(context, "utility"), noMetric(context, "leakage")], () =>
      versus(context, metricAxis(context.leakage), utilityAxis(context), true),
    );
  }

  function leakageByBudget(context) {
    return unless([noMetric(context, "leakage"), noBudget(context)], () =>
      versus(context, budgetAxis(context), metricAxis(context.leakage)),
    );
  }

  function utilityByCost(context) {
    return unless([noMetric(context, "utility"), noMetric(context, "cost")], () =>
      versus(context, metricAxis(context.cost), utilityAxis(context)),
    );
  }

  return { utilityByBudget, utilityByLeakage, leakageByBudget, utilityByCost, elsewhere };
})();
