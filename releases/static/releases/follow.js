/* What a page follows is asked for again when the site gives no answer. Until then the page says so, and no longer shows
   how far it was. Without JavaScript site.css says it, and the browser asks again. */
"use strict";

(function () {
  const AGAIN_MS = 5000;
  /* Of a server that stands in front when the site itself is away. */
  const IS_AWAY = [502, 503, 504];

  function tryAgain(event) {
    const followed = event.target;
    if (!followed.matches("[data-follow]")) return;
    followed.classList.add("is-unanswered");
    setTimeout(function () { if (followed.isConnected) htmx.trigger(followed, "again"); }, AGAIN_MS);
  }

  document.addEventListener("htmx:sendError", tryAgain);
  document.addEventListener("htmx:timeout", tryAgain);
  document.addEventListener("htmx:responseError", function (event) {
    if (IS_AWAY.includes(event.detail.xhr.status)) tryAgain(event);
    /* The whole page says what is wrong: it was withdrawn, for one. */
    else if (event.target.matches("[data-follow]")) window.location.reload();
  });
})();
