/* Draws every chart on the page from the JSON beside it, in the page's own colours. Without JavaScript, or without
   this file, the table under the chart says the same. */
"use strict";

(function () {
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function theme() {
    const text = colour("--pico-color");
    const muted = colour("--pico-muted-color");
    const line = colour("--pico-muted-border-color");
    const paper = colour("--pico-card-background-color");
    // A region with the smallest number is told apart from one without any.
    const pale = vega.interpolateColors([paper, colour("--pico-primary")], "rgb")(0.12);
    return {
      background: null,
      font: getComputedStyle(document.body).fontFamily,
      axis: { labelColor: muted, titleColor: muted, gridColor: line, domainColor: line, tickColor: line,
              labelFontSize: 12, titleFontSize: 12, titleFontWeight: 400, labelLimit: 220, gridOpacity: 0.7 },
      legend: { labelColor: text, titleColor: text, labelFontSize: 12, titleFontSize: 12, labelLimit: 360,
                orient: "top", direction: "vertical", columns: 1, title: null, padding: 0, offset: 14 },
      title: { color: text },
      view: { stroke: null },
      bar: { color: colour("--site-mark"), fillOpacity: 0.55 },
      rule: { color: text },
      tick: { color: text },
      text: { color: text },
      point: { color: colour("--site-second") },
      range: { heatmap: [paper, colour("--pico-primary")], ramp: [pale, colour("--pico-primary")],
               category: [colour("--pico-primary"), colour("--site-second"), "#6c7fb8", "#b0568a", "#7a8a3c", "#8d6fc0",
                          "#c0603c", "#4c8fa8", "#8a7a6a", "#3f9a5f", "#a8873a", "#5f76d0", "#b86a92", "#4f9c92"] },
      geoshape: { stroke: text, strokeWidth: 0.6, strokeOpacity: 0.7, fill: pale },
      style: { "guide-label": { fill: muted }, "guide-title": { fill: muted } },
    };
  }

  function draw(holder) {
    const source = document.getElementById(holder.dataset.chart);
    // In a closed part of the page there is no width to fill; it is drawn when that opens.
    if (!source || !holder.clientWidth || typeof vegaEmbed === "undefined") return;
    const spec = JSON.parse(source.textContent);
    spec.config = Object.assign(theme(), spec.config || {});
    /* Else the holder would be called "Vega visualization" from now on. */
    spec.description = holder.getAttribute("aria-label") || "";
    spec.config.legend.columns = Math.max(1, Math.floor(holder.clientWidth / 270));
    if (spec.config.legend.columns > 1) spec.config.legend.labelFontSize = 11;
    spec.config.axis.labelLimit = Math.min(220, 0.45 * holder.clientWidth);
    const inks = { paper: colour("--pico-card-background-color"), ink: colour("--pico-color") };
    (spec.params || []).forEach(function (each) { each.value = inks[each.name] || each.value; });
    // Numbers of five signs need so many pixels.
    const across = (spec.usermeta || {}).across;
    if (across && (holder.clientWidth - 90) / across < 38) spec.layer.length = 1;
    // A map is no taller than its regions are at this width.
    const ratio = (spec.usermeta || {}).ratio;
    if (ratio) spec.height = Math.min(spec.height, Math.round(ratio * holder.clientWidth));
    vegaEmbed(holder, spec, {
      ast: true, actions: false, renderer: "svg",
      // Their default styles are inline, which the content security policy refuses; ours are in site.css.
      defaultStyle: false, tooltip: { disableDefaultStyle: true, theme: "dark" },
    });
  }

  function drawAll() {
    document.querySelectorAll("[data-chart]").forEach(draw);
  }

  function drawNew() {
    document.querySelectorAll("[data-chart]:empty").forEach(draw);
  }

  document.addEventListener("DOMContentLoaded", drawAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  document.addEventListener("htmx:afterSettle", drawNew);
  document.addEventListener("toggle", drawNew, true);
})();
