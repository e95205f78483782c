/* A slider for a number that is also typed, on a logarithmic scale. Without JavaScript it stays hidden. */
"use strict";

document.querySelectorAll("[data-slides]").forEach(function (slider) {
  const field = document.getElementById(slider.dataset.slides);
  slider.min = "-2";
  slider.max = "1";
  slider.step = "0.01";

  function follow() {
    if (Number(field.value) > 0) slider.value = String(Math.log10(Number(field.value)));
    slider.setAttribute("aria-valuetext", field.value);
  }

  slider.addEventListener("input", function () {
    field.value = String(Number((10 ** Number(slider.value)).toPrecision(2)));
    slider.setAttribute("aria-valuetext", field.value);
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });
  field.addEventListener("input", follow);
  follow();
  slider.parentElement.hidden = false;
});
