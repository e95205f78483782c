/* Says on the page why a passkey did not work; allauth's own script tells it to the console alone. */
"use strict";

document.addEventListener("allauth.error", function (event) {
  const place = document.getElementById("passkey-error");
  if (!place) return;
  event.preventDefault();
  const reason = event.detail.exception || {};
  const said = {
    NotAllowedError: "No passkey was given: it was cancelled, took too long, or this device has none for this site.",
    InvalidStateError: "This device has a passkey for your account already.",
    SecurityError: "Browsers give passkeys only to sites with a name and HTTPS, or at localhost; not to this address.",
  };
  place.textContent = said[reason.name] || "The passkey did not work. Try again, or sign in another way.";
  place.hidden = false;
});
