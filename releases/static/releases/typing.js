/* What a page says of what was typed holds until somebody types on. Without JavaScript a page is made again each time. */
"use strict";

document.addEventListener("input", function (event) {
  const form = event.target.form;
  if (!form) return;
  /* The plan was made for what stood here before: it cannot be gone on with while the next is on its way. */
  const planned = document.getElementById("planned");
  if (planned && window.htmx && form.querySelector("[hx-select='#planned']")) planned.inert = true;
  /* Columns are checked together, below them: an error beside one is of the last time. */
  const row = event.target.closest("fieldset.row");
  if (!row) return;
  for (const said of row.querySelectorAll(".errorlist")) said.remove();
  for (const field of row.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
});
