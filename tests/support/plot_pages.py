"""The plots view as tests see it."""

from __future__ import annotations

POINTS = """name => (document.getElementById(`plot-${name}`).data || []).flatMap((trace) =>
  (trace.customdata || []).map((row, at) => row && ({
    row, meta: trace.meta, x: trace.x[at], y: trace.y[at], hover: trace.hovertext[at],
    symbol: [trace.marker.symbol].flat()[Array.isArray(trace.marker.symbol) ? at : 0],
    colour: [trace.marker.color].flat()[0], opacity: trace.opacity,
    bar: trace.error_y ? [trace.error_y.arrayminus[at], trace.error_y.array[at]] : null,
  })).filter(Boolean))"""


def drawn(page):
    """Waits until the frame in which the view draws is over."""
    page.wait_for_function("window.Plotly && document.readyState === 'complete'")
    page.evaluate("new Promise((f) => requestAnimationFrame(() => requestAnimationFrame(f)))")
    return page


def points(page, name):
    return page.evaluate(POINTS, name)


def layout(page, name, what):
    return page.evaluate(f"document.getElementById('plot-{name}').layout.{what}")
