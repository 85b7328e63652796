// Says that the server is away, and goes by itself when it is back.

import { connection } from "./connection.js";
import { fill, h, say } from "./dom.js";
import { icon } from "./icons.js";
import { absolute, local } from "./time.js";

// A restart takes a second or two, which is not worth a banner.
const SILENCE_MS = 1500;

/** @param {HTMLElement} box */
export function startBanner(box) {
  const countdown = h("span", { class: "small" });
  let ticking = 0;

  const tick = () => {
    const left = Math.max(0, Math.ceil((connection.nextProbe - Date.now()) / 1000));
    say(countdown, left ? `Next try in ${left} s.` : "Trying now…");
  };
  const update = () => {
    clearInterval(ticking);
    if (!connection.isLost) {
      box.hidden = true;
      fill(box);
      return;
    }
    const since = connection.since;
    setTimeout(() => {
      if (connection.since !== since || !box.hidden) return;
      fill(
        box,
        icon("warning"),
        h("strong", null, "The orchestrator does not answer."),
        h(
          "span",
          { title: absolute(since) },
          `No connection since ${local(since, Date.now())}; what you see is from before.`,
        ),
        countdown,
        h("button", { type: "button", onclick: () => void connection.probe() }, "Try now"),
      );
      box.hidden = false;
    }, SILENCE_MS);
    ticking = setInterval(tick, 500);
    tick();
  };
  connection.addEventListener("change", update);
}
