// The sign-up form while somebody uses it: guess the time zone, and show what the topics would have sent.
// Without this script, the button "Show what I would get" does the same.
"use strict";

const form = document.getElementById("sign-up");
const panel = document.querySelector("#topics .panel");
const preview = document.getElementById("preview");
const PAUSE = 350; // milliseconds without typing

function guessZone(field) {
  if (!field.hasAttribute("data-guess")) return;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) field.value = zone;
}

function listZones() {
  const zones = Intl.supportedValuesOf?.("timeZone") ?? [];
  document.getElementById("zones").replaceChildren(...zones.map((zone) => new Option(zone)));
}

let waiting, running, liked;

// Change the page above the papers, and keep the paper that was just liked where it is.
function hold(change) {
  const before = liked?.getBoundingClientRect().top;
  change();
  if (liked) scrollBy({ top: liked.getBoundingClientRect().top - before, behavior: "instant" });
}

async function update() {
  running?.abort();
  running = new AbortController();
  const sent = new FormData(form);
  sent.delete("email"); // nothing but the button sends the address
  try {
    const answer = await fetch("/preview", { method: "POST", body: sent, signal: running.signal });
    const page = await answer.text();
    const focused = document.activeElement?.name === "topic" ? document.activeElement.value : null;
    hold(() => { preview.innerHTML = page; });
    if (sent.get("library")?.size) form.elements.library.value = ""; // its topics are in the preview now
    for (const field of preview.querySelectorAll("[name=topic]")) if (field.value === focused) field.focus();
  } catch {
    // the network failed, or a newer request is under way: keep what is shown
  }
}

function changed(event) {
  const field = event.target;
  if (field.form !== form || field.name === "email") return;
  liked = field.name === "like" ? field.labels[0] : null;
  if (liked) hold(() => { form.elements.on.value = "topics"; });
  panel.disabled = form.elements.on.value === "all"; // hidden fields are not sent
  if (field.name === "on") return;
  clearTimeout(waiting);
  waiting = setTimeout(update, field.type === "text" ? PAUSE : 0);
}

if (form) {
  const zone = form.elements.timezone;
  document.documentElement.classList.add("is-live");
  guessZone(zone);
  zone.addEventListener("focus", listZones, { once: true });
  document.addEventListener("input", changed);
  panel.disabled = form.elements.on.value === "all";
  if (panel.querySelector(":checked") || document.querySelector("[name=like]:checked")) update();
}
