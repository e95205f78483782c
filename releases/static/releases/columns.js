/* A click with the Shift key ticks many columns at once, and the lines of a long list say what is typed in the columns
   behind them. Without JavaScript each is ticked alone, and the lines say what was typed when the page was made. */
"use strict";

(function () {
  const list = document.querySelector(".declared");
  if (!list) return;
  const ticks = Array.from(list.querySelectorAll("input.tick"));
  let last = null;

  /* All between the last one and this one. */
  list.addEventListener("click", function (event) {
    if (!event.target.matches("input.tick")) return;
    const here = ticks.indexOf(event.target);
    if (event.shiftKey && last !== null) {
      for (const each of ticks.slice(Math.min(here, last), Math.max(here, last) + 1)) each.checked = event.target.checked;
    }
    last = here;
  });

  function say(line) {
    const kind = line.querySelector("select[name$='-kind']");
    const values = line.querySelector("textarea[name$='-values']").value.trim().replace(/\s*\n\s*/g, ", ");
    line.querySelector("[data-kind]").textContent = kind.selectedOptions[0].textContent;
    line.querySelector("[data-values]").textContent = kind.value ? values.slice(0, 60) : "";
  }

  list.addEventListener("input", function (event) {
    const line = event.target.closest("details.one");
    if (line) say(line);
  });

  /* What was typed before a reload is back in all of them. */
  const form = list.closest("form");
  form.addEventListener("change", function (event) {
    if (event.target === form) list.querySelectorAll("details.one").forEach(say);
  });

  /* The Enter key in a panel presses the button of the panel. */
  document.addEventListener("keydown", function (event) {
    if (event.key !== "Enter" || !event.target.matches(".at-once input[type=text]")) return;
    event.preventDefault();
    event.target.closest(".at-once").querySelector("button").click();
  });
})();
