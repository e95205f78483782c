/* A button that is pressed twice by a hand that double-clicks is meant once. What is charged is charged once by itself,
   whoever presses; this is for what would be made twice, such as a draft, or be gone at the second press. */
"use strict";

(function () {
  const MEANT_ONCE_MS = 1500;
  let pressed = new WeakMap();

  /* A page that comes back from history was left by a press, and is pressed again on purpose. */
  window.addEventListener("pageshow", function () { pressed = new WeakMap(); });

  document.addEventListener("submit", function (event) {
    /* htmx and our own scripts have taken the form over: their pages stay, and may be sent again at once. */
    if (event.defaultPrevented) return;
    const by = event.submitter || event.target;
    const last = pressed.get(by);
    if (last !== undefined && event.timeStamp - last < MEANT_ONCE_MS) {
      event.preventDefault();
      return;
    }
    pressed.set(by, event.timeStamp);
  });
})();
