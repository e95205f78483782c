/* Keeps, in this tab alone, what was typed into a form that stores nothing before it is sent: a reload brings it back.
   Without JavaScript, or without this file, "Save and come back later" is what keeps it, and "Declare". */
"use strict";

(function () {
  const form = document.querySelector("form[data-keep]");
  if (!form) return;
  const place = "kept " + location.pathname;
  const forgetting = document.querySelector("form[data-forget]");
  const note = document.querySelector("[data-kept]");

  function typed() {
    const fields = {};
    for (const field of form.elements) {
      if (field.name && !["hidden", "submit", "file", "checkbox"].includes(field.type)) fields[field.name] = field.value;
    }
    return JSON.stringify(fields);
  }

  const fresh = typed();
  const kept = sessionStorage.getItem(place);
  if (kept && kept !== fresh) {
    const fields = JSON.parse(kept);
    for (const field of form.elements) {
      if (field.name in fields && !["hidden", "file", "checkbox"].includes(field.type)) field.value = fields[field.name];
    }
    form.dispatchEvent(new Event("change", { bubbles: true }));
    if (note) note.hidden = false;
  }

  form.addEventListener("input", function () {
    sessionStorage.setItem(place, typed());
  });
  form.addEventListener("submit", function () {
    sessionStorage.removeItem(place);
  });
  if (forgetting) {
    forgetting.addEventListener("submit", function () {
      sessionStorage.removeItem(place);
    });
  }
  if (note) {
    note.querySelector("button").addEventListener("click", function () {
      sessionStorage.removeItem(place);
      location.reload();
    });
  }
})();
