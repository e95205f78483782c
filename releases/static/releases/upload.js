/* Says how much of a file has been sent, which browsers show nowhere. Without JavaScript, or without this file, the form
   is sent as any other. */
"use strict";

(function () {
  /* An estimate up to so many times what was said is no news. */
  const AS_SAID = 1.25;

  function begin() {
    const form = document.querySelector("form[data-upload]");
    if (form) form.addEventListener("submit", send);
  }

  function duration(seconds) {
    if (seconds < 90) return "about " + Math.max(1, Math.round(seconds)) + " s";
    return seconds < 5400 ? "about " + Math.round(seconds / 60) + " min" : "about " + Math.round(seconds / 3600) + " h";
  }

  function warn(event) {
    event.preventDefault();
  }

  /* The server would read all of it before it says so, and answer with a page that knows nothing of what was typed. */
  function isTooLarge(form) {
    const field = form.querySelector("input[type=file]");
    if (!field.files.length || !(field.files[0].size > Number(form.dataset.cap))) return false;
    const item = document.createElement("li");
    item.textContent = field.files[0].name + ": " + form.dataset.tooLarge;
    const list = document.createElement("ul");
    list.className = "errorlist";
    list.append(item);
    document.getElementById(field.id + "_wrong").replaceChildren(list);
    field.focus();
    return true;
  }

  function send(event) {
    event.preventDefault();
    const form = event.target;
    if (isTooLarge(form)) return;
    const sending = form.querySelector("[data-sending]");
    const bar = sending.querySelector("progress");
    const label = sending.querySelector("label");
    const broken = form.querySelector("[data-broken]");
    const button = form.querySelector(".actions button");
    const request = new XMLHttpRequest();
    const begun = performance.now();
    let least = Infinity;

    function show(share, words) {
      bar.value = share;
      /* What has been sent can no longer be stopped here. */
      sending.querySelector("p").hidden = share === 1;
      if (label.textContent !== words) label.textContent = words;
    }

    function abort() {
      request.abort();
    }

    function stop() {
      window.removeEventListener("beforeunload", warn);
      window.removeEventListener("pagehide", abort);
      sending.hidden = true;
      button.disabled = false;
    }

    request.upload.addEventListener("progress", function (event) {
      if (!event.lengthComputable) return;
      const share = event.loaded / event.total;
      const seconds = (performance.now() - begun) / 1000;
      let words = "Sending the file: " + Math.floor(100 * share) + "% sent";
      /* It never counts up: where it takes longer than was said, nothing is said. */
      if (seconds > 2 && share > 0 && share < 1) {
        const left = seconds * (1 - share) / share;
        const isLonger = left > AS_SAID * least;
        least = Math.min(least, left);
        if (!isLonger) words += ", " + duration(least) + " left";
      }
      show(share, share < 1 ? words : "Sent. The server looks at its first lines");
    });
    request.addEventListener("abort", stop);
    request.addEventListener("error", function () {
      stop();
      broken.hidden = false;
    });
    request.addEventListener("load", function () {
      stop();
      const address = request.getResponseHeader("Location");
      if (request.status === 201 && address) {
        location.assign(address);
        return;
      }
      if (new URL(request.responseURL).pathname !== location.pathname) {
        /* Signed out in the meantime. */
        location.assign(request.responseURL);
        return;
      }
      const main = new DOMParser().parseFromString(request.responseText, "text/html").querySelector("main");
      if (!main) {
        broken.hidden = false;
        return;
      }
      document.querySelector("main").replaceWith(main);
      const wrong = main.querySelector("[aria-invalid=true]") || main.querySelector("h1");
      if (wrong.matches("h1")) wrong.tabIndex = -1;
      wrong.focus();
      begin();
    });

    window.addEventListener("beforeunload", warn);
    /* A browser may keep a page that was left, and go on sending. */
    window.addEventListener("pagehide", abort);
    sending.querySelector("[data-stop]").onclick = abort;
    broken.hidden = true;
    form.querySelectorAll(".wrong").forEach(function (wrong) { wrong.replaceChildren(); });
    button.disabled = true;
    show(0, "Sending the file: 0% sent");
    sending.hidden = false;
    request.open("POST", location.href);
    request.setRequestHeader("X-Requested-With", "XMLHttpRequest");
    request.send(new FormData(form));
  }

  begin();
})();
