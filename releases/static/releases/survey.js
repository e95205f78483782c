/* Randomises the answer to a survey in the respondent's browser. The radio buttons stand outside of the form, so what
   is chosen is never sent: the form holds the report alone. The same draw is made whatever is chosen. */
"use strict";

(function () {
  const survey = document.getElementById("survey");
  const numbers = Number(survey.dataset.numbers);
  const truth = Number(survey.dataset.truth);
  const other = Number(survey.dataset.other);
  const answers = Number(survey.dataset.answers);
  const form = survey.querySelector("form");
  const problem = document.getElementById("survey-problem");
  let shift = null;
  let isSent = false;

  /* An even draw from 0 to below - 1: a word beyond the largest multiple of `below` is drawn again. */
  function drawBelow(below) {
    const words = new Uint32Array(1);
    const end = 2 ** 32 - (2 ** 32 % below);
    do { crypto.getRandomValues(words); } while (words[0] >= end);
    return words[0] % below;
  }

  /* How far down the list the report is from the answer: 0 for the first `truth` numbers, then 1, 2, ... for the next
     `other` each. */
  function shiftOf(drawn) {
    return drawn < truth ? 0 : 1 + Math.floor((drawn - truth) / other);
  }

  function forget() {
    survey.querySelectorAll("input[type=radio]").forEach(function (radio) { radio.checked = false; });
    form.elements.report.value = "";
  }

  /* Numbers that are no law, or no source of chance: the page goes on saying that it cannot randomise. */
  const isLaw = [numbers, truth, other, answers].every(Number.isSafeInteger)
    && answers >= 2 && truth > other && other > 0 && truth + (answers - 1) * other === numbers && numbers < 2 ** 32;
  if (!isLaw || !window.crypto || !crypto.getRandomValues) return;

  form.addEventListener("submit", function (event) {
    // Drawn once: to send again, after the network failed, must not be a second draw about the same person.
    if (shift === null) shift = shiftOf(drawBelow(numbers));
    const chosen = survey.querySelector("input[type=radio]:checked");
    problem.hidden = chosen !== null;
    if (chosen === null || isSent) {
      event.preventDefault();
      return;
    }
    form.elements.report.value = String((Number(chosen.value) + shift) % answers);
    isSent = true;
  });

  // Nothing chosen is left for whoever uses this browser next, nor for one who comes back to this page.
  window.addEventListener("pagehide", forget);
  window.addEventListener("pageshow", function () { isSent = false; });

  forget();
  document.getElementById("by-hand").hidden = true;
  survey.hidden = false;
})();
