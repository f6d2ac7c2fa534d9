"use strict";
// Where values stand on an axis. Plotly's logarithmic axes have no place for zero, and none of its
// axes for infinity: both get a labelled place of their own at the end.
uedp.plotAxes = (function () {
  const STEPS = [1, 2, 5, 10];

  /** Three to seven round numbers from low to high. */
  function linearTicks(low, high) {
    const rough = (high - low) / 5 || 1;
    const size = 10 ** Math.floor(Math.log10(rough));
    const step = size * STEPS.find((one) => one * size >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first;
    return Array.from({ length: count + 1 }, (_, at) => (first + at) * step);
  }

  /** Powers of ten from low to high, with their two- and fivefold where there are few. */
  function logTicks(low, high) {
    const first = Math.floor(Math.log10(low));
    const last = Math.ceil(Math.log10(high));
    const decades = Math.log10(high / low);
    const every = Math.max(1, Math.ceil(decades / 7));
    const found = [];
    for (let power = first; power <= last; power += every) {
      for (const digit of decades < 2.5 ? [1, 2, 5] : [1]) {
        found.push(digit * 10 ** power);
      }
    }
    const inside = found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
    return inside.length > 1 ? inside : [low, high];
  }

  /** A tick's text; powers of ten above a million or below a thousandth as such. */
  function tickText(value) {
    const power = Math.log10(Math.abs(value));
    if (Number.isInteger(Math.round(power * 1e6) / 1e6) && (power >= 6 || power <= -4)) {
      return `10<sup>${Math.round(power)}</sup>`;
    }
    return uedp
      .number(Number(value.toPrecision(6)))
      .replace(/(\.\d*?)0+$/, "$1")
      .replace(/\.$/, "");
  }

  /**
   * Least and largest of some numbers and of the ends of intervals; these get room beside the
   * numbers, but never so much that the numbers huddle. `cut` says that some end has too little.
   */
  function extent(numbers, ends) {
    const all = [...numbers, ...ends];
    if (!all.length) {
      return { low: 0, high: 1, cut: false };
    }
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const room = high > low ? 0.3 * (high - low) : Infinity;
    const [least, largest] = [Math.min(...all), Math.max(...all)];
    return {
      low: Math.max(least, low - room),
      high: Math.min(largest, high + room),
      cut: least < low - room || largest > high + room,
    };
  }

  /** True if an axis is logarithmic: it may be, and positive values span over a decade. */
  function isLog(values, axis) {
    const positive = values.filter((value) => value > 0 && value < Infinity);
    return (
      Boolean(axis.log) &&
      values.every((value) => value >= 0) &&
      positive.length > 0 &&
      Math.max(...positive) > 10 * Math.min(...positive)
    );
  }

  /** Values that have no place on an axis, with the place that they get: [value, place, text]. */
  function edgesOf(values, logarithmic, bottom, top) {
    const known = [
      [-Infinity, bottom, "-∞"],
      [0, bottom, "0"],
      [Infinity, top, "∞"],
    ];
    return known.filter(([edge]) => values.includes(edge) && (edge !== 0 || logarithmic));
  }

  /**
   * A scale for values and the ends of their intervals:
   * {type, range, ticks, at(value), clamp(end), infinity, cut}. `ticks` is null where Plotly's own
   * will do (on its logarithmic axes they crowd); `clamp` keeps ends on the axis that a logarithm
   * lacks; `infinity` is where its separate place begins; `cut` says that intervals leave the axis.
   */
  function scale(values, axis, ends = []) {
    const logarithmic = isLog(values, axis);
    const place = (value) => (logarithmic ? Math.log10(value) : value);
    const back = (at) => (logarithmic ? 10 ** at : at);
    const shown = (value) => Number.isFinite(value) && (!logarithmic || value > 0);
    const numbers = [...values, ...(axis.zero ? [0] : [])].filter(shown).map(place);
    const { low, high, cut } = extent(numbers, ends.filter(shown).map(place));
    const gap = 0.12 * (high - low || Math.abs(high) || 1);
    const [bottom, top] = [back(low - gap), back(high + gap)];
    const edges = edgesOf(values, logarithmic, bottom, top);
    const has = (where) => edges.some(([, at]) => at === where);
    const room = [back(low - gap / 2), back(high + gap / 2)];
    const ticks = logarithmic ? logTicks(...room) : linearTicks(low, room[1]);
    const own = [
      ...ticks.map((tick) => ({ at: tick, text: tickText(tick) })),
      ...edges.map(([, at, text]) => ({ at, text: `<b>${text}</b>` })),
    ];
    return {
      type: logarithmic ? "log" : "linear",
      // Of logarithmic axes these are exponents.
      range: [low - gap * (has(bottom) ? 1.5 : 0.5), high + gap * (has(top) ? 1.5 : 0.5)],
      ticks: edges.length || logarithmic ? own : null,
      at: (value) => (edges.find(([edge]) => edge === value) || [value, value])[1],
      clamp: (end) => (logarithmic ? Math.max(end, bottom) : end),
      infinity: values.includes(Infinity) ? room[1] : null,
      cut,
    };
  }

  /** A value's interval, no further than honest values of its metric go; nulls if it has none. */
  function interval(column, { value, low, high }) {
    if (low === null) {
      return { low, high };
    }
    const least = Number.isFinite(column.low) ? Math.min(column.low, value) : -Infinity;
    const largest = Number.isFinite(column.high) ? Math.max(column.high, value) : Infinity;
    return { low: Math.max(low, least), high: Math.min(high, largest) };
  }

  /** A metric's axis: what it is called, and its value of a row. Percent where tables show it. */
  function ofMetric(column) {
    const by = column.percent ? 100 : 1;
    const attack = column.kind === "leakage" ? `${column.group.replace(/^leakage: /, "")}: ` : "";
    const scaled = (value) => (value === null ? null : value * by);
    const worth = (value) => uedp.worth(column, value / by) * by;
    return {
      name: `${attack}${uedp.heading(column)}`,
      better: column.better,
      // What an attack measures where nothing leaks.
      floors: typeof column.nothing === "number"
        ? [{ name: "where nothing leaks", text: uedp.number(column.nothing * by), value: column.nothing * by }]
        : [],
      log: column.kind !== "leakage" && !column.percent,
      worth,
      of(row) {
        const found = row.values[column.key];
        if (!found) {
          return null;
        }
        const { low, high } = interval(column, found);
        return {
          value: found.value * by,
          low: scaled(low),
          high: scaled(high),
          n: found.n,
          text: uedp.statOf(column, row),
        };
      },
    };
  }

  /** The axis of a budget's epsilon, of a kind: "proven" or "claimed". */
  function ofBudget(key, kind) {
    return {
      name: `${kind} ε for ${uedp.plotData.budgetLabel(key)}`,
      better: "lower",
      log: true,
      zero: true,
      of(row) {
        const found = uedp.plotData.budget(row, key, kind);
        return found && { value: found.epsilon, low: null, high: null, ...found };
      },
    };
  }

  /** An axis's title: what it shows, and which way is better. */
  function title(axis) {
    return axis.better ? `${axis.name} (${axis.better} is better)` : axis.name;
  }

  return { scale, ofMetric, ofBudget, title };
})();
